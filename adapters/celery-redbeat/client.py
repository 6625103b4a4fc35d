"""The lock of celery-redbeat's scheduler: taken as at the start of a beat, and prolonged by the scheduler's own `tick`.

A beat has its lock until `tick` raises, which ends the beat."""

import threading

import celery
import fencepost
import redbeat.schedulers
import redis
from redbeat.schedulers import RedBeatScheduler, get_redis


class RedBeat:
    def __init__(self, env):
        self.env, self.scheduler, self.stopped = env, None, None
        self.app = celery.Celery(set_as_current=False)
        self.app.conf.redbeat_redis_url = f"redis://{env.servers[0].address}/0"
        get_redis(self.app).ping()

    def acquire(self, key, ttl, timeout):
        scheduler = RedBeatScheduler(self.app, lazy=True, lock_key=key, lock_timeout=ttl, max_interval=ttl / 5)
        # As the library does it when a beat starts, but for the waiting without an end, and for the thread: a beat has but one.
        lock = get_redis(self.app).lock(key, timeout=ttl, sleep=scheduler.max_interval, thread_local=False)
        lock.lua_extend = get_redis(self.app).register_script(redbeat.schedulers.LUA_EXTEND_TO_SCRIPT)
        if not self.env.poll(lambda: lock.acquire(blocking=False), timeout):
            return False
        scheduler.lock = lock
        self.scheduler, self.stopped = scheduler, threading.Event()
        threading.Thread(target=self.tick, args=(key, scheduler, self.stopped), daemon=True).start()
        return True

    def tick(self, key, scheduler, stopped):
        while not stopped.wait(scheduler.max_interval):
            try:
                scheduler.tick()
            except Exception as error:
                if not stopped.is_set():
                    self.env.lost(key, f"tick raised {error!r}, which ends a beat")
                return
            if not stopped.is_set():
                self.env.renewed(key)

    def release(self, key):
        self.stopped.set()
        try:
            self.scheduler.lock.release()  # all that its close does with the lock
        except redis.exceptions.LockError:
            pass  # it compared the token and deleted nothing

    def close(self):
        if self.stopped is not None:
            self.stopped.set()


fencepost.run(RedBeat, can=["lost", "extend"])
