"""GET_LOCK of MariaDB: the lock belongs to a connection, and goes with it."""

import fencepost
import pymysql


class MariaDb:
    def __init__(self, env):
        server = env.servers[0]
        self.connection = pymysql.connect(host=server.host, port=server.port, user="root", connect_timeout=2)
        self.close = self.connection.close

    def ask(self, timeout, statement, *values):
        """The one value that the statement gives. A server that does not answer in time is an error of the connection."""
        self.connection._read_timeout = timeout
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)
            return cursor.fetchone()[0]

    def acquire(self, key, ttl, timeout):
        if self.ask(timeout, "SELECT GET_LOCK(%s, %s)", key, timeout * 0.9) == 1:
            return True
        raise fencepost.NotAcquired("GET_LOCK gave up waiting")

    def release(self, key):
        if self.ask(2, "SELECT RELEASE_LOCK(%s)", key) == 1:
            return True
        raise fencepost.NotHeld("the connection does not have the lock")


fencepost.run(MariaDb)
