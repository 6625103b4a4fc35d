"""redis-py's asyncio Lock, whose `release` is cancelled now and then, as the report has it: the task ends before it has sent anything.

The program then releases the lock once more. `--fixed`: the version in which the report is resolved."""

import sys

if "--fixed" in sys.argv:
    sys.path.insert(0, "fixed")

import asyncio
import random

import fencepost
import redis.asyncio
from redis.exceptions import LockError


class RedisPy:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.random = random.Random(f"{env.seed} {env.process}")
        self.redis = redis.asyncio.Redis(host=env.servers[0].host, port=env.servers[0].port)

    async def acquire(self, key, ttl, timeout):
        lock = self.locks[key] = self.redis.lock(key)  # its default: without a TTL
        return await self.env.poll(lambda: lock.acquire(blocking=False), timeout)

    async def release(self, key):
        lock = self.locks.pop(key)
        if self.random.random() < 0.2:
            releasing = asyncio.create_task(lock.release())
            releasing.cancel()
            await asyncio.wait([releasing])
        try:
            await lock.release()
            return True
        except LockError as error:
            raise fencepost.NotHeld(str(error))

    async def close(self):
        await self.redis.aclose()


async def make(env):
    lock = RedisPy(env)
    await lock.redis.ping()
    return lock


fencepost.run(make)
