"""etcd3gw's Lock with a lease that nothing prolongs; each process uses one server."""

import fencepost
from etcd3gw.client import Etcd3Client


class Etcd3gw:
    def __init__(self, env):
        self.env, self.locks = env, {}
        server = env.servers[env.process % len(env.servers)]
        self.client = Etcd3Client(server.host, server.port, timeout=2)
        self.client.status()
        self.close = self.client.session.close

    def acquire(self, key, ttl, timeout):
        self.locks[key] = lock = self.client.lock(key, ttl=int(ttl))  # leases have whole seconds
        return self.env.poll(lock.acquire, timeout, rest=(0.02, 0.1))  # each attempt makes a lease

    def release(self, key):
        return self.locks.pop(key).release()


fencepost.run(Etcd3gw)
