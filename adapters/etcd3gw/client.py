"""etcd3gw's Lock with a lease that nothing prolongs; `--with`: the `with` statement, which enters whatever acquire says."""

import sys

import fencepost
from etcd3gw.client import Etcd3Client


class Etcd3gw:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.client = Etcd3Client(env.servers[0].host, env.servers[0].port, timeout=2)
        self.close = self.client.session.close

    def acquire(self, key, ttl, timeout):
        self.locks[key] = lock = self.client.lock(key, ttl=int(ttl))  # leases have whole seconds
        if "--with" in sys.argv:
            lock.__enter__()
            return True
        return self.env.poll(lock.acquire, timeout, rest=(0.02, 0.1))  # each attempt makes a lease

    def release(self, key):
        lock = self.locks.pop(key)
        return lock.__exit__(None, None, None) if "--with" in sys.argv else lock.release()


fencepost.run(Etcd3gw)
