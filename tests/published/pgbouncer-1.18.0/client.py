"""PALs' Lock, attempts that do not block, on pgbouncer; `--direct`: on PostgreSQL itself. A Locker, and so a pool, for each process."""

import sys

import fencepost
import pals
from sqlalchemy import create_engine, event


class Pals:
    def __init__(self, env):
        self.env, self.lock, self.connections = env, None, []
        # The database stands first, the pooler in front of it second.
        server = env.servers[0 if "--direct" in sys.argv else 1]
        # Without prepared statements, which that mode does not keep either.
        url = f"postgresql+psycopg://postgres@{server.host}:{server.port}/postgres"
        self.locker = pals.Locker("fencepost", create_engine_callable=lambda: create_engine(url, connect_args={"prepare_threshold": None}))
        event.listen(self.locker.engine, "connect", lambda connection, _: self.connections.append(connection))
        self.locker.engine.connect().close()  # SQLAlchemy connects late: a server that is not there shows here

    def acquire(self, key, ttl, timeout):
        lock = self.locker.lock(key)
        granted = self.env.poll(lambda: lock.acquire(blocking=False), timeout)
        if granted:
            self.lock = lock
        return granted

    def release(self, key):
        return self.lock.release()

    def close(self):
        for connection in self.connections:
            connection.close()  # as the end of a program would, whatever locks and pools still refer to it


fencepost.run(Pals)
