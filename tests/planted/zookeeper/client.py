"""Locks on ZooKeeper, each with one mistake, and the repaired one beside them: `client.py NAME`."""

import sys
import threading
import time
import uuid

import fencepost
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import NodeExistsError, NoNodeError


class Repaired:
    """ZooKeeper's recipe: an ephemeral node with a sequence number each, the lowest of which holds the lock."""

    ephemeral = True

    def __init__(self, env):
        self.env, self.nodes, self.session = env, {}, None
        self.client = KazooClient(",".join(server.address for server in env.servers), timeout=env.ttl)
        self.client.add_listener(self.changed)
        self.client.start(timeout=3)

    def changed(self, state):
        if state == KazooState.LOST:
            self.session_is_lost()

    def session_is_lost(self):
        for key in list(self.nodes):
            self.env.lost(key, "the session is lost")

    def acquire(self, key, ttl, timeout):
        until = time.monotonic() + timeout * 0.9
        self.nodes[key] = self.create(f"/fencepost/{key}")
        if self.wait(f"/fencepost/{key}", self.nodes[key], until):
            return True
        self.leave(key)
        return False

    def create(self, folder):
        path = self.client.create(folder + "/lock-", ephemeral=self.ephemeral, sequence=True, makepath=True)
        return path.rsplit("/", 1)[1]

    def order(self, name):
        return name[-10:]

    def wait(self, folder, mine, until):
        while True:
            before = self.before(folder, mine)
            if before is None:
                return True
            if not self.wait_until_gone(f"{folder}/{before}", until):
                return False

    def before(self, folder, mine):
        """The node before the own one, or none."""
        names = sorted(self.client.get_children(folder), key=self.order)
        place = names.index(mine)  # raises where the session has ended meanwhile
        return names[place - 1] if place else None

    def wait_until_gone(self, path, until):
        changed = threading.Event()
        if self.client.exists(path, watch=lambda event: changed.set()) is None:
            return True
        return changed.wait(max(0, until - time.monotonic()))

    def leave(self, key):
        try:
            self.client.delete(f"/fencepost/{key}/{self.nodes.pop(key)}")
        except NoNodeError:
            return False
        return True

    def release(self, key):
        return self.leave(key)

    def holds(self, key):
        return self.client.state == KazooState.CONNECTED and key in self.nodes

    def close(self):
        self.client.stop()
        self.client.close()


class SortsByName(Repaired):
    """The name begins with an identifier, by which a client can find its node after a lost answer."""

    def create(self, folder):
        path = self.client.create(f"{folder}/{uuid.uuid4()}-lock-", ephemeral=True, sequence=True, makepath=True)
        return path.rsplit("/", 1)[1]

    def order(self, name):
        return name


class PredecessorGone(Repaired):
    def wait(self, folder, mine, until):
        before = self.before(folder, mine)
        return before is None or self.wait_until_gone(f"{folder}/{before}", until)


class OrdinaryNode(Repaired):
    ephemeral = False


class StaysInTheQueue(Repaired):
    def leave(self, key):
        return None

    def release(self, key):
        return super().leave(key)


class SessionExpiryIgnored(Repaired):
    def session_is_lost(self):
        pass  # the library connects again by itself

    def holds(self, key):
        return key in self.nodes


class RepairedNode(Repaired):
    """One ephemeral node for each lock: the process that creates it holds the lock."""

    def acquire(self, key, ttl, timeout):
        self.nodes.pop(key, None)
        self.client.ensure_path("/fencepost")
        return self.env.poll(lambda: self.attempt(key), timeout, rest=(0.01, 0.03))

    def attempt(self, key):
        try:
            self.client.create(f"/fencepost/{key}", self.mark(key), ephemeral=True)
        except NodeExistsError:
            return False
        self.nodes[key] = True
        return True

    def mark(self, key):
        return str(self.env.process).encode()

    def leave(self, key):
        del self.nodes[key]
        try:
            self.client.delete(f"/fencepost/{key}")
        except NoNodeError:
            return False
        return True


class ExistingNodeIsMine(RepairedNode):
    def attempt(self, key):
        try:
            self.client.create(f"/fencepost/{key}", self.mark(key), ephemeral=True)
        except NodeExistsError:
            pass  # the first try has made it, and its answer was lost
        self.nodes[key] = True
        return True


LOCKS = {
    "repaired": Repaired,
    "sorts-by-name": SortsByName,
    "predecessor-gone": PredecessorGone,
    "ordinary-node": OrdinaryNode,
    "stays-in-the-queue": StaysInTheQueue,
    "session-expiry-ignored": SessionExpiryIgnored,
    "repaired-node": RepairedNode,
    "existing-node-is-mine": ExistingNodeIsMine,
}
fencepost.run(LOCKS[sys.argv[1]], can=["lost"])
