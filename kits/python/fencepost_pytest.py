"""Servers with faults, for tests of your own: `fencepost up` as a fixture of pytest.

    def test_my_lock(fencepost_cluster):
        cluster = fencepost_cluster("redlock")
        with cluster.partition("n1"):
            ...

`recorded(lock)` reports what a test does with its lock to `fencepost up --record`, which judges it.

Only the standard library, Python 3.9 or later. Without pytest: `with start("redlock") as cluster`.
"""

import ctypes
import inspect
import itertools
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request


#: Of prctl(2).
PR_SET_PDEATHSIG = 1


class FaultError(Exception):
    """A fault could not be injected or healed, or showed no effect: the sentence says why."""


class Server:
    """A server: its name, and where this machine reaches it."""

    def __init__(self, name, address):
        self.name, self.address = name, address
        self.host, port = address.rsplit(":", 1)
        self.port = int(port)


class Fault:
    """A fault in force. It is healed at the end of a `with`, by `heal()`, and when the test ends."""

    def __init__(self, cluster, report):
        self._cluster = cluster
        #: What was observed: `id`, `sentence`, `observed`, …
        self.report = report

    def heal(self):
        self.report = self._cluster._call("DELETE", f"/faults/{self.report['id']}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.heal()


class Clock:
    """The clocks of some nodes. `clock` is "wall" (that of the date), "monotonic" or "both"."""

    def __init__(self, cluster, nodes):
        self._cluster, self._nodes = cluster, nodes

    def jump(self, seconds, clock="wall"):
        """Lets them jump, forward or (negative) back."""
        by = f"{'-' if seconds < 0 else ''}{round(abs(seconds) * 1000)}ms"
        keys = {name: by for name in ("wall", "monotonic") if clock in (name, "both")}
        return self._cluster.fault("clock-jump", *self._nodes, **keys)

    def drift(self, rate, clock="wall"):
        """Lets them run at another rate: 1.05 gains 50 ms in a second."""
        return self._cluster.fault("clock-drift", *self._nodes, drift_ppm=round((rate - 1) * 1e6), clock=clock)

    def freeze(self, clock="wall"):
        return self._cluster.fault("clock-freeze", *self._nodes, clock=clock)


class Cluster:
    """Servers that stand, at the control port of `fencepost up`."""

    def __init__(self, api, token, process=None):
        self._api, self._token, self._process = api, token, process
        servers = self._call("GET", "/cluster")["servers"]
        #: In the order of their names.
        self.servers = [Server(server["node"], server["address"]) for server in servers]
        #: `host:port` of each.
        self.addresses = [server.address for server in self.servers]

    def fault(self, nemesis, *nodes, **keys):
        """Injects any fault of `fencepost list nemeses`, and returns once it was seen to have an effect.

        `keys` are those of a `[[fault]]` of a plan: `cluster.fault("delay", "n1", delay="200ms")`; `for_`
        says how long it lasts.
        """
        keys = {name.rstrip("_"): value for name, value in keys.items()}
        on = {"on": list(nodes)} if nodes else {}
        return Fault(self, self._call("POST", "/faults", {"fault": nemesis, **on, **keys}))

    def partition(self, *groups):
        """Cuts nodes off: `"n1"` from all others and from this program, `"n1,n2", "n3"` from each other."""
        if len(groups) > 1:
            return self.fault("partition", groups="|".join(groups))
        return self.fault("partition", *groups[0].split(","))

    def pause(self, *nodes):
        """Stops the processes of servers, as a long collection of garbage does."""
        return self.fault("pause", *nodes)

    def kill(self, *nodes):
        """Kills servers. They are started again at the healing."""
        return self.fault("kill", *nodes)

    def clock(self, *nodes):
        return Clock(self, nodes)

    def faults(self):
        """What is in force and what was observed of it; then the last faults that are over."""
        return self._call("GET", "/faults")["faults"]

    def heal(self):
        """Heals all faults."""
        self._call("DELETE", "/faults")

    def down(self):
        """Takes the servers down, if `start` started them."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.down()

    def _call(self, method, path, body=None):
        request = urllib.request.Request(
            self._api + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        # It is this machine: no proxy has a part in it.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise FaultError(json.load(error)["error"]) from None


def standing():
    """The cluster beside which `fencepost up … -- COMMAND` started this program; None where there is none."""
    api, token = os.environ.get("FENCEPOST_API"), os.environ.get("FENCEPOST_TOKEN")
    return Cluster(api, token) if api and token else None


def start(lock, *options, program=None):
    """Starts the servers of a lock: `start("etcd", "--nodes", "5")`. What `fencepost` says goes to standard error."""
    program = program or os.environ.get("FENCEPOST_PROGRAM", "fencepost")
    start.count = getattr(start, "count", 0) + 1
    name = f"{os.path.basename(lock.rstrip('/'))}-{os.getpid()}-{start.count}"
    command = [program, "up", lock, "--json", "--name", name, *options]
    # However this program ends, the servers end with it.
    end_with_parent = ctypes.CDLL(None).prctl
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: end_with_parent(PR_SET_PDEATHSIG, signal.SIGTERM)
    )
    line = process.stdout.readline()
    if not line:
        process.stdout.close()
        raise FaultError(f"`{' '.join(command)}` ended with {process.wait()}")
    with open(json.loads(line)["control"]) as file:
        control = json.load(file)
    return Cluster(control["api"], control["token"], process)


class NotAcquired(Exception):
    """`with` did not get the lock."""


class Recorded:
    """A lock whose operations `fencepost up --record` records. It is one user of the lock: make one for each thread."""

    _numbers = itertools.count(1)

    def __init__(self, lock, key=None, ttl=None, cluster=None):
        self._lock, self._key, self._ttl = lock, key, ttl
        self._cluster = cluster or standing()
        if self._cluster is None:
            raise FaultError("nothing records here: run `fencepost up LOCK --record -- COMMAND`")
        self._process = f"{os.getpid()}-{next(Recorded._numbers)}"
        self._held = set()

    def acquire(self, *arguments, **named):
        """`acquire` of the lock, with the same arguments."""
        key, ttl = self._asked(arguments, named)
        result = self._do("acquire", key, {"ttl_ms": ttl * 1000}, self._lock.acquire, arguments, named)
        if result:
            granted = {name: getattr(result, name, None) for name in ("token", "granted_by")}
            self._end("ok", {name: value for name, value in granted.items() if value is not None})
            self._held.add(key)
        else:
            self._end("fail", None, f"refused-by-library: acquire returned {result!r}")
        return result

    def release(self, *arguments, **named):
        """`release` of the lock. The program has used the lock up to here, unless it said that it was `lost`."""
        key = self._key if self._key is not None else arguments[0]
        believed = {"believed": key in self._held}
        self._held.discard(key)
        result = self._do("release", key, None, self._lock.release, arguments, named, believed)
        if result is False:
            self._end("fail", believed, "not-held: the release removed nothing")
        else:
            self._end("ok", believed)
        return result

    def prolong(self, *arguments, **named):
        """`prolong` of the lock, or its `extend`."""
        key, ttl = self._asked(arguments, named)
        prolong = getattr(self._lock, "prolong", None) or self._lock.extend
        result = self._do("prolong", key, {"ttl_ms": ttl * 1000}, prolong, arguments, named)
        if result is False:
            self._end("fail", None, "not-held: prolong returned False")
        else:
            self._end("ok", None)
        return result

    def works(self, key=None):
        """Says that the program is doing what the lock protects: it believes at this moment that it holds the lock."""
        key = self._key if key is None else key
        self._report(type="invoke", f="holds", key=key)
        self._end("ok", key in self._held)

    def lost(self, key=None, reason="the program says so"):
        """Says that the program has learned that its lock is gone, and does nothing more under it."""
        key = self._key if key is None else key
        self._held.discard(key)
        self._report(type="info", f="lost", key=key, value={"reason": reason})

    def __enter__(self):
        if not self.acquire():
            raise NotAcquired(f"the lock {self._key} was not acquired")
        return self

    def __exit__(self, *_):
        self.release()

    def _asked(self, arguments, named):
        """Key and TTL: those of the lock, or, in the way of the kit, the first two arguments."""
        key = self._key if self._key is not None else arguments[0]
        ttl = named.get("ttl", self._ttl)
        return key, arguments[1] if ttl is None else ttl

    def _do(self, f, key, value, call, arguments, named, believed=None):
        """Calls the lock. What it raises says nothing certain, unless it is a `Certain` of the kit."""
        self._report(type="invoke", f=f, key=key, value=value)
        try:
            result = call(*arguments, **named)
            if inspect.isawaitable(result):
                raise TypeError(f"{f} is awaitable: only locks that block can be recorded")
            return result
        except BaseException as error:
            certain = any(kind.__name__ == "Certain" for kind in type(error).__mro__)
            self._end("fail" if certain else "info", believed, str(error) if certain else f"raised: {error!r}")
            raise

    def _end(self, kind, value, error=None):
        self._report(type=kind, value=value, error=error)

    def _report(self, **event):
        self._cluster._call("POST", "/operations", {"process": self._process, **event})


def recorded(lock, key=None, ttl=None, cluster=None):
    """The same lock, recorded by `fencepost up --record`, which judges it when the servers go down.

    A class of the kit names key and TTL itself: `recorded(MyLock()).acquire("k", 10, timeout=1)`. Of any other
    lock say them: `with recorded(client.lock("k", timeout=10), key="k", ttl=10): ...`.
    """
    return Recorded(lock, key, ttl, cluster)


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture(scope="session")
    def _fencepost_clusters():
        clusters = {}
        yield clusters
        for cluster in clusters.values():
            cluster.down()

    @pytest.fixture
    def fencepost_cluster(_fencepost_clusters):
        """A function that gives the servers of a lock, which all tests share: `fencepost_cluster("redlock")`.

        Beside `fencepost up … -- pytest` it gives those servers. All faults are healed when the test ends.
        """
        used = []

        def cluster(lock, *options):
            key = (lock, *options)
            if key not in _fencepost_clusters:
                _fencepost_clusters[key] = standing() or start(lock, *options)
            used.append(_fencepost_clusters[key])
            return used[-1]

        yield cluster
        for one in used:
            one.heal()
