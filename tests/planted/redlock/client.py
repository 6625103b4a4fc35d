"""Redlock on five Redis servers, each variant with one mistake, and the repaired ones beside them: `client.py NAME`."""

import sys
import time
import uuid

import fencepost
import resp
from renewal import DELETE, RENEW, Renewing

RENEW_OR_SET = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end
return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0
"""


class Repaired:
    """A majority of all servers, asked one after the other; what the asking took, and the drift of clocks, is taken off the TTL."""

    now = staticmethod(time.monotonic)

    def __init__(self, env):
        self.env, self.values = env, {}
        self.servers = [resp.Redis(server, timeout=env.ttl / 10) for server in env.servers]
        self.quorum = len(self.servers) // 2 + 1

    def acquire(self, key, ttl, timeout):
        # A random rest, since processes that split the votes would otherwise meet again.
        return self.env.poll(lambda: self.attempt(key, ttl), timeout, rest=(0.005, 0.05))

    def attempt(self, key, ttl):
        self.values[key] = str(uuid.uuid4())
        begun = self.now()
        self.granting = [server for server in self.servers if self.votes(server, key, ttl)]
        validity = self.validity(ttl, begun)
        if len(self.granting) >= self.quorum and validity > 0:
            return fencepost.Grant(validity=validity)
        self.free(key)
        return False

    def validity(self, ttl, begun):
        return ttl - (self.now() - begun) - ttl * 0.01 - 0.002

    def votes(self, server, key, ttl):
        try:
            return server.ask("SET", key, self.values[key], "NX", "PX", int(ttl * 1000)) == "OK"
        except (OSError, resp.Refused):
            return False

    def free(self, key):
        for server in self.servers:
            try:
                server.ask("EVAL", DELETE, 1, key, self.values[key])
            except (OSError, resp.Refused):
                pass  # the key expires

    def release(self, key):
        self.free(key)

    def close(self):
        for server in self.servers:
            server.close()


class MajorityOffByOne(Repaired):
    def __init__(self, env):
        super().__init__(env)
        self.quorum = len(self.servers) // 2


class ElapsedTimeIgnored(Repaired):
    def validity(self, ttl, begun):
        return ttl


class ElapsedByTheWallClock(Repaired):
    now = staticmethod(time.time)


class ErrorsAsVotes(Repaired):
    def votes(self, server, key, ttl):
        try:
            return server.ask("SET", key, self.values[key], "NX", "PX", int(ttl * 1000)) is not None
        except (OSError, resp.Refused):
            return True  # a server that is down cannot have granted it to another


class VotesOfAllAttempts(Repaired):
    def acquire(self, key, ttl, timeout):
        self.count = 0
        return super().acquire(key, ttl, timeout)

    def attempt(self, key, ttl):
        self.values[key] = str(uuid.uuid4())
        begun = self.now()
        for server in self.servers:
            self.count += self.votes(server, key, ttl)
        validity = self.validity(ttl, begun)
        if self.count >= self.quorum and validity > 0:
            return fencepost.Grant(validity=validity)
        self.free(key)
        return False


class MajorityOfTheReached(Repaired):
    def attempt(self, key, ttl):
        self.reached = 0
        return super().attempt(key, ttl)

    def votes(self, server, key, ttl):
        try:
            granted = server.ask("SET", key, self.values[key], "NX", "PX", int(ttl * 1000)) == "OK"
        except (OSError, resp.Refused):
            return False
        self.reached += 1
        self.quorum = self.reached // 2 + 1
        return granted


class RepairedRenewing(Renewing, Repaired):
    """A thread prolongs the lock on a majority of all servers, every third of its TTL, and reports a lock that is lost."""

    script = RENEW

    def acquire(self, key, ttl, timeout):
        granted = super().acquire(key, ttl, timeout)
        if granted:
            self.begin(key, ttl, granted.validity)
        return granted

    def keep(self, key, ttl, validity, released):
        until = time.monotonic() + validity
        # The connections of the process are idle while it holds the lock: `release` waits for this thread.
        while not released.wait(max(0, min(ttl / 3, until - time.monotonic()))):
            sent = time.monotonic()
            if self.prolong(key, ttl):
                self.env.renewed(key, time.monotonic() - sent)
                until = sent + ttl * 0.99 - 0.002
            if time.monotonic() > until:
                return self.env.lost(key, "not renewed within the TTL")

    def prolong(self, key, ttl):
        return sum(self.prolongs(server, key, ttl) for server in self.servers) >= self.quorum

    def prolongs(self, server, key, ttl):
        try:
            return server.ask("EVAL", self.script, 1, key, self.values[key], int(ttl * 1000)) == 1
        except (OSError, resp.Refused):
            return False  # the next server may say yes


class ExtensionAcquiresAnew(RepairedRenewing):
    script = RENEW_OR_SET


class ExtensionOverTheGranting(RepairedRenewing):
    def prolong(self, key, ttl):
        return sum(self.prolongs(server, key, ttl) for server in self.granting) >= len(self.granting) // 2 + 1


LOCKS = {
    "repaired": Repaired,
    "majority-off-by-one": MajorityOffByOne,
    "elapsed-time-ignored": ElapsedTimeIgnored,
    "elapsed-by-the-wall-clock": ElapsedByTheWallClock,
    "errors-as-votes": ErrorsAsVotes,
    "votes-of-all-attempts": VotesOfAllAttempts,
    "majority-of-the-reached": MajorityOfTheReached,
    "repaired-renewing": RepairedRenewing,
    "extension-acquires-anew": ExtensionAcquiresAnew,
    "extension-over-the-granting": ExtensionOverTheGranting,
}
lock = LOCKS[sys.argv[1]]
fencepost.run(lock, can=getattr(lock, "can", ()))
