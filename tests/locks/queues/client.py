"""A lock with a queue: each waiter draws a ticket, and the first of the queue takes the lock when it is free.

The mistake of `--last`: the last of the queue takes it.
"""

import sys

import fencepost
import redis_lock

TAKE = """
local first = redis.call('ZRANGE', KEYS[1] .. ':queue', %d, %d)[1]
if first ~= ARGV[1] or not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
return redis.call('ZREM', KEYS[1] .. ':queue', ARGV[1])
""" % ((-1, -1) if "--last" in sys.argv else (0, 0))


# In one step: a ticket that is drawn and not yet in the queue would be passed.
STAND = """
local ticket = redis.call('INCR', KEYS[1] .. ':tickets')
redis.call('ZADD', KEYS[1] .. ':queue', ticket, ticket)
return ticket
"""


class Queues(redis_lock.RedisLock):
    def acquire(self, key, ttl, timeout):
        ticket = int(self.ask("EVAL", STAND, 1, key)[1:])
        self.values[key] = str(ticket)
        if self.env.poll(lambda: self.ask("EVAL", TAKE, 1, key, ticket, int(ttl * 1000)) == b":1\r\n", timeout):
            return fencepost.Grant(arrival=ticket)
        self.ask("ZREM", key + ":queue", ticket)
        raise fencepost.NotAcquired("others stood before it")


fencepost.run(Queues)
