"""pottery's Redlock: non-blocking attempts, a new lock object for each acquire."""

import fencepost
from pottery import Redlock, ReleaseUnlockedLock
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


fencepost.run(Pottery)
