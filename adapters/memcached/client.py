"""A lock out of memcached's `add`, as its documentation proposes: an entry with a token of the holder, which expires.

`--exact-ttl`: the TTL is the expiry; `--blind-delete`: a release deletes whatever is there; `--small-cache`: the holder caches results.
"""

import math
import sys
import uuid

import fencepost
from pymemcache.client.base import Client

# More than the memory of the server holds.
RESULTS = {f"result-{number}": b"a result" for number in range(32768)}


class Memcached:
    def __init__(self, env):
        self.env, self.tokens = env, {}
        self.memcached = Client((env.servers[0].host, env.servers[0].port), connect_timeout=2, timeout=2, no_delay=True)
        self.memcached.version()  # connects
        self.close = self.memcached.close

    def acquire(self, key, ttl, timeout):
        self.memcached.sock.settimeout(timeout)
        token = self.tokens[key] = uuid.uuid4().bytes.hex().encode()
        # memcached's clock ticks once a second, so an entry lives for up to a second less than asked for.
        expiry = math.ceil(ttl) + (0 if "--exact-ttl" in sys.argv else 1)
        granted = self.env.poll(lambda: self.memcached.add(key, token, expire=expiry, noreply=False), timeout)
        if not granted:
            raise fencepost.NotAcquired("every add was answered with NOT_STORED")
        if "--small-cache" in sys.argv:
            self.memcached.set_many(RESULTS, expire=60, noreply=True)
        return True

    def release(self, key):
        token = self.tokens.pop(key)
        self.memcached.sock.settimeout(2)
        if "--blind-delete" in sys.argv:
            return self.memcached.delete(key, noreply=False)
        value, unique = self.memcached.gets(key)
        # An expiry in the past removes the entry, and only if it is still the one that was read.
        return value == token and bool(self.memcached.cas(key, token, unique, expire=-1, noreply=False))


fencepost.run(Memcached)
