"""python-redis-lock's Lock: non-blocking attempts; its holder prolongs it by `extend`. `--auto-renewal`: the library renews it in silence."""

import sys

import fencepost
import redis
import redis_lock


class PythonRedisLock:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.redis = redis.StrictRedis(env.servers[0].host, env.servers[0].port)
        self.redis.ping()

    def acquire(self, key, ttl, timeout):
        lock = redis_lock.Lock(self.redis, key, expire=int(ttl), auto_renewal="--auto-renewal" in sys.argv)
        self.locks[key] = lock
        return self.env.poll(lambda: lock.acquire(blocking=False), timeout)

    def prolong(self, key, ttl, timeout):
        try:
            self.locks[key].extend(int(ttl))
        except redis_lock.NotAcquired:
            return False

    def release(self, key):
        try:
            self.locks.pop(key).release()
            return True
        except redis_lock.NotAcquired:
            return False  # its script compared the owner and deleted nothing

    def close(self):
        self.locks.clear()  # a renewal ends with the object of its lock
        self.redis.close()


fencepost.run(PythonRedisLock, can=[] if "--auto-renewal" in sys.argv else ["prolong"])
