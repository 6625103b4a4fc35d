"""The mistake: all processes of a client share a mutex, and an acquire keeps it until it ends."""

import threading

import fencepost
import redis_lock

ONE_AT_A_TIME = threading.Lock()


class Blocks(redis_lock.RedisLock):
    def acquire(self, key, ttl, timeout):
        with ONE_AT_A_TIME:
            return super().acquire(key, ttl, timeout)

    def release(self, key):
        with ONE_AT_A_TIME:
            return super().release(key)


fencepost.run(Blocks)
