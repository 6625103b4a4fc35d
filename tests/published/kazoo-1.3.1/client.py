"""kazoo's Lock as threads share one of Python's: one object for each name, which all processes of the client use. `--fixed`: kazoo 2.2.

A mutex of the client's own keeps nothing from being acquired twice: it only lets one object be made for each name."""

import sys
import threading

sys.path.insert(0, "fixed" if "--fixed" in sys.argv else "old")

import fencepost
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import LockTimeout


class Shared:
    """What the processes of a client have in common: a session, and the locks."""

    mutex, client, locks = threading.Lock(), None, {}

    @classmethod
    def connect(cls, env):
        with cls.mutex:
            if cls.client is None:
                client = KazooClient(",".join(server.address for server in env.servers), timeout=env.ttl)
                client.start(timeout=2)
                cls.client = client
            return cls.client

    @classmethod
    def lock(cls, key):
        with cls.mutex:
            return cls.locks.setdefault(key, cls.client.Lock("/fencepost/" + key))


class Kazoo:
    def __init__(self, env):
        self.env, self.held, self.client = env, set(), Shared.connect(env)
        self.client.add_listener(self.changed)

    def changed(self, state):
        for key in list(self.held) if state == KazooState.LOST else []:
            self.env.lost(key, "the session is lost")

    def acquire(self, key, ttl, timeout):
        try:
            granted = Shared.lock(key).acquire(timeout=timeout * 0.9)
        except LockTimeout:
            return False
        if granted:
            self.held.add(key)
        return granted

    def holds(self, key):
        return self.client.state == KazooState.CONNECTED and Shared.lock(key).is_acquired

    def release(self, key):
        self.held.discard(key)
        return Shared.lock(key).release()

    def close(self):
        self.client.remove_listener(self.changed)
        for key in list(self.held):
            Shared.lock(key).release()


fencepost.run(Kazoo, can=["lost"])
