"""celery-once's lock of a task, as QueueOnce takes it when a task is queued and clears it when the task is done: a key for each task."""

import fencepost
from celery_once.backends.redis import Redis
from celery_once.tasks import AlreadyQueued


class CeleryOnce:
    def __init__(self, env):
        self.env = env
        self.backend = Redis({"url": f"redis://{env.servers[0].address}/0"})
        self.backend.redis.ping()

    def attempt(self, key, ttl):
        try:
            self.backend.raise_or_lock(key, ttl)
            return True
        except AlreadyQueued:
            return False

    def acquire(self, key, ttl, timeout):
        return self.env.poll(lambda: self.attempt(key, ttl), timeout)

    def release(self, key):
        return bool(self.backend.clear_lock(key))


fencepost.run(CeleryOnce)
