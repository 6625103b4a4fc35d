"""redis-py's Lock: non-blocking attempts; `--with`: the `with` statement; `--no-timeout`: its default, without a TTL."""

import sys

import fencepost
import redis
from redis.exceptions import LockError, LockNotOwnedError


class RedisPy:
    def __init__(self, env):
        self.env, self.locks = env, {}
        access, more = env.access, {}
        if access.tls:
            more = {"ssl": True, "ssl_ca_certs": access.ca, "ssl_certfile": access.certificate, "ssl_keyfile": access.key}
        login = {"username": access.user, "password": access.password}
        self.redis = redis.Redis(env.servers[0].host, env.servers[0].port, **login, **more)
        self.close = self.redis.close

    def acquire(self, key, ttl, timeout):
        timeout_of_lock = None if "--no-timeout" in sys.argv else ttl
        lock = self.locks[key] = self.redis.lock(key, timeout=timeout_of_lock, blocking_timeout=timeout * 0.95)
        if "--with" not in sys.argv:
            return self.env.poll(lambda: lock.acquire(blocking=False), timeout)
        try:
            lock.__enter__()  # raises where it did not acquire
            return True
        except LockError:
            return False

    def prolong(self, key, ttl, timeout):
        try:
            return self.locks[key].extend(ttl, replace_ttl=True)
        except LockNotOwnedError:
            return False  # the same of the TTL

    def release(self, key):
        lock = self.locks.pop(key)
        try:
            lock.__exit__(None, None, None) if "--with" in sys.argv else lock.release()
            return True
        except LockNotOwnedError:
            return False  # its script compared the token and deleted nothing


fencepost.run(RedisPy, can=[] if "--no-timeout" in sys.argv else ["prolong"])
