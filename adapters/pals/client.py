"""PALs' Lock: an advisory lock of PostgreSQL; `--poll`: attempts that do not block. A Locker, and so a pool, for each process."""

import sys

import fencepost
import pals
from sqlalchemy import event


class Pals:
    def __init__(self, env):
        self.env, self.lock, self.connections = env, None, []
        self.locker = pals.Locker("fencepost", f"postgresql+psycopg://postgres@{env.servers[0].address}/postgres")
        event.listen(self.locker.engine, "connect", lambda connection, _: self.connections.append(connection))
        self.locker.engine.connect().close()  # SQLAlchemy connects late: a server that is not there shows here

    def acquire(self, key, ttl, timeout):
        lock = self.locker.lock(key)
        if "--poll" in sys.argv:
            granted = self.env.poll(lambda: lock.acquire(blocking=False), timeout)
        else:
            granted = lock.acquire(acquire_timeout=int(timeout * 950))  # milliseconds
        if granted:
            self.lock = lock
        return granted

    def release(self, key):
        return self.lock.release()

    def close(self):
        for connection in self.connections:
            connection.close()  # as the end of a program would, whatever locks and pools still refer to it


fencepost.run(Pals)
