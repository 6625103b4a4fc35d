"""The mistake: deletes the key without looking whose it is."""

import fencepost
import redis_lock


class ReleasesBlindly(redis_lock.RedisLock):
    def release(self, key):
        return self.ask("DEL", key) == b":1\r\n"


fencepost.run(ReleasesBlindly)
