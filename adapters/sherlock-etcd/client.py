"""sherlock's EtcdLock by python-etcd, which speaks version 2 of etcd's interface: a key with a TTL; attempts that do not block.

Its holder prolongs it by `renew`."""

import etcd
import fencepost
import sherlock


class Sherlock:
    def __init__(self, env):
        self.env, self.locks = env, {}
        self.etcd = etcd.Client(env.servers[0].host, env.servers[0].port, read_timeout=5)
        self.etcd.machines  # connects

    def acquire(self, key, ttl, timeout):
        self.locks[key] = lock = sherlock.EtcdLock(key, client=self.etcd, expire=int(ttl))
        return self.env.poll(lambda: lock.acquire(blocking=False), timeout)

    def prolong(self, key, ttl, timeout):
        return self.locks[key].renew()

    def release(self, key):
        try:
            self.locks.pop(key).release()
            return True
        except (sherlock.LockException, etcd.EtcdCompareFailed):
            return False  # it compared the owner and deleted nothing


fencepost.run(Sherlock, can=["prolong"])
