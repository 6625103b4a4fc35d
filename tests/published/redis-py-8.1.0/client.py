"""redis-py's Lock with `timeout=0`, which lasts until it is released; its holder prolongs it by `reacquire`. `--ttl`: with a TTL."""

import sys

import fencepost
import redis
from redis.exceptions import LockNotOwnedError


class RedisPy:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.redis = redis.Redis(env.servers[0].host, env.servers[0].port)
        self.redis.ping()
        self.close = self.redis.close

    def acquire(self, key, ttl, timeout):
        lock = self.locks[key] = self.redis.lock(key, timeout=ttl if "--ttl" in sys.argv else 0)
        return self.env.poll(lambda: lock.acquire(blocking=False), timeout)

    def prolong(self, key, ttl, timeout):
        try:
            return self.locks[key].reacquire()
        except LockNotOwnedError:
            return False

    def release(self, key):
        try:
            self.locks.pop(key).release()
            return True
        except LockNotOwnedError:
            return False  # its script compared the token and deleted nothing


fencepost.run(RedisPy, can=["prolong"])
