"""A lock of asyncio on Redis: SET NX, a task that renews it, a script that deletes it.

`--acquire` and `--release` leave the task behind where that call is cancelled in the middle.
"""

import asyncio
import sys
import uuid

import fencepost

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"


class Lock:
    def __init__(self, env):
        self.env, self.server, self.streams, self.turn = env, env.servers[0], None, asyncio.Lock()
        self.value = self.renewal = None

    async def ask(self, *words):
        async with self.turn:
            try:
                if self.streams is None:
                    self.streams = await asyncio.open_connection(self.server.host, self.server.port)
                reader, writer = self.streams
                parts = [str(word).encode() for word in words]
                writer.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
                return (await reader.readuntil(b"\r\n")).strip()
            except BaseException:
                self.drop()  # an answer that comes later would be taken for that of the next request
                raise

    def drop(self):
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None

    async def renew(self, key, value, ttl):
        renewed = b":1"
        while renewed == b":1":
            await asyncio.sleep(ttl / 4)
            begun = asyncio.get_running_loop().time()
            renewed = await self.ask("EVAL", RENEW, 1, key, value, int(ttl * 1000))
            if renewed == b":1":
                self.env.renewed(key, asyncio.get_running_loop().time() - begun)

    async def attempt(self, key, ttl):
        value = str(uuid.uuid4())
        if await self.ask("SET", key, value, "NX", "PX", int(ttl * 1000)) != b"+OK":
            return False
        self.value, self.renewal = value, asyncio.create_task(self.renew(key, value, ttl))
        try:
            await self.ask("HSET", key + ":holder", "since", "now")  # what operators look at
            await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            if "--acquire" not in sys.argv:
                self.renewal.cancel()
            raise
        return True

    async def acquire(self, key, ttl, timeout):
        return await self.env.poll(lambda: self.attempt(key, ttl), timeout)

    async def release(self, key):
        value = self.value
        if "--release" in sys.argv:
            self.value = None
        else:
            self.renewal.cancel()
        if value is None:
            raise fencepost.NotHeld("nothing to release")
        await asyncio.sleep(0.002)
        removed = await self.ask("EVAL", DELETE, 1, key, value) == b":1"
        self.value = None
        self.renewal.cancel()
        return removed

    async def close(self):
        if self.renewal is not None:
            self.renewal.cancel()
        self.drop()


async def make(env):
    return Lock(env)


fencepost.run(make, can=["extend", "cancel"])
