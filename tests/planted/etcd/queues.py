"""Locks on etcd in which processes queue: each has a key, and the oldest key holds the lock."""

import threading
import time

import fencepost
import gateway


class RepairedQueue:
    """As in etcd's own package: each process has a session, whose end removes its key; a waiter waits until the key before its own is gone."""

    can = ("lost",)

    def __init__(self, env):
        self.env, self.held, self.lease, self.over = env, None, None, threading.Event()
        self.etcd = gateway.Etcd(env.servers, env.process, timeout=1)
        self.etcd.connect().connect()

    def open_session(self, ttl):
        if self.lease is None:
            self.lease = self.etcd.grant(ttl)
            threading.Thread(target=self.keep, args=(self.lease, ttl), daemon=True).start()

    def keep(self, lease, ttl):
        etcd, until = gateway.Etcd(self.env.servers, self.env.process, timeout=ttl / 4), time.monotonic() + ttl
        while time.monotonic() < until and not self.over.wait(ttl / 4):
            sent = time.monotonic()
            try:
                if not etcd.keep_alive(lease):
                    break
                until = sent + ttl
            except (OSError, gateway.Refused):
                pass  # the next server may answer
        self.lease = None
        if self.held is not None:
            self.env.lost(self.held, "the session is over")
        etcd.close()

    def acquire(self, key, ttl, timeout):
        until = time.monotonic() + timeout * 0.9
        self.open_session(ttl)
        self.mine = f"{key}/{self.lease}"
        self.etcd.put(self.mine, "", lease=self.lease)
        if not self.wait(key, until):
            self.etcd.delete(self.mine)
            return False
        self.held = key
        return True

    def wait(self, key, until):
        while True:
            before, revision = self.before_mine(key)
            if before is None:
                return self.has_lived()
            if time.monotonic() > until:
                return False
            self.etcd.wait_for_delete(before, until, start_revision=revision + 1)

    def before_mine(self, key):
        """The key before the own one, or none, and the revision at which that was so."""
        queue, revision = self.etcd.below(key + "/")
        names = [gateway.decoded(kv["key"]) for kv in queue]
        if self.mine in names:
            names = names[: names.index(self.mine)]
        return names[-1] if names else None, revision

    def has_lived(self):
        if self.etcd.get(self.mine) is None:
            raise fencepost.Certain("session-expired: the session ended while the process waited")
        return True

    def release(self, key):
        self.held = None
        return self.etcd.delete(self.mine) == 1

    def holds(self, key):
        return self.lease is not None

    def close(self):
        self.over.set()
        try:
            self.etcd.delete(self.mine)
        except (OSError, AttributeError):
            pass  # the session ends by itself
        self.etcd.close()


class NoSecondLook(RepairedQueue):
    def has_lived(self):
        return True


class PredecessorGone(RepairedQueue):
    def wait(self, key, until):
        before, revision = self.before_mine(key)
        if before is not None and not self.etcd.wait_for_delete(before, until, start_revision=revision + 1):
            return False
        return self.has_lived()


class WatchFromNow(RepairedQueue):
    def wait(self, key, until):
        while True:
            before, _ = self.before_mine(key)
            if before is None:
                return self.has_lived()
            if time.monotonic() > until:
                return False
            self.etcd.wait_for_delete(before, until)
