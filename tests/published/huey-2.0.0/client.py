"""huey's TaskLock as the `with` statement takes it, attempts repeated; `--fixed`: huey 3.5.4, with a TTL."""

import sys

if "--fixed" in sys.argv:
    sys.path.insert(0, "fixed")

import fencepost
import huey
from huey.exceptions import TaskLockedException


class HueyTaskLock:
    def __init__(self, env):
        self.env, self.locks = env, {}
        kind = huey.RedisExpireHuey if "--fixed" in sys.argv else huey.RedisHuey
        self.huey = kind("fencepost", host=env.servers[0].host, port=env.servers[0].port)

    def attempt(self, lock):
        try:
            lock.__enter__()
            return True
        except TaskLockedException:
            return False

    def acquire(self, key, ttl, timeout):
        options = {"ttl": int(ttl)} if "--fixed" in sys.argv else {}
        lock = self.locks[key] = self.huey.lock_task(key, **options)
        return self.env.poll(lambda: self.attempt(lock), timeout)

    def release(self, key):
        self.locks.pop(key).__exit__(None, None, None)

    def close(self):
        self.huey.storage.pool.disconnect()


fencepost.run(HueyTaskLock)
