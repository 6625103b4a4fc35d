"""redis-py's Lock by `with` and `blocking_timeout`; `--setnx`: its class Lock without blocking; `--fixed`: redis-py 3.0.0."""

import sys

if "--fixed" in sys.argv:
    sys.path.insert(0, "fixed")

import fencepost
import redis
from redis.exceptions import LockError
from redis.lock import Lock


class RedisPy:
    def __init__(self, env):
        self.env, self.locks = env, {}
        server = env.servers[0]
        self.redis = redis.StrictRedis(server.host, server.port, socket_timeout=1)
        self.redis.ping()
        self.close = self.redis.connection_pool.disconnect

    def acquire(self, key, ttl, timeout):
        if "--setnx" in sys.argv:
            lock = self.locks[key] = self.redis.lock(key, timeout=ttl, lock_class=Lock)
            return self.env.poll(lambda: lock.acquire(blocking=False), timeout)
        lock = self.locks[key] = self.redis.lock(key, timeout=ttl, blocking_timeout=timeout * 0.9)
        try:
            lock.__enter__()  # as the with statement does, whose block begins unless this raises
            return True
        except LockError:
            return False

    def release(self, key):
        try:
            self.locks.pop(key).__exit__(None, None, None)
            return True
        except LockError:
            return False  # it compared the token and deleted nothing


fencepost.run(RedisPy)
