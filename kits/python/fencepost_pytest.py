"""Servers with faults, for tests of your own: `fencepost up` as a fixture of pytest.

    def test_my_lock(fencepost_cluster):
        cluster = fencepost_cluster("redlock")
        with cluster.partition("n1"):
            ...

Only the standard library, Python 3.9 or later. Without pytest: `with start("redlock") as cluster`.
"""

import ctypes
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
