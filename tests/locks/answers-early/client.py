"""The mistake: reports the lock as acquired at once, and acquires it afterwards, in the background."""

import threading

import fencepost
import redis_lock


class AnswersEarly(redis_lock.RedisLock):
    def acquire(self, key, ttl, timeout):
        self.waiting = threading.Thread(target=super().acquire, args=(key, ttl, timeout))
        self.waiting.start()
        return True

    def release(self, key):
        self.waiting.join()
        return super().release(key)


fencepost.run(AnswersEarly)
