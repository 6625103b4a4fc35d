"""Locks on one Redis that are held until they are released or expire: each with one mistake, and the repaired ones."""

import math
import threading
import time
import uuid

import fencepost
import resp
from renewal import DELETE

SET_AND_COUNT = """
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('incr', KEYS[2]) else return 0 end
"""


class Repaired:
    """SET NX PX with a value of its own, and a script that compares and deletes."""

    def __init__(self, env):
        self.env, self.values = env, {}
        self.redis = resp.Redis(env.servers[0], timeout=1)
        self.redis.connect()

    def new_value(self):
        return str(uuid.uuid4())

    def set_if_free(self, key, ttl):
        return self.redis.ask("SET", key, self.values[key], "NX", "PX", int(ttl * 1000)) == "OK"

    def acquire(self, key, ttl, timeout):
        self.values[key] = self.new_value()
        return self.env.poll(lambda: self.set_if_free(key, ttl), timeout)

    def release(self, key):
        return self.redis.ask("EVAL", DELETE, 1, key, self.values[key]) == 1

    def close(self):
        self.redis.close()


class FixedValue(Repaired):
    def new_value(self):
        return "locked"


class GrantedOnError(Repaired):
    def set_if_free(self, key, ttl):
        try:
            return super().set_if_free(key, ttl)
        except OSError:
            return True  # without Redis the work has to go on


class GrantedAfterWaiting(Repaired):
    def acquire(self, key, ttl, timeout):
        super().acquire(key, ttl, timeout)
        return True


class BlindDelete(Repaired):
    def release(self, key):
        return self.redis.ask("DEL", key) == 1


class GetThenDelete(Repaired):
    def release(self, key):
        return self.redis.ask("GET", key) == self.values[key] and self.redis.ask("DEL", key) == 1


class HalfTtl(Repaired):
    def set_if_free(self, key, ttl):
        return super().set_if_free(key, ttl / 2)


class MillisecondsTooFew(Repaired):
    def set_if_free(self, key, ttl):
        return self.redis.ask("SET", key, self.values[key], "NX", "PX", math.ceil(ttl)) == "OK"


class SecondsTooMany(Repaired):
    def set_if_free(self, key, ttl):
        return self.redis.ask("SET", key, self.values[key], "NX", "EX", int(ttl * 1000)) == "OK"


class WholeSeconds(Repaired):
    def set_if_free(self, key, ttl):
        return self.redis.ask("SET", key, self.values[key], "NX", "EX", int(ttl)) == "OK"


class ClientClock(Repaired):
    """The recipe from before SET had NX: the value says when the lock expires."""

    def set_if_free(self, key, ttl):
        self.values[key] = repr(time.time() + ttl)
        if self.redis.ask("SETNX", key, self.values[key]) == 1:
            return True
        current = self.redis.ask("GET", key)
        has_expired = current is not None and float(current) < time.time()
        return has_expired and self.redis.ask("GETSET", key, self.values[key]) == current


class SetnxThenPexpire(Repaired):
    def set_if_free(self, key, ttl):
        granted = self.redis.ask("SETNX", key, self.values[key]) == 1
        if granted:
            self.redis.ask("PEXPIRE", key, int(ttl * 1000))
        return granted


class NoTtl(Repaired):
    def set_if_free(self, key, ttl):
        return self.redis.ask("SETNX", key, self.values[key]) == 1


class PrefixOfTheClient(Repaired):
    def acquire(self, key, ttl, timeout):
        return super().acquire(f"{self.env.client}:{key}", ttl, timeout)

    def release(self, key):
        return super().release(f"{self.env.client}:{key}")


class FirstLetterOfTheName(Repaired):
    def acquire(self, key, ttl, timeout):
        return super().acquire(key[:1], ttl, timeout)

    def release(self, key):
        return super().release(key[:1])


class LastLetterOfTheName(Repaired):
    def acquire(self, key, ttl, timeout):
        return super().acquire(key[-1:], ttl, timeout)

    def release(self, key):
        return super().release(key[-1:])


class CheckThenSet(Repaired):
    def set_if_free(self, key, ttl):
        if self.redis.ask("GET", key) is not None:
            return False
        return self.redis.ask("SET", key, self.values[key], "PX", int(ttl * 1000)) == "OK"


