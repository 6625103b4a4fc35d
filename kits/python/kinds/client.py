"""A read-write lock and a semaphore on one Redis, without any library: the holders are members of a sorted set.

Each member says how many may hold the lock beside it, and its score until when it holds it, by the server's clock.
"""

import socket
import uuid

import fencepost

# Removes holders whose time is over, and adds one if none of them, nor it, is then one too many.
TAKE = """
local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
local most = tonumber(ARGV[2])
for _, holder in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
  most = math.min(most, tonumber(string.match(holder, '%d+')))
end
if redis.call('zcard', KEYS[1]) >= most then return 0 end
redis.call('zadd', KEYS[1], now + ARGV[3], ARGV[1])
return 1
"""
ANY_NUMBER = 10**9


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

    def take(self, key, most, ttl, timeout):
        """Gives a Grant where fewer than `most` hold it, each of whom bears one more. In seconds."""
        self.values[key] = value = f"{most}:{uuid.uuid4()}"
        if self.env.poll(lambda: self.ask("EVAL", TAKE, 1, key, value, most, int(ttl * 1000)) == b":1\r\n", timeout):
            return fencepost.Grant()
        raise fencepost.NotAcquired("every attempt was answered with no")

    def acquire(self, key, ttl, timeout):
        """For a writer."""
        return self.take(key, 1, ttl, timeout)

    def acquire_shared(self, key, ttl, timeout):
        """For a reader, of a lock with kind = "read-write"."""
        return self.take(key, ANY_NUMBER, ttl, timeout)

    def acquire_permit(self, key, permits, ttl, timeout):
        """For one of the permits, of a lock with kind = "semaphore"."""
        return self.take(key, permits, ttl, timeout)

    def release(self, key):
        """Gives True or False where the library says whether it removed a lock, else nothing."""
        return self.ask("ZREM", key, self.values[key]) == b":1\r\n"


fencepost.run(RedisLock)
