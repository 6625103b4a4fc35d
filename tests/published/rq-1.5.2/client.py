"""The lock of RQ's scheduler for one queue, the key: acquired, kept for one round of enqueueing (the critical section), and released.

In a round the scheduler enqueues what is due, and only after that sends a heartbeat; so there is none within
the section. `--fixed`: RQ 1.6.0."""

import sys

if "--fixed" in sys.argv:
    sys.path.insert(0, "fixed")

import fencepost
import redis
from rq.scheduler import RQScheduler


class Rq:
    def __init__(self, env):
        self.env, self.schedulers = env, {}
        self.redis = redis.Redis(env.servers[0].host, env.servers[0].port)
        self.redis.ping()

    def acquire(self, key, ttl, timeout):
        scheduler = self.schedulers[key] = RQScheduler([key], self.redis)
        return self.env.poll(lambda: key in scheduler.acquire_locks(), timeout)

    def holds(self, key):
        return key in self.schedulers[key].acquired_locks

    def release(self, key):
        scheduler = self.schedulers.pop(key)
        scheduler.stop()
        scheduler.connection.close()

    def close(self):
        self.redis.close()


fencepost.run(Rq)
