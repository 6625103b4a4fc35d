"""The mistake: grants every acquire without asking the server."""

import fencepost
import redis_lock


class NeverAsks(redis_lock.RedisLock):
    def acquire(self, key, ttl, timeout):
        self.values[key] = "mine"
        return True


fencepost.run(NeverAsks)
