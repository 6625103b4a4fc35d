"""kazoo's Semaphore by attempts that do not block; after an error of the connection the program tries again, as in the report.

`--newest`: kazoo 2.11.0."""

import sys

sys.path.insert(0, "newest" if "--newest" in sys.argv else "old")

import fencepost
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException
from kazoo.retry import RetryFailedError


class Kazoo:
    def __init__(self, env):
        self.env, self.held = env, {}
        self.client = KazooClient(",".join(server.address for server in env.servers), timeout=env.ttl)
        self.client.add_listener(self.changed)
        self.client.start(timeout=2)

    def changed(self, state):
        for key in list(self.held) if state == KazooState.LOST else []:
            self.env.lost(key, "the session is lost")

    def attempt(self, semaphore):
        try:
            return semaphore.acquire(blocking=False)
        except (KazooException, RetryFailedError):
            return False  # the library has cleaned up what it could

    def acquire_permit(self, key, permits, ttl, timeout):
        semaphore = self.client.Semaphore("/fencepost/" + key, max_leases=permits)
        if not self.env.poll(lambda: self.attempt(semaphore), timeout):
            return False
        self.held[key] = semaphore
        return True

    def holds(self, key):
        return self.client.state == KazooState.CONNECTED and self.held[key].is_acquired

    def release(self, key):
        self.held.pop(key).release()

    def close(self):
        self.client.stop()
        self.client.close()


fencepost.run(Kazoo, can=["lost"])
