"""tooz's lock, of a coordinator for each process, whose own thread sends its heartbeats and with them renews its locks.

`--leader`: the leader of a group of tooz, which its watchers elect."""

import sys
import time

import fencepost
from tooz import coordination


class Tooz:
    def __init__(self, env):
        self.env, self.locks, self.leads = env, {}, {}
        name = f"{env.client}-{env.process}".encode()
        self.coordinator = coordination.get_coordinator(self.url(env), name)
        self.coordinator.start(start_heart="--leader" not in sys.argv)

    def url(self, env):
        """The servers, and how long its locks last without a heartbeat."""
        address, others = env.servers[0].address, [server.address for server in env.servers[1:]]
        if sys.argv[1] == "redis":
            return f"redis://{address}?lock_timeout={int(env.ttl)}&timeout=5"
        if sys.argv[1] == "etcd3gw":
            return f"etcd3+http://{address}?timeout=5&lock_timeout={int(env.ttl)}"
        return f"kazoo://{','.join([address, *others])}?timeout={int(env.ttl)}"

    def acquire(self, key, ttl, timeout):
        if "--leader" in sys.argv:
            return self.campaign(key.encode(), timeout)
        self.locks[key] = lock = self.coordinator.get_lock(key.encode())
        return self.env.poll(lambda: lock.acquire(blocking=False), timeout)

    def campaign(self, group, timeout):
        if group not in self.leads:
            self.leads[group] = False
            try:
                self.coordinator.create_group(group).get()
            except coordination.GroupAlreadyExist:
                pass
            self.coordinator.join_group(group).get()
            self.coordinator.watch_elected_as_leader(group, self.elected)
        return self.env.poll(lambda: self.look(group), timeout)

    def elected(self, event):
        self.leads[event.group_id] = True

    def look(self, group):
        self.coordinator.run_watchers()
        time.sleep(0.01)
        return self.leads[group]

    def holds(self, key):
        return self.leads[key.encode()] if "--leader" in sys.argv else self.locks[key].acquired

    def release(self, key):
        if "--leader" not in sys.argv:
            return self.locks.pop(key).release()
        self.leads[key.encode()] = False
        self.coordinator.stand_down_group_leader(key.encode())

    def close(self):
        self.coordinator.stop()


fencepost.run(Tooz)
