"""A lock of any kind on one Redis, without any library: the holders are members of a sorted set.

Each member says how many may hold the lock beside it, and its score until when it holds it, by the server's clock.
"""

import socket
import uuid

import fencepost

# Removes holders whose time is over.
CLEAN = """
local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
for _, key in ipairs(KEYS) do redis.call('zremrangebyscore', key, '-inf', now) end
"""
# Adds a holder to each key if none of those there, nor it, is then one too many.
TAKE = CLEAN + """
for _, key in ipairs(KEYS) do
  local most = tonumber(ARGV[2])
  for _, holder in ipairs(redis.call('zrange', key, 0, -1)) do
    most = math.min(most, tonumber(string.match(holder, '%d+')))
  end
  if redis.call('zcard', key) >= most then return 0 end
end
for _, key in ipairs(KEYS) do redis.call('zadd', key, now + ARGV[3], ARGV[1]) end
return 1
"""
# Adds what a holder acquires again, for as long as it has the lock.
TAKE_AGAIN = CLEAN + """
local score = redis.call('zscore', KEYS[1], ARGV[1])
return score and redis.call('zadd', KEYS[1], score, ARGV[2]) or 0
"""
GIVE_BACK = """
local removed = 0
for _, key in ipairs(KEYS) do removed = removed + redis.call('zrem', key, ARGV[1]) end
return removed
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

    def run(self, script, keys, *arguments):
        return int(self.ask("EVAL", script, len(keys), *keys, *arguments)[1:])  # the answer is ":1"

    def take(self, keys, most, ttl, timeout):
        """Gives a Grant where fewer than `most` hold each of them, each of whom bears one more. In seconds."""
        value = f"{most}:{uuid.uuid4()}"
        self.values.update(dict.fromkeys(keys, value))
        if self.env.poll(lambda: self.run(TAKE, keys, value, most, int(ttl * 1000)) == 1, timeout):
            return fencepost.Grant()
        raise fencepost.NotAcquired("every attempt was answered with no")

    def acquire(self, key, ttl, timeout):
        """For a writer, or the only holder."""
        return self.take([key], 1, ttl, timeout)

    def acquire_shared(self, key, ttl, timeout):
        """For a reader, of a lock with kind = "read-write"."""
        return self.take([key], ANY_NUMBER, ttl, timeout)

    def acquire_permit(self, key, permits, ttl, timeout):
        """For one of the permits, of a lock with kind = "semaphore"."""
        return self.take([key], permits, ttl, timeout)

    def acquire_all(self, keys, ttl, timeout):
        """For all of these names, or none, of a lock with kind = "several"."""
        return self.take(keys, 1, ttl, timeout)

    def reenter(self, key, ttl, timeout):
        """For its holder once more, of a lock with kind = "reentrant"; gives False where it is no longer the holder."""
        value = self.values[key]
        if self.run(TAKE_AGAIN, [key], value, value + "+") == 0:
            return False
        self.values[key] = value + "+"

    def leave(self, key):
        """Gives back what was acquired last, of a lock that is held more than once."""
        if self.run(GIVE_BACK, [key], self.values[key]) == 0:
            raise fencepost.NotHeld("its time was over")
        self.values[key] = self.values[key][:-1]

    def release(self, key):
        """Gives True or False where the library says whether it removed a lock, else nothing."""
        return self.release_all([key])

    def release_all(self, keys):
        """The same of all these names."""
        return self.run(GIVE_BACK, keys, self.values[keys[0]]) == len(keys)


fencepost.run(RedisLock)
