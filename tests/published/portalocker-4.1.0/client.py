"""portalocker's RedisLock with a time-out, a new one for each acquire; readers of the variants `shared` take it in shared mode.

`--fixed`: the version in which the reports are resolved."""

import sys

if "--fixed" in sys.argv:
    sys.path.insert(0, "fixed")

import fencepost
import portalocker
import redis


class Portalocker:
    def __init__(self, env):
        self.env, self.lock = env, None
        server = env.servers[0]
        self.connection = redis.Redis(server.host, server.port, decode_responses=True, health_check_interval=10)

    def acquire(self, key, ttl, timeout):
        return self.take(key, timeout, portalocker.LockFlags.EXCLUSIVE)

    def acquire_shared(self, key, ttl, timeout):
        return self.take(key, timeout, portalocker.LockFlags.SHARED)

    def take(self, key, timeout, flags):
        # An acquire ends up to `unavailable_timeout` after its time-out: it waits for the answers of other holders.
        patience = {"timeout": timeout * 0.5, "unavailable_timeout": timeout * 0.4}
        if "--fixed" in sys.argv:  # its default interrupts the main thread, which is not the thread of this process
            patience.update(interrupt_on_lost=False, on_lost=lambda lock: self.env.lost(key, "on_lost was called"))
        self.lock = portalocker.RedisLock(key, connection=self.connection, flags=flags, **patience)
        try:
            self.lock.acquire()
            return True
        except portalocker.AlreadyLocked:
            return False

    def release(self, key):
        self.lock.release()

    def close(self):
        if self.lock is not None:
            self.lock.release()
        self.connection.close()


fencepost.run(Portalocker, can=["lost"] if "--fixed" in sys.argv else [])
