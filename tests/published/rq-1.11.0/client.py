"""A scheduler of RQ for two queues: the key, which all processes want, and one of its own.

A scheduler that has not got the lock of the key is stopped, as a worker that ends stops it. `--fixed`: RQ 1.15.1."""

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
        self.close = self.redis.close

    def attempt(self, key):
        scheduler = RQScheduler([key, f"{key}-{self.env.process}"], self.redis)
        if key in scheduler.acquire_locks():
            self.schedulers[key] = scheduler
            return True
        self.stop(scheduler)
        return False

    def stop(self, scheduler):
        scheduler.stop()
        scheduler.connection.close()

    def acquire(self, key, ttl, timeout):
        return self.env.poll(lambda: self.attempt(key), timeout, rest=(0.2, 0.6))

    def release(self, key):
        self.stop(self.schedulers.pop(key))


fencepost.run(Rq)
