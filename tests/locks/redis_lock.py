"""A correct lock on one Redis, in which each of the folders beside this file plants a mistake."""

import socket
import uuid

DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class RedisLock:
    def __init__(self, env):
        self.env, self.values = env, {}
        self.socket = socket.create_connection((env.servers[0].host, env.servers[0].port), timeout=5)
        self.answers = self.socket.makefile("rb")
        self.close = self.socket.close

    def ask(self, *words):
        parts = [str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self.answers.readline()

    def set_if_free(self, key, ttl):
        return self.ask("SET", key, self.values[key], "NX", "PX", int(ttl * 1000)) == b"+OK\r\n"

    def acquire(self, key, ttl, timeout):
        self.values[key] = str(uuid.uuid4())
        return self.env.poll(lambda: self.set_if_free(key, ttl), timeout)

    def release(self, key):
        return self.ask("EVAL", DELETE, 1, key, self.values[key]) == b":1\r\n"
