"""Locks on etcd of one key, which is there while the lock is held."""

import threading

import gateway


class Repaired:
    """A transaction makes the key where it is absent, under a lease of its own for each grant, which the release revokes."""

    def __init__(self, env):
        self.env, self.leases = env, {}
        self.etcd = gateway.Etcd(env.servers, env.process, timeout=1)
        self.etcd.connect().connect()

    def acquire(self, key, ttl, timeout):
        return self.env.poll(lambda: self.attempt(key, ttl), timeout, rest=(0.01, 0.03))

    def attempt(self, key, ttl):
        if self.etcd.get(key) is not None:
            return False
        self.leases[key] = self.etcd.grant(ttl)
        if self.put(key):
            return True
        self.etcd.revoke(self.leases[key])
        return False

    def put(self, key):
        return self.etcd.put_if_absent(key, "held", lease=self.leases[key])

    def release(self, key):
        try:
            self.etcd.revoke(self.leases[key])
        except gateway.Refused:
            return False  # the lease has run out
        return True

    def close(self):
        self.etcd.close()


class LeaseNotAttached(Repaired):
    def put(self, key):
        return self.etcd.put_if_absent(key, self.leases[key])

    def release(self, key):
        super().release(key)
        return self.etcd.delete(key) == 1


class GetThenPut(Repaired):
    def put(self, key):
        self.etcd.put(key, "held", lease=self.leases[key])
        return True


class WithEntersWithout(Repaired):
    """Used as `with lock:`; the time for waiting is the library's."""

    def __enter__(self):
        super().acquire(*self.arguments)
        return self

    def acquire(self, *arguments):
        self.arguments = arguments
        self.__enter__()
        return True

    def release(self, key):
        return super().release(key) if key in self.leases else None


class Session:
    """A lease that all processes of a client share, and a thread that keeps it alive."""

    def __init__(self, env):
        self.env, self.mutex, self.lease, self.members = env, threading.Lock(), None, {}
        self.etcd = gateway.Etcd(env.servers, 0, timeout=env.ttl / 3)

    def current(self, ttl):
        with self.mutex:
            if self.lease is None:
                self.lease = self.etcd.grant(ttl)
                threading.Thread(target=self.keep, args=(self.lease, ttl), daemon=True).start()
            return self.lease

    def keep(self, lease, ttl):
        pause, misses = threading.Event(), 0
        while misses < 2 and self.lease == lease and not pause.wait(ttl / 3):
            try:
                misses = 0 if self.etcd.keep_alive(lease) else 2
            except (OSError, gateway.Refused):
                misses += 1
        self.end(lease)

    def end(self, lease):
        with self.mutex:
            if self.lease == lease:
                self.lease = None
            lost = [each for each, of in list(self.members.items()) if of == lease]
        for process, key in lost:
            process.env.lost(key, "the lease of the client is over")


SESSION, MAKING = [], threading.Lock()


class RepairedSharedLease(Repaired):
    """All keys of a client hang on one lease, which is kept alive; a release deletes its own key."""

    can = ("lost",)

    def __init__(self, env):
        super().__init__(env)
        with MAKING:
            self.session = SESSION[0] if SESSION else Session(env)
            SESSION[:] = [self.session]

    def attempt(self, key, ttl):
        self.leases[key] = self.session.current(ttl)
        self.session.members[self, key] = self.leases[key]
        granted = self.etcd.put_if_absent(key, f"{self.env.client} {self.env.process}", lease=self.leases[key])
        if not granted:
            del self.session.members[self, key]
        return granted

    def release(self, key):
        del self.session.members[self, key]
        return self.free(key)

    def free(self, key):
        try:
            return self.delete(key)
        except OSError:
            # The lease lives on, and the key with it. Which attempt deleted it is then not known.
            return self.delete_later(key)

    def delete_later(self, key):
        for _ in range(3):
            try:
                return self.delete(key) and None
            except OSError:
                continue
        self.session.end(self.leases[key])
        raise OSError("no answer to the release: the lease of the client is given up")

    def delete(self, key):
        kv = self.etcd.get(key)
        is_mine = kv is not None and kv.get("lease") == self.leases[key]
        return is_mine and self.etcd.delete(key) == 1

    def holds(self, key):
        return self.session.lease == self.leases[key]

    def close(self):
        for process, key in list(self.session.members):
            if process is self:
                self.release(key)
        super().close()


class SharedLeaseRevoked(RepairedSharedLease):
    def free(self, key):
        lease, self.session.lease = self.leases[key], None
        try:
            self.etcd.revoke(lease)
        except gateway.Refused:
            return False
        return True
