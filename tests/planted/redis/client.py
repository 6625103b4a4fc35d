"""Locks on one Redis, each with one mistake, and the repaired ones beside them: `client.py NAME`."""

import sys

import fencepost
import plain
import renewing

LOCKS = {
    "repaired": plain.Repaired,
    "fixed-value": plain.FixedValue,
    "granted-on-error": plain.GrantedOnError,
    "granted-after-waiting": plain.GrantedAfterWaiting,
    "blind-delete": plain.BlindDelete,
    "get-then-delete": plain.GetThenDelete,
    "half-ttl": plain.HalfTtl,
    "milliseconds-too-few": plain.MillisecondsTooFew,
    "seconds-too-many": plain.SecondsTooMany,
    "whole-seconds": plain.WholeSeconds,
    "client-clock": plain.ClientClock,
    "setnx-then-pexpire": plain.SetnxThenPexpire,
    "no-ttl": plain.NoTtl,
    "prefix-of-the-client": plain.PrefixOfTheClient,
    "first-letter-of-the-name": plain.FirstLetterOfTheName,
    "last-letter-of-the-name": plain.LastLetterOfTheName,
    "check-then-set": plain.CheckThenSet,
    "failed-attempt-prolongs": plain.FailedAttemptProlongs,
    "deletes-after-failure": plain.DeletesAfterFailure,
    "repaired-tokens": plain.RepairedTokens,
    "token-before-the-grant": plain.TokenBeforeTheGrant,
    "token-from-the-clock": plain.TokenFromTheClock,
    "repaired-reentrant": plain.RepairedReentrant,
    "first-release-frees": plain.FirstReleaseFrees,
    "value-of-the-client": plain.ValueOfTheClient,
    "release-errors-swallowed": plain.ReleaseErrorsSwallowed,
    "deletes-later": plain.DeletesLater,
    "repaired-waking": plain.RepairedWaking,
    "wake-up-missed": plain.WakeUpMissed,
    "repaired-renewing": renewing.RepairedRenewing,
    "renewal-dies-silently": renewing.RenewalDiesSilently,
    "renews-anyones-key": renewing.RenewsAnyonesKey,
    "renewal-creates-anew": renewing.RenewalCreatesAnew,
    "renewal-outlives-release": renewing.RenewalOutlivesRelease,
    "repaired-passing-on": renewing.RepairedPassingOn,
    "passed-on-beyond-ttl": renewing.PassedOnBeyondTtl,
}

lock = LOCKS[sys.argv[1]]
fencepost.run(lock, can=getattr(lock, "can", ()))
