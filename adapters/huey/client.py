"""huey's TaskLock with a TTL, on RedisExpireHuey (RedisHuey's TTL wants Redis 7.4)."""

import fencepost
from huey import RedisExpireHuey
from huey.exceptions import TaskLockedException


class HueyTaskLock:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.huey = RedisExpireHuey("fencepost", host=env.servers[0].host, port=env.servers[0].port)

    def acquire(self, key, ttl, timeout):
        self.locks[key] = lock = self.huey.lock_task(key, ttl=int(ttl))

        def attempt():
            try:
                return lock.acquire()
            except TaskLockedException:
                return False

        return self.env.poll(attempt, timeout)

    def release(self, key):
        return self.locks.pop(key).release() == 1  # the number of keys that it deleted

    def close(self):
        self.huey.storage.pool.disconnect()


fencepost.run(HueyTaskLock)
