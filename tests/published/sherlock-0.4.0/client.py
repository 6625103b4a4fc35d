"""sherlock's RedisLock, whose holder prolongs it by `renew`; `--fixed`: the version in which the report is resolved."""

import sys

if "--fixed" in sys.argv:
    sys.path.insert(0, "fixed")

import fencepost
import redis
import sherlock


class Sherlock:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.redis = redis.Redis(env.servers[0].host, env.servers[0].port)
        self.redis.ping()
        self.close = self.redis.close

    def acquire(self, key, ttl, timeout):
        self.locks[key] = lock = sherlock.RedisLock(key, client=self.redis, expire=int(ttl))  # EXPIRE takes whole seconds
        return self.env.poll(lambda: lock.acquire(blocking=False), timeout)

    def prolong(self, key, ttl, timeout):
        return self.locks[key].renew()

    def release(self, key):
        try:
            self.locks.pop(key).release()
            return True
        except sherlock.LockException:
            return False  # its script compared the owner and deleted nothing


fencepost.run(Sherlock, can=["prolong"])
