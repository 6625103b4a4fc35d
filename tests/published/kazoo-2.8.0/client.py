"""kazoo's WriteLock and ReadLock as the `with` statement takes them: without a time-out, so that a thread of its own waits for them.

Where a process has lost patience, that thread waits on, and releases at once what it gets. `--fixed`: kazoo 2.9.0."""

import sys
import threading

sys.path.insert(0, "fixed" if "--fixed" in sys.argv else "old")

import fencepost
from kazoo.client import KazooClient, KazooState


class Attempt:
    def __init__(self):
        self.mutex, self.ended, self.given_up = threading.Lock(), threading.Event(), False

    def wait(self, lock):
        granted = lock.acquire()
        with self.mutex:
            if granted and not self.given_up:
                return self.ended.set()
        lock.release()

    def is_granted(self, patience):
        self.ended.wait(patience)
        with self.mutex:
            self.given_up = not self.ended.is_set()
        return not self.given_up


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
        return self.take(key, self.client.WriteLock("/fencepost/" + key), timeout)

    def acquire_shared(self, key, ttl, timeout):
        return self.take(key, self.client.ReadLock("/fencepost/" + key), timeout)

    def take(self, key, lock, timeout):
        attempt = Attempt()
        threading.Thread(target=attempt.wait, args=(lock,), daemon=True).start()
        if not attempt.is_granted(timeout * 0.95):
            return False
        self.locks[key] = lock
        self.held.add(key)
        return True

    def holds(self, key):
        return self.client.state == KazooState.CONNECTED and self.locks[key].is_acquired

    def release(self, key):
        self.held.discard(key)
        self.locks[key].release()

    def close(self):
        self.client.stop()
        self.client.close()


fencepost.run(Kazoo, can=["lost"])
