"""The plainest lock of Redis: SET NX PX, and DEL without a look at its value."""

import fencepost
import redis


class Plain:
    def __init__(self, env):
        self.env = env
        self.redis = redis.Redis(env.servers[0].host, env.servers[0].port, socket_timeout=1)
        self.close = self.redis.close

    def acquire(self, key, ttl, timeout):
        return self.env.poll(lambda: self.redis.set(key, "taken", nx=True, px=int(ttl * 1000)), timeout)

    def release(self, key):
        return self.redis.delete(key) == 1


fencepost.run(Plain)
