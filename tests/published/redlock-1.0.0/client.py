"""redlock's RedLock as the `with` statement takes it, with its default of three attempts; `--fixed`: redlock 1.1.0."""

import sys

if "--fixed" in sys.argv:
    sys.path.insert(0, "fixed")

import fencepost
import redlock


class RedLock:
    def __init__(self, env):
        self.locks = {}
        self.factory = redlock.RedLockFactory([{"host": server.host, "port": server.port} for server in env.servers])

    def acquire(self, key, ttl, timeout):
        lock = self.locks[key] = self.factory.create_lock(key, ttl=int(ttl * 1000))
        try:
            lock.__enter__()  # as the with statement does, whose block begins unless this raises
            return True
        except redlock.RedLockError:
            return False

    def release(self, key):
        self.locks.pop(key).__exit__(None, None, None)

    def close(self):
        for node in self.factory.redis_nodes:
            node.connection_pool.disconnect()


fencepost.run(RedLock)
