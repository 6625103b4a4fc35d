"""redis-py's Lock: non-blocking attempts; `--with`: the `with` statement; `--no-timeout`: its default, without a TTL.

`--reacquire`: prolonged by `reacquire` in place of `extend`; `--handed-over`: with `thread_local=False`, released by another thread.
`--asyncio`: the Lock of redis.asyncio.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import fencepost
import redis
import redis.asyncio
from redis.exceptions import LockError, LockNotOwnedError


def reach(env):
    """How to reach the server."""
    server, access, more = env.servers[0], env.access, {}
    if access.tls:
        more = {"ssl": True, "ssl_ca_certs": access.ca, "ssl_certfile": access.certificate, "ssl_keyfile": access.key}
    return {"host": server.host, "port": server.port, "username": access.user, "password": access.password, **more}


class RedisPy:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.redis = redis.Redis(**reach(env))
        self.close = self.redis.close

    def acquire(self, key, ttl, timeout):
        timeout_of_lock = None if "--no-timeout" in sys.argv else ttl
        more = {"blocking_timeout": timeout * 0.95, "thread_local": "--handed-over" not in sys.argv}
        lock = self.locks[key] = self.redis.lock(key, timeout=timeout_of_lock, **more)
        if "--with" not in sys.argv:
            return self.env.poll(lambda: lock.acquire(blocking=False), timeout)
        try:
            lock.__enter__()  # raises where it did not acquire
            return True
        except LockError:
            return False

    def prolong(self, key, ttl, timeout):
        try:
            lock = self.locks[key]
            return lock.reacquire() if "--reacquire" in sys.argv else lock.extend(ttl, replace_ttl=True)
        except LockNotOwnedError:
            return False  # the same of the TTL

    def release(self, key):
        lock = self.locks.pop(key)
        try:
            if "--handed-over" in sys.argv:
                with ThreadPoolExecutor(1) as worker:
                    worker.submit(lock.release).result()
            else:
                lock.__exit__(None, None, None) if "--with" in sys.argv else lock.release()
            return True
        except LockNotOwnedError:
            return False  # its script compared the token and deleted nothing


class Asyncio:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.redis = redis.asyncio.Redis(**reach(env))
        self.close = self.redis.aclose

    async def acquire(self, key, ttl, timeout):
        lock = self.locks[key] = self.redis.lock(key, timeout=ttl)
        return await self.env.poll(lambda: lock.acquire(blocking=False), timeout)

    async def prolong(self, key, ttl, timeout):
        try:
            return await self.locks[key].extend(ttl, replace_ttl=True)
        except LockNotOwnedError:
            return False

    async def release(self, key):
        try:
            await self.locks[key].release()
            return True
        except LockNotOwnedError:
            return False


async def make(env):
    return Asyncio(env)


can = [] if "--no-timeout" in sys.argv else ["prolong"]
if "--asyncio" in sys.argv:
    fencepost.run(make, can=[*can, "cancel"])
fencepost.run(RedisPy, can=can)
