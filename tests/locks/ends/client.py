"""Gives its locks back on SIGTERM. The mistake of `--keeps`: it ends, and leaves them to their TTL."""

import os
import signal
import sys

import fencepost
import redis_lock

HELD = {}


class Ends(redis_lock.RedisLock):
    def acquire(self, key, ttl, timeout):
        granted = super().acquire(key, ttl, timeout)
        if granted:
            HELD[key] = (self.env, self.values[key])
        return granted

    def release(self, key):
        HELD.pop(key, None)
        return super().release(key)


def end(*_):
    for key, (env, value) in list(HELD.items()) if "--keeps" not in sys.argv else []:
        redis_lock.RedisLock(env).ask("EVAL", redis_lock.DELETE, 1, key, value)
    os._exit(0)


signal.signal(signal.SIGTERM, end)
fencepost.run(Ends, can=["frees-on-terminate"])
