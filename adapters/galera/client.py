"""GET_LOCK on a Galera cluster, processes at all nodes; `--one-node`: all at the first; `--row`: a row with a lease."""

import sys
import uuid

import fencepost
import pymysql

DEADLOCK = 1213  # what a transaction gets whose writes another node has made out of date


class GetLock:
    def __init__(self, env):
        self.env = env
        first = env.process % len(env.servers)
        servers = env.servers[:1] if "--one-node" in sys.argv else env.servers[first:] + env.servers[:first]
        self.connection = self.connect(servers)
        self.close = self.connection.close

    @staticmethod
    def connect(servers):
        """A connection to the first node that serves, as a load balancer gives one."""
        for server in servers:
            try:
                return pymysql.connect(
                    host=server.host, port=server.port, user="root", database="fencepost", autocommit=True, connect_timeout=1
                )
            except pymysql.err.OperationalError as error:  # also a node that is cut off from the others
                reason = error
        raise reason

    def run(self, timeout, statement, *values):
        """The cursor after the statement. A server that does not answer in time is an error of the connection."""
        self.connection._read_timeout = timeout
        cursor = self.connection.cursor()
        cursor.execute(statement, values)
        return cursor

    def acquire(self, key, ttl, timeout):
        if self.run(timeout, "SELECT GET_LOCK(%s, %s)", key, timeout * 0.9).fetchone()[0] == 1:
            return True
        raise fencepost.NotAcquired("GET_LOCK gave up waiting")

    def release(self, key):
        if self.run(2, "SELECT RELEASE_LOCK(%s)", key).fetchone()[0] == 1:
            return True
        raise fencepost.NotHeld("the connection does not have the lock")


class Row(GetLock):
    """A row with its owner, and the time of day until which it is taken."""

    def changed(self, timeout, statement, *values):
        """How many rows the statement has changed; 0 if another node was faster."""
        try:
            return self.run(timeout, statement, *values).rowcount
        except pymysql.err.OperationalError as error:
            if error.args[0] != DEADLOCK:
                raise
            return 0

    def attempt(self, key, ttl, timeout):
        self.owner = str(uuid.uuid4())
        taken = self.changed(
            timeout,
            "UPDATE leases SET owner = %s, until = UTC_TIMESTAMP(6) + INTERVAL %s SECOND WHERE name = %s AND until < UTC_TIMESTAMP(6)",
            self.owner, ttl, key,
        )
        return taken == 1

    def acquire(self, key, ttl, timeout):
        self.changed(timeout, "INSERT IGNORE INTO leases VALUES (%s, '', '2000-01-01')", key)
        if self.env.poll(lambda: self.attempt(key, ttl, timeout), timeout, rest=(0.005, 0.05)):
            return True
        raise fencepost.NotAcquired("the row was taken each time")

    def release(self, key):
        free = "UPDATE leases SET until = '2000-01-01' WHERE name = %s AND owner = %s"
        # A transaction of another node may be in the way of the first one, which then has changed nothing.
        return any(self.changed(2, free, key, self.owner) == 1 for _ in range(3))


fencepost.run(Row if "--row" in sys.argv else GetLock)
