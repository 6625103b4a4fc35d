"""Locks on etcd, each with one mistake, and the repaired ones beside them: `client.py NAME`."""

import sys

import fencepost
import keys
import queues

LOCKS = {
    "repaired": keys.Repaired,
    "lease-not-attached": keys.LeaseNotAttached,
    "get-then-put": keys.GetThenPut,
    "with-enters-without": keys.WithEntersWithout,
    "repaired-shared-lease": keys.RepairedSharedLease,
    "shared-lease-revoked": keys.SharedLeaseRevoked,
    "repaired-queue": queues.RepairedQueue,
    "no-second-look": queues.NoSecondLook,
    "predecessor-gone": queues.PredecessorGone,
    "watch-from-now": queues.WatchFromNow,
}
lock = LOCKS[sys.argv[1]]
fencepost.run(lock, can=getattr(lock, "can", ()))
