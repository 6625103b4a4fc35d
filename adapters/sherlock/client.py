"""sherlock's RedisLock, attempts that do not block; `--no-expire`: with `expire=None`, "lock will not expire"."""

import sys

import fencepost
import redis
import sherlock


class Sherlock:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.redis = redis.Redis(env.servers[0].host, env.servers[0].port)
        self.close = self.redis.close

    def acquire(self, key, ttl, timeout):
        expire = None if "--no-expire" in sys.argv else int(ttl)  # EXPIRE takes whole seconds
        self.locks[key] = lock = sherlock.RedisLock(key, client=self.redis, expire=expire)
        return self.env.poll(lambda: lock.acquire(blocking=False), timeout)

    def release(self, key):
        try:
            self.locks.pop(key).release()
            return True
        except sherlock.LockException:
            return False  # its script compared the owner and deleted nothing


fencepost.run(Sherlock)
