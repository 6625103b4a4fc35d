"""pottery's Redlock: non-blocking attempts, a new lock object for each acquire; `--asyncio`: its AIORedlock."""

import sys

import fencepost
import redis.asyncio
from pottery import AIORedlock, Redlock, ReleaseUnlockedLock
from redis import Redis


class Pottery:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.masters = {Redis(server.host, server.port) for server in env.servers}

    def acquire(self, key, ttl, timeout):
        lock = Redlock(key=key, masters=self.masters, auto_release_time=ttl)
        self.locks[key] = lock
        return self.env.poll(lambda: lock.acquire(blocking=False), timeout)

    def release(self, key):
        try:
            self.locks.pop(key).release()  # says nothing of what it removed from a minority
        except ReleaseUnlockedLock:
            raise fencepost.NotHeld("no majority of the servers had the lock") from None

    def close(self):
        for master in self.masters:
            master.close()


class Asyncio:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.masters = {redis.asyncio.Redis(host=server.host, port=server.port) for server in env.servers}

    async def acquire(self, key, ttl, timeout):
        self.locks[key] = lock = AIORedlock(key=key, masters=self.masters, auto_release_time=ttl)
        return await self.env.poll(lambda: lock.acquire(blocking=False), timeout)

    async def release(self, key):
        try:
            await self.locks.pop(key).release()
        except ReleaseUnlockedLock:
            raise fencepost.NotHeld("no majority of the servers had the lock") from None

    async def close(self):
        for master in self.masters:
            await master.aclose()


async def make(env):
    return Asyncio(env)


fencepost.run(make if "--asyncio" in sys.argv else Pottery)
