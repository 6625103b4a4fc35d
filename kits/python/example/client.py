"""A lock on one Redis, without any library: `SET NX PX`, and a script that deletes the key only with the own value."""

import socket
import uuid

import fencepost

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class RedisLock:
    def __init__(self, env):
        """Once for each process: connects."""
        self.env, self.values = env, {}
        server, access = env.servers[0], env.access
        self.socket = socket.create_connection((server.host, server.port), timeout=1)
        if access.tls:
            self.socket = access.ssl_context().wrap_socket(self.socket, server_hostname=server.tls_name)
        self.answers = self.socket.makefile("rb")
        self.close = self.socket.close
        if access.password and self.ask("AUTH", access.user, access.password) != b"+OK\r\n":
            raise OSError("the server does not take the password")

    def ask(self, *words):
        parts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self.answers.readline()

    def acquire(self, key, ttl, timeout):
        """Gives True or a Grant; False where the library said no; any other exception where it is unknown. In seconds."""
        self.values[key] = value = str(uuid.uuid4())
        if self.env.poll(lambda: self.ask("SET", key, value, "NX", "PX", int(ttl * 1000)) == b"+OK\r\n", timeout):
            return fencepost.Grant(unique=value)
        raise fencepost.NotAcquired("every SET was answered with no")

    def release(self, key):
        """Gives True or False where the library says whether it removed a lock, else nothing."""
        return self.ask("EVAL", DELETE, 1, key, self.values[key]) == b":1\r\n"


fencepost.run(RedisLock)
