"""redlock-py's Redlock, with its own retries switched off: attempts are repeated here, so that the TTL has an honest begin.

`--no-retries`: without those of redis-py beneath it, which take some seconds for each server that is down."""

import sys

import fencepost
import redlock
from redis.backoff import NoBackoff
from redis.retry import Retry


class RedlockPy:
    def __init__(self, env):
        self.env, self.locks = env, {}
        more = {"retry": Retry(NoBackoff(), 0), "socket_timeout": env.ttl / 10} if "--no-retries" in sys.argv else {}
        servers = [{"host": server.host, "port": server.port, **more} for server in env.servers]
        self.redlock = redlock.Redlock(servers, retry_count=1, retry_delay=0.001)

    def acquire(self, key, ttl, timeout):
        lock = self.env.poll(lambda: self.redlock.lock(key, int(ttl * 1000)), timeout)
        if not lock:
            return False
        self.locks[key] = lock
        # The validity by the library's word, which is what its users go by.
        return fencepost.Grant(unique=lock.key.decode(), validity=lock.validity / 1000)

    def release(self, key):
        self.redlock.unlock(self.locks.pop(key))  # says neither whether it removed anything, nor whether it failed

    def close(self):
        for server in self.redlock.servers:
            server.close()


fencepost.run(RedlockPy)
