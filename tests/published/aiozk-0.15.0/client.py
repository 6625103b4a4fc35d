"""aiozk's Lock with a time-out, a new one for each acquire; `--fixed`: aiozk 0.16.0."""

import sys

if "--fixed" in sys.argv:
    sys.path.insert(0, "fixed")

import aiozk
import aiozk.exc
import fencepost


class Aiozk:
    def __init__(self, env, client):
        self.env, self.client, self.held = env, client, {}

    async def acquire(self, key, ttl, timeout):
        lock = self.client.recipes.Lock("/fencepost/" + key)
        try:
            held = await lock.acquire(timeout=timeout * 0.9)
        except aiozk.exc.TimeoutError:
            return False
        self.held[key] = await held.__aenter__()
        return True

    async def release(self, key):
        await self.held.pop(key).__aexit__(None, None, None)

    async def close(self):
        await self.client.close()


async def make(env):
    client = aiozk.ZKClient(",".join(server.address for server in env.servers), session_timeout=env.ttl)
    await client.start()
    return Aiozk(env, client)


fencepost.run(make)
