"""sherlock's MCLock by pylibmc: memcached's `add`; attempts that do not block."""

import fencepost
import pylibmc
import sherlock


class Sherlock:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.memcached = pylibmc.Client([env.servers[0].address], binary=True)
        self.memcached.get("any")  # connects
        self.close = self.memcached.disconnect_all

    def acquire(self, key, ttl, timeout):
        self.locks[key] = lock = sherlock.MCLock(key, client=self.memcached, expire=int(ttl))
        return self.env.poll(lambda: lock.acquire(blocking=False), timeout)

    def release(self, key):
        try:
            self.locks.pop(key).release()
        except sherlock.LockException:
            raise fencepost.NotHeld("another's lock, or none") from None


fencepost.run(Sherlock)
