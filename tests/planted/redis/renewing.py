"""Locks on one Redis that are renewed, or passed on among the processes of a client."""

import threading
from time import monotonic

import resp
from plain import Repaired
from renewal import RENEW, Renewing


class RepairedRenewing(Renewing, Repaired):
    """A thread prolongs the lock every third of its TTL, tries again after an error, and reports a lock that is lost."""

    def acquire(self, key, ttl, timeout):
        granted = super().acquire(key, ttl, timeout)
        if granted:
            self.begin(key, ttl, self.values[key])
        return granted

    def keep(self, key, ttl, value, released):
        redis, until = resp.Redis(self.env.servers[0], timeout=ttl / 3), monotonic() + ttl
        while not released.wait(ttl / 3):
            sent = monotonic()
            try:
                if not self.prolong(redis, key, ttl, value):
                    self.env.lost(key, "the key is another's, or has expired")
                    break
                self.env.renewed(key, monotonic() - sent)
                until = sent + ttl
            except OSError:
                if monotonic() > until:
                    self.env.lost(key, "not renewed within the TTL")
                    break
        redis.close()

    def prolong(self, redis, key, ttl, value):
        return redis.ask("EVAL", RENEW, 1, key, value, int(ttl * 1000)) == 1


class RenewalDiesSilently(RepairedRenewing):
    def keep(self, key, ttl, value, released):
        redis = resp.Redis(self.env.servers[0], timeout=ttl / 3)
        try:
            while not released.wait(ttl / 3):
                sent = monotonic()
                if not self.prolong(redis, key, ttl, value):
                    self.env.lost(key, "the key is another's, or has expired")
                    return
                self.env.renewed(key, monotonic() - sent)
        except OSError:
            pass  # the holder will notice when it releases
        finally:
            redis.close()


class RenewsAnyonesKey(RepairedRenewing):
    def prolong(self, redis, key, ttl, value):
        return redis.ask("PEXPIRE", key, int(ttl * 1000)) == 1


class RenewalCreatesAnew(RepairedRenewing):
    def prolong(self, redis, key, ttl, value):
        return redis.ask("SET", key, value, "PX", int(ttl * 1000)) == "OK"


class RenewalOutlivesRelease(RenewalCreatesAnew):
    # No other process can write a key that is held, so that a renewal may set it: but only while it is held.
    def release(self, key):
        return Repaired.release(self, key)


class RepairedPassingOn(Repaired):
    """A release gives the lock to a process of the same client that waits for it; that process prolongs it first.
    Now and then it is released for all, so that other clients get it, too."""

    passed_on, waiting, times, mutex = {}, {}, {}, threading.Lock()

    def acquire(self, key, ttl, timeout):
        with self.mutex:
            self.waiting[key] = self.waiting.get(key, 0) + 1
        try:
            return super().acquire(key, ttl, timeout)
        finally:
            with self.mutex:
                self.waiting[key] -= 1

    def set_if_free(self, key, ttl):
        with self.mutex:
            passed_on = self.passed_on.pop(key, None)
        if passed_on is None:
            return super().set_if_free(key, ttl)
        if not self.is_still_valid(key, passed_on, ttl):
            return False
        self.values[key] = passed_on
        return True

    def is_still_valid(self, key, value, ttl):
        return self.redis.ask("EVAL", RENEW, 1, key, value, int(ttl * 1000)) == 1

    def release(self, key):
        with self.mutex:
            self.times[key] = (self.times.get(key, 0) + 1) % 4
            if self.waiting.get(key) and self.times[key]:
                self.passed_on[key] = self.values[key]
                return None
        return super().release(key)


class PassedOnBeyondTtl(RepairedPassingOn):
    def is_still_valid(self, key, value, ttl):
        return True
