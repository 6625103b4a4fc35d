"""A lock of my own. Write acquire and release: everything else is done by the kit, fencepost.py."""

import fencepost


class MyLock:
    def __init__(self, env):
        """Connects: one object for each process. env.servers has the servers (name, host, port), env.options the options."""
        self.env = env

    def acquire(self, key, ttl, timeout):
        """Gives True if the library granted the lock, False if it said no; an exception where that is unknown. In seconds."""
        raise fencepost.Certain("unreachable: acquire in client.py is not written yet")

%read-write
    def acquire_shared(self, key, ttl, timeout):
        """The same for a reader."""
        raise fencepost.Certain("unreachable: acquire_shared in client.py is not written yet")

%semaphore
    def acquire_permit(self, key, permits, ttl, timeout):
        """The same for one of the permits; acquire is not called."""
        raise fencepost.Certain("unreachable: acquire_permit in client.py is not written yet")

%reentrant
    def reenter(self, key, ttl, timeout):
        """Acquires it once more for its holder. Gives False where it was no longer held."""
        raise fencepost.Certain("unreachable: reenter in client.py is not written yet")

    def leave(self, key):
        """Releases once what was acquired more than once."""
        raise fencepost.Certain("unreachable: leave in client.py is not written yet")

%several
    def acquire_all(self, keys, ttl, timeout):
        """The same for all of these names, or none of them."""
        raise fencepost.Certain("unreachable: acquire_all in client.py is not written yet")

    def release_all(self, keys):
        """Gives all of them back, as release does."""
        raise fencepost.Certain("unreachable: release_all in client.py is not written yet")

%
    def release(self, key):
        """Gives True or False where the library says whether it removed a lock."""
        raise fencepost.Certain("unreachable: release in client.py is not written yet")

    def close(self):
        """Ends connections and renewals: the process is over."""


fencepost.run(MyLock)
