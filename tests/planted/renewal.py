"""What locks on Redis have in common: the scripts that touch only one's own key, and the thread that prolongs a lock."""

import threading

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"
RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end"


class Renewing:
    """To be put before a lock: `keep` runs in a thread until `released`, which it gets as its last argument, is set."""

    can = ("extend", "lost")
    thread = None

    def begin(self, *arguments):
        self.released = threading.Event()
        self.thread = threading.Thread(target=self.keep, args=(*arguments, self.released), daemon=True)
        self.thread.start()

    def stop(self):
        if self.thread is not None:
            self.released.set()
            self.thread.join()

    def release(self, key):
        self.stop()
        return super().release(key)

    def close(self):
        self.stop()
        super().close()
