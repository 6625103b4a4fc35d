"""PALs' Lock: an advisory lock of PostgreSQL; `--poll`: attempts that do not block. A Locker, and so a pool, for each process."""

import sys

import fencepost
import pals
from sqlalchemy import URL, event


class Pals:
    def __init__(self, env):
        self.env, self.lock, self.connections = env, None, []
        access, server = env.access, env.servers[0]
        names = {"sslrootcert": access.ca, "sslcert": access.certificate, "sslkey": access.key}
        tls = {"sslmode": "verify-full", **names} if access.tls else {}
        login = {"username": access.user or "postgres", "password": access.password}
        place = {"host": server.host, "port": server.port, "database": "postgres"}
        url = URL.create("postgresql+psycopg", **login, **place, query={name: value for name, value in tls.items() if value})
        self.locker = pals.Locker("fencepost", url.render_as_string(hide_password=False))
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
