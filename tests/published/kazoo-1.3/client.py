"""kazoo's Lock as the `with` statement takes it: one for each key, without a time-out. `--fixed`: kazoo 2.0."""

import sys

sys.path.insert(0, "fixed" if "--fixed" in sys.argv else "old")

import fencepost
from kazoo.client import KazooClient, KazooState


class Kazoo:
    def __init__(self, env):
        self.env, self.locks, self.held = env, {}, set()
        self.client = KazooClient(",".join(server.address for server in env.servers), timeout=env.ttl)
        self.client.add_listener(self.changed)
        self.client.start(timeout=2)

    def changed(self, state):
        for key in list(self.held) if state == KazooState.LOST else []:
            self.env.lost(key, "the session is lost")

    def acquire(self, key, ttl, timeout):
        lock = self.locks.setdefault(key, self.client.Lock("/fencepost/" + key))
        granted = lock.acquire()
        self.held.add(key)
        return granted

    def holds(self, key):
        return self.client.state == KazooState.CONNECTED and self.locks[key].is_acquired

    def release(self, key):
        self.held.discard(key)
        self.locks[key].release()

    def close(self):
        self.client.stop()
        self.client.close()


fencepost.run(Kazoo, can=["lost"])