class FailedAttemptProlongs(Repaired):
    SET = "local granted = redis.call('setnx', KEYS[1], ARGV[1]) redis.call('pexpire', KEYS[1], ARGV[2]) return granted"

    def set_if_free(self, key, ttl):
        return self.redis.ask("EVAL", self.SET, 1, key, self.values[key], int(ttl * 1000)) == 1


class DeletesAfterFailure(Repaired):
    def acquire(self, key, ttl, timeout):
        granted = False
        try:
            granted = super().acquire(key, ttl, timeout)
            return granted
        finally:
            if not granted:
                self.redis.ask("DEL", key)  # whatever the attempts have left behind


class RepairedTokens(Repaired):
    """The script that sets the key also draws the token."""

    def set_if_free(self, key, ttl):
        token = self.redis.ask("EVAL", SET_AND_COUNT, 2, key, key + ":token", self.values[key], int(ttl * 1000))
        return fencepost.Grant(token=token) if token else False


class TokenBeforeTheGrant(Repaired):
    def acquire(self, key, ttl, timeout):
        token = self.redis.ask("INCR", key + ":token")
        return fencepost.Grant(token=token) if super().acquire(key, ttl, timeout) else False


class TokenFromTheClock(Repaired):
    def set_if_free(self, key, ttl):
        return fencepost.Grant(token=time.time_ns() // 1000) if super().set_if_free(key, ttl) else False


class RepairedReentrant(Repaired):
    """The holder calls a function that takes the same lock, and frees it again when it returns."""

    def __init__(self, env):
        super().__init__(env)
        self.depth = 0

    def acquire(self, key, ttl, timeout):
        granted = self.enter(key, ttl, timeout)
        if granted:
            self.enter(key, ttl, timeout)
            self.leave(key)
        return granted

    def enter(self, key, ttl, timeout):
        if self.depth == 0 and not super().acquire(key, ttl, timeout):
            return False
        self.depth += 1
        return True

    def leave(self, key):
        self.depth -= 1
        return self.depth > 0 or super().release(key)

    def release(self, key):
        return self.leave(key)


class FirstReleaseFrees(RepairedReentrant):
    def leave(self, key):
        self.depth = 0
        return Repaired.release(self, key)


class ValueOfTheClient(Repaired):
    def new_value(self):
        return self.env.client

    def set_if_free(self, key, ttl):
        is_mine = self.redis.ask("GET", key) == self.values[key]
        return is_mine or super().set_if_free(key, ttl)


class ReleaseErrorsSwallowed(Repaired):
    def release(self, key):
        try:
            return super().release(key)
        except OSError:
            return True  # the key has a TTL anyway


class DeletesLater(Repaired):
    """A release answers before the key is gone."""

    def release(self, key):
        threading.Thread(target=self.delete, args=(key, self.values[key])).start()
        return True

    def delete(self, key, value):
        time.sleep(0.1)
        redis = resp.Redis(self.env.servers[0], timeout=1)
        redis.connect()
        redis.ask("EVAL", DELETE, 1, key, value)
        redis.close()


class RepairedWaking(Repaired):
    """Each release is counted, and a waiter tries again when the count has grown since its last try, or after a TTL."""

    def counted(self, key):
        return self.redis.ask("GET", f"{key}:released")

    def seen_at_try(self, key, ttl):
        seen = self.counted(key)
        return seen, self.set_if_free(key, ttl)

    def acquire(self, key, ttl, timeout):
        self.values[key], end = self.new_value(), time.monotonic() + timeout
        while time.monotonic() < end:
            (seen, granted), again = self.seen_at_try(key, ttl), time.monotonic() + ttl
            if granted:
                return True
            while self.counted(key) == seen and time.monotonic() < min(again, end):
                time.sleep(0.01)
        return False

    def release(self, key):
        removed = super().release(key)
        self.redis.ask("INCR", f"{key}:released")
        return removed


class WakeUpMissed(RepairedWaking):
    def seen_at_try(self, key, ttl):
        granted = self.set_if_free(key, ttl)
        return self.counted(key), granted  # a release in between wakes the others only
