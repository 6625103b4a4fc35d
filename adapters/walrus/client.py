"""walrus' Lock: attempts that do not block."""

import fencepost
import walrus


class Walrus:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.database = walrus.Database(env.servers[0].host, env.servers[0].port)
        self.close = self.database.close

    def acquire(self, key, ttl, timeout):
        self.locks[key] = lock = self.database.lock(key, ttl=int(ttl * 1000))
        return self.env.poll(lambda: lock.acquire(block=False), timeout)

    def release(self, key):
        return bool(self.locks.pop(key).release())


fencepost.run(Walrus)
