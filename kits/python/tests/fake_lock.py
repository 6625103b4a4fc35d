"""The fake lock of kits/tests/fake-lock.md: asks no server; the key says what it does."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import fencepost  # noqa: E402


class FakeLock:
    def __init__(self, env):
        if "broken" in env.options:
            raise OSError("broken")
        self.env, self.token, self.attempts = env, 32, 0

    def acquire(self, key, ttl, timeout):
        name, _, other = key.partition(":")
        act = getattr(self, "acquire_" + name.replace("-", "_"), None)
        return act(other or key, timeout) if act else self.granted()

    def granted(self, **more):
        self.token += 1
        return fencepost.Grant(token=self.token, unique=f"u-{self.env.process}", **more)

    def acquire_taken(self, key, timeout):
        raise fencepost.NotAcquired("by another")

    def acquire_nothing(self, key, timeout):
        return None

    def acquire_unsure(self, key, timeout):
        raise RuntimeError("no answer")

    def acquire_certain(self, key, timeout):
        raise fencepost.Certain("unreachable: refused")

    def acquire_slow(self, key, timeout):
        time.sleep(0.5)
        return self.granted()

    def acquire_polled(self, key, timeout):
        self.attempts = 0
        return self.env.poll(self.third, timeout)

    def third(self):
        time.sleep(0.1)
        self.attempts += 1
        return self.granted() if self.attempts == 3 else None

    def acquire_never(self, key, timeout):
        return self.env.poll(lambda: None, timeout)

    def acquire_short(self, key, timeout):
        return self.granted(validity=0.15)

    def acquire_short_still(self, key, timeout):
        return self.granted(validity=0.15)

    def acquire_long(self, key, timeout):
        return self.granted(validity=60)

    def acquire_print(self, key, timeout):
        print("printed by the library", flush=True)
        return self.granted()

    def acquire_access(self, key, timeout):
        access = self.env.access
        parts = [access.user, access.password, access.ca, access.certificate, access.key, self.env.servers[0].tls_name]
        return fencepost.Grant(token=1, unique=" ".join(part or "-" for part in parts))

    def acquire_lost(self, key, timeout):
        self.env.lost(key, "session expired")
        return self.granted()

    def acquire_lost_taken(self, key, timeout):
        self.env.lost(key, "session expired")
        raise fencepost.NotAcquired("by another")

    def acquire_lose(self, key, timeout):
        self.env.lost(key, "session expired")

    def acquire_renew(self, key, timeout):
        self.env.renewed(key, 0.005)

    def release(self, key):
        if key == "not-held":
            raise fencepost.NotHeld("of another")
        if key == "certain-release":
            raise fencepost.Certain("unreachable: refused")
        if key == "unsure-release":
            raise RuntimeError("no answer")
        if key == "slow":
            print("released slow", file=sys.stderr, flush=True)
        return {"gone": False, "removed": True}.get(key)

    def holds(self, key):
        if key == "confused":
            raise RuntimeError("confused")
        return None if key == "doubted" else True

    def close(self):
        print("closed", self.env.process, file=sys.stderr, flush=True)


class FakeLockOfKinds(FakeLock):
    """With the option `kinds`."""

    def prolong(self, key, ttl, timeout):
        if key == "unsure-prolong":
            raise RuntimeError("no answer")
        if key == "not-held":
            raise fencepost.NotHeld("of another")
        if key == "certain-prolong":
            raise fencepost.Certain("unreachable: refused")
        if key == "lose":
            self.env.lost(key, "session expired")
        return {"gone": False, "removed": True}.get(key)

    def leader(self, key, timeout):
        if key == "unsure-leader":
            raise RuntimeError("no answer")
        if key == "certain-leader":
            raise fencepost.Certain("unreachable: refused")
        return {"vacant": None, "first": 0, "digits": "12", "stranger": "someone"}.get(key, self.env.process)

    def acquire_shared(self, key, ttl, timeout):
        return fencepost.Grant(unique="shared")

    def acquire_permit(self, key, permits, ttl, timeout):
        return fencepost.Grant(unique=f"one of {permits}")

    def reenter(self, key, ttl, timeout):
        if key == "shut-out":
            raise fencepost.NotAcquired("by another")
        return fencepost.Grant(validity=60) if key == "short" else self.prolong(key, ttl, timeout)

    def leave(self, key):
        return self.release(key)

    def acquire_all(self, keys, ttl, timeout):
        grant = self.acquire(keys[-1], ttl, timeout)
        return grant and grant._replace(unique="all of " + " ".join(keys))

    def release_all(self, keys):
        return self.release(keys[-1])


def make(env):
    return (FakeLockOfKinds if "kinds" in env.options else FakeLock)(env)


if __name__ == "__main__":
    fencepost.run(make, can=lambda options: sys.argv[1:])
