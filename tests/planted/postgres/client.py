"""Locks on PostgreSQL, each with one mistake, and the repaired ones beside them: `client.py NAME`."""

import sys
import threading
import time
import uuid
import zlib

import fencepost
import psycopg2

TABLES = """
CREATE TABLE IF NOT EXISTS locks (name text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS unconstrained (name text NOT NULL, owner text NOT NULL, expires timestamptz NOT NULL);
"""


class Repaired:
    """An advisory lock of the session, and a connection for each process."""

    def __init__(self, env):
        self.env = env
        self.connection = self.connect(env)

    def connect(self, env):
        host, port = env.servers[0].host, env.servers[0].port
        connection = psycopg2.connect(host=host, port=port, user="postgres", dbname="postgres", connect_timeout=2)
        connection.autocommit = True
        return connection

    def row(self, statement, *arguments):
        with self.connection.cursor() as cursor:
            cursor.execute(statement, arguments)
            return cursor.fetchone()

    def number(self, key):
        return zlib.crc32(key.encode())

    def acquire(self, key, ttl, timeout):
        return self.env.poll(lambda: self.attempt(key, ttl), timeout, rest=(0.005, 0.02))

    def attempt(self, key, ttl):
        return self.row("SELECT pg_try_advisory_lock(%s)", self.number(key))[0]

    def release(self, key):
        return self.row("SELECT pg_advisory_unlock(%s)", self.number(key))[0]

    def close(self):
        self.connection.close()


class RowIsTruthy(Repaired):
    def attempt(self, key, ttl):
        return bool(self.row("SELECT pg_try_advisory_lock(%s)", self.number(key)))


class HashOfTheProgram(Repaired):
    def number(self, key):
        return hash(key)


class TransactionLockWithoutTransaction(Repaired):
    def attempt(self, key, ttl):
        return self.row("SELECT pg_try_advisory_xact_lock(%s)", self.number(key))[0]

    def release(self, key):
        return None  # the end of the transaction releases it


class SharedConnection(Repaired):
    shared, mutex = [], threading.Lock()

    def connect(self, env):
        with self.mutex:
            if not self.shared:
                self.shared.append(super().connect(env))
            return self.shared[0]

    def close(self):
        pass  # other processes of the client use it


class RepairedRow(Repaired):
    """A row for each lock, whose time of expiry the server sets and compares."""

    TAKE = """
    INSERT INTO locks VALUES (%s, %s, clock_timestamp() + make_interval(secs => %s))
    ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
    WHERE locks.expires < clock_timestamp() RETURNING 1
    """

    def __init__(self, env):
        super().__init__(env)
        self.owner = None
        with self.connection.cursor() as cursor:
            # Two processes that create a table at the same time fail; so they wait for each other.
            cursor.execute("SELECT pg_advisory_lock(1)")
            cursor.execute(TABLES)
            cursor.execute("SELECT pg_advisory_unlock(1)")

    def acquire(self, key, ttl, timeout):
        self.owner = str(uuid.uuid4())
        return super().acquire(key, ttl, timeout)

    def attempt(self, key, ttl):
        return self.row(self.TAKE, key, self.owner, ttl) is not None

    def release(self, key):
        return self.row("DELETE FROM locks WHERE name = %s AND owner = %s RETURNING 1", key, self.owner) is not None


class CheckThenInsert(RepairedRow):
    def attempt(self, key, ttl):
        if self.row("SELECT 1 FROM unconstrained WHERE name = %s AND expires > clock_timestamp()", key) is not None:
            return False
        self.row("INSERT INTO unconstrained VALUES (%s, %s, clock_timestamp() + make_interval(secs => %s)) RETURNING 1", key, self.owner, ttl)
        return True

    def release(self, key):
        return self.row("DELETE FROM unconstrained WHERE name = %s AND owner = %s RETURNING 1", key, self.owner) is not None


class ExpiryByTheClient(RepairedRow):
    TAKE = """
    INSERT INTO locks VALUES (%s, %s, to_timestamp(%s))
    ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
    WHERE locks.expires < to_timestamp(%s) RETURNING 1
    """

    def attempt(self, key, ttl):
        now = time.time()
        return self.row(self.TAKE, key, self.owner, now + ttl, now) is not None


class ReleaseOfAnyRow(RepairedRow):
    def release(self, key):
        return self.row("DELETE FROM locks WHERE name = %s RETURNING 1", key) is not None


LOCKS = {
    "repaired": Repaired,
    "row-is-truthy": RowIsTruthy,
    "hash-of-the-program": HashOfTheProgram,
    "transaction-lock-without-transaction": TransactionLockWithoutTransaction,
    "shared-connection": SharedConnection,
    "repaired-row": RepairedRow,
    "check-then-insert": CheckThenInsert,
    "expiry-by-the-client": ExpiryByTheClient,
    "release-of-any-row": ReleaseOfAnyRow,
}
fencepost.run(LOCKS[sys.argv[1]])
