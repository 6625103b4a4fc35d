"""dramatiq's ConcurrentRateLimiter of size 1, which its documentation calls "a distributed mutex".

As a semaphore: one of as many slots as there are permits."""

import fencepost
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend


class DramatiqMutex:
    def __init__(self, env):
        self.env, self.slots = env, {}
        self.backend = RedisBackend(host=env.servers[0].host, port=env.servers[0].port)
        self.close = self.backend.client.close

    def acquire(self, key, ttl, timeout):
        return self.acquire_permit(key, 1, ttl, timeout)

    def acquire_permit(self, key, permits, ttl, timeout):
        limiter = ConcurrentRateLimiter(self.backend, key, limit=permits, ttl=int(ttl * 1000))

        def attempt():
            self.slots[key] = slot = limiter.acquire(raise_on_failure=False)
            return slot.__enter__()

        return self.env.poll(attempt, timeout)

    def release(self, key):
        self.slots.pop(key).__exit__(None, None, None)  # says nothing of what it removed


fencepost.run(DramatiqMutex)
