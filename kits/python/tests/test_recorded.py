"""What `recorded` reports of a lock, for each way in which its operations can end."""

import pytest
from fencepost_pytest import FaultError, NotAcquired, recorded


class Cluster:
    """Keeps what is reported."""

    def __init__(self):
        self.events = []

    def _call(self, method, path, body):
        assert (method, path) == ("POST", "/operations")
        process = body.pop("process")
        assert process.split("-")[1].isdigit()
        self.events.append({name: value for name, value in body.items() if value is not None})

    def said(self):
        return [(event["type"], event.get("f")) for event in self.events]


class Lock:
    """One of the kit's shape, which answers what it is told."""

    def __init__(self, answer=True):
        self.answer = answer

    def acquire(self, key, ttl, timeout):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def release(self, key):
        return self.answer


class Library:
    """A lock that knows its name."""

    def acquire(self):
        return True

    def release(self):
        return None

    def extend(self, seconds):
        return False


class Certain(Exception):
    pass


class NotHeld(Certain):
    pass


def test_an_acquire_and_a_release_of_the_kit_are_recorded():
    cluster = Cluster()
    lock = recorded(Lock(), cluster=cluster)
    assert lock.acquire("k", 10, timeout=1) and lock.release("k")
    assert cluster.events == [
        {"type": "invoke", "f": "acquire", "key": "k", "value": {"ttl_ms": 10000}},
        {"type": "ok", "value": {}},
        {"type": "invoke", "f": "release", "key": "k"},
        {"type": "ok", "value": {"believed": True}},
    ]


@pytest.mark.parametrize(
    "answer, kind", [(False, "fail"), (None, "fail"), (NotHeld("not-held: no"), "fail"), (OSError("reset"), "info")]
)
def test_what_is_certain_fails_and_all_else_is_open(answer, kind):
    cluster = Cluster()
    lock = recorded(Lock(answer), cluster=cluster)
    if isinstance(answer, BaseException):
        with pytest.raises(type(answer)):
            lock.acquire("k", 10, 1)
    else:
        assert not lock.acquire("k", 10, 1)
    assert cluster.events[-1]["type"] == kind and cluster.events[-1]["error"]


def test_a_lock_that_knows_its_name_works_as_a_block():
    cluster = Cluster()
    with recorded(Library(), key="k", ttl=2.5, cluster=cluster) as held:
        held.works()
        assert held.prolong(2.5) is False
    assert cluster.said() == [
        ("invoke", "acquire"), ("ok", None), ("invoke", "holds"), ("ok", None),
        ("invoke", "prolong"), ("fail", None), ("invoke", "release"), ("ok", None),
    ]
    assert cluster.events[3]["value"] is True


def test_a_program_that_knows_of_its_loss_does_not_believe_any_more():
    cluster = Cluster()
    lock = recorded(Lock(), cluster=cluster)
    lock.acquire("k", 10, 1)
    lock.lost("k", "by its own clock")
    lock.release("k")
    assert cluster.events[2]["f"] == "lost"
    assert cluster.events[-1] == {"type": "ok", "value": {"believed": False}}


def test_a_lock_that_cannot_be_recorded_is_refused():
    async def acquire(self):
        return True

    lock = type("Async", (Library,), {"acquire": acquire})()
    with pytest.warns(RuntimeWarning), pytest.raises(TypeError, match="awaitable"):
        recorded(lock, key="k", ttl=1, cluster=Cluster()).acquire()
    with pytest.raises(NotAcquired):
        with recorded(type("No", (Library,), {"acquire": lambda self: False})(), key="k", ttl=1, cluster=Cluster()):
            pass
    with pytest.raises(FaultError, match="--record"):
        recorded(Library())
