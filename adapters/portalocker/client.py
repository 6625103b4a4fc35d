"""portalocker's RedisLock: held by a subscription, whose end the library reports by `on_lost`; with its fencing tokens.

`--read-write`: readers take it in shared mode, and no grant has a token; `--self-check`: its holder looks every half second whether its
own messages reach it.
"""

import sys

import fencepost
import portalocker
import redis


class Portalocker:
    def __init__(self, env):
        self.env, self.lock = env, None
        server = env.servers[0]
        # Its default interrupts the main thread when a lock is lost, which is not the thread of this process.
        self.options = {"connection": redis.Redis(server.host, server.port, decode_responses=True), "interrupt_on_lost": False}
        self.fencing = "--read-write" not in sys.argv
        if "--self-check" in sys.argv:
            self.options["self_check_interval"] = 0.5

    def acquire(self, key, ttl, timeout):
        return self.take(key, timeout, fencing=self.fencing)

    def acquire_shared(self, key, ttl, timeout):
        return self.take(key, timeout, flags=portalocker.LockFlags.SHARED)

    def take(self, key, timeout, **more):
        lost = lambda lock: self.env.lost(key, "on_lost was called")
        # An acquire ends up to `unavailable_timeout` after its time-out: it waits for the answers of other holders.
        patience = {"timeout": timeout * 0.5, "unavailable_timeout": timeout * 0.4}
        self.lock = portalocker.RedisLock(key, on_lost=lost, **more, **patience, **self.options)
        try:
            self.lock.acquire()
        except portalocker.AlreadyLocked:
            return False
        return fencepost.Grant(token=self.lock.fence_token if self.fencing else None)

    def holds(self, key):
        return not self.lock.lost

    def release(self, key):
        self.lock.release()

    def close(self):
        if self.lock is not None:
            self.lock.release()
        self.options["connection"].close()


fencepost.run(Portalocker, can=["lost"])
