"""redlock-py's Redlock of the time of Python 2, with the one name that it misses in Python 3; attempts are repeated here."""

import builtins

builtins.basestring = str

import fencepost
import redlock


class RedlockPy:
    def __init__(self, env):
        self.env, self.locks = env, {}
        servers = [{"host": server.host, "port": server.port, "socket_timeout": env.ttl / 10} for server in env.servers]
        self.redlock = redlock.Redlock(servers, retry_count=1, retry_delay=0.001)
        self.redlock.quorum = int(self.redlock.quorum)  # as Python 2 divides

    def acquire(self, key, ttl, timeout):
        lock = self.env.poll(lambda: self.redlock.lock(key, int(ttl * 1000)), timeout)
        if not lock:
            return False
        self.locks[key] = lock
        return fencepost.Grant(validity=lock.validity / 1000)

    def release(self, key):
        self.redlock.unlock(self.locks.pop(key))  # says neither whether it removed anything, nor whether it failed

    def close(self):
        for server in self.redlock.servers:
            server.connection_pool.disconnect()


fencepost.run(RedlockPy)
