"""kazoo's Lock as the `with` statement takes it: without a time-out, so that a thread of its own waits for it. `--fixed`: kazoo 2.0.

A process that has lost patience lets that thread wait on, and its next acquire takes over what the thread gets."""

import sys
import threading

sys.path.insert(0, "fixed" if "--fixed" in sys.argv else "old")

import fencepost
from kazoo.client import KazooClient, KazooState


class Kazoo:
    def __init__(self, env):
        self.env, self.locks, self.waiting, self.held = env, {}, {}, set()
        self.client = KazooClient(",".join(server.address for server in env.servers), timeout=env.ttl)
        self.client.add_listener(self.changed)
        self.client.start(timeout=2)

    def changed(self, state):
        for key in list(self.held) if state == KazooState.LOST else []:
            self.env.lost(key, "the session is lost")

    def acquire(self, key, ttl, timeout):
        if key not in self.waiting:
            self.locks[key], self.waiting[key] = self.client.Lock("/fencepost/" + key), threading.Event()
            threading.Thread(target=self.wait, args=(self.locks[key], self.waiting[key]), daemon=True).start()
        if not self.waiting[key].wait(timeout * 0.95):
            return False
        del self.waiting[key]
        if self.locks[key].is_acquired:
            self.held.add(key)
        return self.locks[key].is_acquired

    def wait(self, lock, ended):
        try:
            lock.acquire()
        finally:
            ended.set()

    def holds(self, key):
        return self.client.state == KazooState.CONNECTED and self.locks[key].is_acquired

    def release(self, key):
        self.held.discard(key)
        self.locks[key].release()

    def close(self):
        self.client.stop()
        self.client.close()


fencepost.run(Kazoo, can=["lost"])
