"""aioredlock's lock with a lock_timeout, which is the TTL; its holder asks `lock.valid` whether it still has the lock."""

import fencepost
from aioredlock import Aioredlock, LockError


class MyLock:
    def __init__(self, env):
        self.env, self.locks = env, {}
        addresses = [{"host": server.host, "port": server.port} for server in env.servers]
        self.manager = Aioredlock(addresses, retry_count=1)

    async def attempt(self, key, ttl):
        try:
            self.locks[key] = await self.manager.lock(key, lock_timeout=ttl)
            return True
        except LockError:
            return False

    async def acquire(self, key, ttl, timeout):
        return await self.env.poll(lambda: self.attempt(key, ttl), timeout)

    def holds(self, key):
        return self.locks[key].valid

    async def release(self, key):
        try:
            await self.manager.unlock(self.locks.pop(key))
        except LockError:
            pass

    async def close(self):
        await self.manager.destroy()


async def make(env):
    return MyLock(env)


fencepost.run(make)
