"""etcd3's Lock with a lease that nothing prolongs, by the `with` statement; `--acquire`: by acquire, with its answer heeded."""

import sys

import etcd3
import fencepost


class Etcd3:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.client = etcd3.client(env.servers[0].host, env.servers[0].port)
        self.client.status()  # gRPC connects late: a server that is not there shows here
        self.close = self.client.close

    def acquire(self, key, ttl, timeout):
        lock = self.locks[key] = self.client.lock(key, ttl=int(ttl))  # leases have whole seconds
        if "--acquire" in sys.argv:
            return lock.acquire(timeout=timeout * 0.9)
        lock.__enter__()  # as the with statement does, whose block begins unless this raises
        return True

    def release(self, key):
        return self.locks.pop(key).release()  # all that its __exit__ does; the answer says whether it removed the key


fencepost.run(Etcd3)
