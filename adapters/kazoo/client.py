"""kazoo's Lock: a new one for each acquire; `--reused`: one for each key. The session's time-out is the TTL.

`--read-write`: its WriteLock and ReadLock; as a semaphore: its Semaphore; `--election`: its Election.
"""

import sys
import threading

import fencepost
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import LockTimeout


class Campaign:
    """Election's `run` in a thread of its own, whose function leads until it is released."""

    def __init__(self, election):
        self.election, self.mutex, self.decided, self.over = election, threading.Lock(), threading.Event(), threading.Event()
        self.is_acquired, self.given_up = False, False
        self.thread = threading.Thread(target=election.run, args=(self.lead,), daemon=True)

    def lead(self):
        with self.mutex:
            self.is_acquired = not self.given_up
        self.decided.set()
        if self.is_acquired:
            self.over.wait()

    def acquire(self, timeout):
        self.thread.start()
        self.decided.wait(timeout)
        with self.mutex:
            self.given_up = not self.is_acquired
        if self.given_up:
            self.election.cancel()
        return self.is_acquired

    def release(self):
        self.over.set()
        self.thread.join()


class Kazoo:
    def __init__(self, env):
        self.env, self.locks = env, {}
        access, more = env.access, {}
        if access.tls:
            more = {"use_ssl": True, "ca": access.ca, "certfile": access.certificate, "keyfile": access.key}
        if access.password:
            more["sasl_options"] = {"mechanism": "DIGEST-MD5", "username": access.user, "password": access.password}
        self.client = KazooClient(",".join(server.address for server in env.servers), timeout=env.ttl, **more)
        self.client.add_listener(self.changed)
        self.client.start(timeout=2)

    def changed(self, state):
        for key in list(self.locks) if state == KazooState.LOST else []:
            self.env.lost(key, "the session is lost")

    def acquire(self, key, ttl, timeout):
        if "--election" in sys.argv:
            return self.take(key, lambda path: Campaign(self.client.Election(path)), timeout)
        return self.take(key, self.client.WriteLock if "--read-write" in sys.argv else self.client.Lock, timeout)

    def acquire_shared(self, key, ttl, timeout):
        return self.take(key, self.client.ReadLock, timeout)

    def acquire_permit(self, key, permits, ttl, timeout):
        return self.take(key, lambda path: self.client.Semaphore(path, max_leases=permits), timeout)

    def take(self, key, make, timeout):
        if key not in self.locks or "--reused" not in sys.argv:
            self.locks[key] = make("/fencepost/" + key)
        try:
            return self.locks[key].acquire(timeout=timeout * 0.9)
        except LockTimeout:
            return False

    def release(self, key):
        self.locks[key].release()

    def holds(self, key):
        return self.client.state == KazooState.CONNECTED and self.locks[key].is_acquired

    def close(self):
        self.client.stop()
        self.client.close()


fencepost.run(Kazoo, can=["lost"])
