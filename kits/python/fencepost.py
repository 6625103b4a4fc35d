"""Puts a lock under test with Fencepost: `fencepost.run(MyLock)`, where the lock is three functions.

    class MyLock:
        def __init__(self, env):                 # once for each process, in the thread of that process
            self.client = connect(env.servers[0].host, env.servers[0].port)

        def acquire(self, key, ttl, timeout):    # in seconds; gives True, a Grant, or False
            return self.client.acquire(key, ttl, timeout)

        def release(self, key):                  # gives True or False where the library says whether it removed a lock
            self.client.release(key)

A read-write lock also has `acquire_shared(key, ttl, timeout)`, for readers; a semaphore has `acquire_permit(key, permits, ttl,
timeout)` in place of `acquire`; a reentrant lock has `reenter(key, ttl, timeout)` and `leave(key)`; a lock on several names has
`acquire_all(keys, ttl, timeout)` and `release_all(keys)`; a lock whose user can prolong it has `prolong(key, ttl, timeout)`; an
election that can say who leads has `leader(key, timeout)`.
Each of these functions may be `async def`, for a library on asyncio. kits/README.md of Fencepost describes the behaviour; the numbers of rules below are from
there. The file needs only the standard library, so it can be copied beside the client.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import queue
import random
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Coroutine
from time import monotonic, sleep
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, NoReturn, Optional, Set, Tuple, Union

__all__ = ["Access", "Certain", "Env", "Grant", "NotAcquired", "NotHeld", "Server", "run"]

Answer = Tuple[str, Any, Optional[str]]  # type, value and error of an answer to the controller


class Certain(Exception):
    """The operation certainly did not happen. The text begins with a code: `Certain("unreachable: no route to n1")`.

    After any other exception it counts as unknown whether the operation happened.
    """

    code = ""

    def __str__(self) -> str:
        return self.code + super().__str__()


class NotAcquired(Certain):
    """Every request of this acquire was answered, and another process holds the lock."""

    code = "taken: "


class NotHeld(Certain):
    """The release removed nothing: the lock was not this process's."""

    code = "not-held: "


class Grant(NamedTuple):
    """What an acquire gave, beside the lock; each part is optional.

    `token` is a fencing token, greater than those of earlier grants; `unique` a value that no other grant has; `validity`
    the seconds for which the lock is valid from now on, by the library's own word; `granted_by` names servers; `arrival` is its
    place in the queue, as the service recorded it.
    """

    token: Optional[int] = None
    unique: Optional[str] = None
    validity: Optional[float] = None
    granted_by: Optional[List[str]] = None
    arrival: Optional[int] = None


class Server(NamedTuple):
    """A server of the lock's service."""

    name: str
    host: str
    port: int
    address: str
    tls_name: str = ""  # the name that its certificate must have


class Access(NamedTuple):
    """What the servers ask of a client: a user and a password, or TLS with files in PEM; None where they do not ask for it."""

    user: Optional[str] = None
    password: Optional[str] = None
    tls: bool = False
    ca: Optional[str] = None
    certificate: Optional[str] = None
    key: Optional[str] = None

    def __repr__(self) -> str:
        return f"Access(user={self.user!r}, tls={self.tls}, ca={self.ca!r})"  # a log must not show the password

    def ssl_context(self) -> Any:
        """A context of the module `ssl` with these files; None where the servers speak no TLS."""
        if not self.tls:
            return None
        import ssl

        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key)
        return context


class _Held:
    """A grant, until its release begins or the key is granted again."""

    def __init__(self, ttl: float, grant: Grant, valid_until: Optional[float]) -> None:
        self.ttl, self.believed, self.marked, self.valid_until = ttl, True, False, valid_until
        credentials = {"token": grant.token, "unique": grant.unique}
        self.credentials = {name: value for name, value in credentials.items() if value is not None}


class Env:
    """What the controller says of the run, as one process sees it, and where the library of that process reports."""

    def __init__(self, client: _Client, process: int) -> None:
        hello = client.hello
        self.process, self.servers, self.access = process, client.servers, client.access
        self.client: str = hello.get("client", "")
        self.lock: str = hello.get("lock", "")
        self.options: Dict[str, str] = hello.get("options") or {}
        self.ttl: Optional[float] = hello["ttl_ms"] / 1000 if "ttl_ms" in hello else None
        self.lease: str = hello.get("lease", "ttl")
        self.seed: int = hello.get("seed", 0)
        self._client = client
        self._random = random.Random(f"{self.seed}-{process}")
        # Guards what follows, and the order of the lines that report it (rule 18).
        self._mutex = threading.Lock()
        self._held: Dict[str, _Held] = {}
        self._over = False
        self._acquiring: List[str] = []  # the names that the acquire under way asks for
        self._asked = self._begun = 0.0  # when the acquire began, and its latest attempt
        self._lost_meanwhile: Dict[str, str] = {}  # of these names, with the reasons

    def poll(self, attempt: Callable[[], Any], timeout: float, rest: Tuple[float, float] = (0.001, 0.01)) -> Any:
        """Repeats an attempt that does not block until it gives a grant, which counts from that attempt's begin.

        Gives None after `timeout` seconds. Between two attempts it rests for a random time between the two of `rest`.
        If the attempts are coroutines, it gives a coroutine.
        """
        deadline = monotonic() + timeout * 0.95  # an attempt should have time to end
        while True:
            self._begun = monotonic()
            granted = attempt()
            if isinstance(granted, Coroutine):
                return self._poll(granted, attempt, deadline, rest)
            if granted:
                return granted
            pause = self._random.uniform(*rest)
            if monotonic() + pause >= deadline:
                return None
            sleep(pause)

    async def _poll(self, begun: Any, attempt: Callable[[], Any], deadline: float, rest: Tuple[float, float]) -> Any:
        """Polls with coroutines, of which the first has begun."""
        import asyncio

        while True:
            granted = await begun
            if granted:
                return granted
            pause = self._random.uniform(*rest)
            if monotonic() + pause >= deadline:
                return None
            await asyncio.sleep(pause)
            self._begun = monotonic()
            begun = attempt()

    def lost(self, key: str, reason: str) -> None:
        """The library reports that the lock is lost. From any thread."""
        with self._mutex:
            held = self._held.get(key)
            if held is not None and held.believed:
                held.believed = False
                self._notice("lost", key, reason=str(reason))
            elif key in self._acquiring:
                self._lost_meanwhile[key] = str(reason)

    def renewed(self, key: str, age: float = 0.0) -> None:
        """The library prolonged the lease, by a request that it sent `age` seconds ago. From any thread."""
        with self._mutex:
            sent = monotonic() - age
            held = self._held.get(key)
            if held is not None and held.believed:
                if held.valid_until is not None:
                    held.valid_until = sent + held.ttl
                self._notice("renewed", key, age_ms=max(0, int(age * 1000)))
            elif key in self._acquiring:
                self._begun = max(self._begun, sent)

    def _notice(self, event: str, key: str, **more: Any) -> None:
        self._client.send({"event": event, "process": self.process, "key": key, **more})


def run(make: Callable[[Env], Any], can: "Can" = ()) -> NoReturn:
    """Serves the controller on standard input and output until the input ends; does not return.

    `make` gives a process its lock: a class, or any function. `can` names what the library does by itself: `lost` if
    it reports lost locks (`env.lost`), `extend` if it prolongs them (`env.renewed`), `prolong` if its user can, `leader` if it
    can say who leads, `cancel` if its functions are
    `async def` and can be cancelled. Where that depends on the options of the lock, it is a function of them that gives the names: `can=lambda options: ["extend"] if options.get("watchdog") == "yes" else []`.
    """
    # What a library prints or reads must not be mixed with the protocol (rule 1).
    source, sink = open(os.dup(0), encoding="utf-8", newline="\n"), os.dup(1)
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = sys.stderr
    # A library that interrupts the main thread, as portalocker does for a lost lock, must not end all processes.
    signal.signal(signal.SIGINT, lambda *_: print("the main thread was interrupted (SIGINT)", file=sys.stderr))
    problem = _Client(make, can, sink).serve(source)
    print(problem or "", end="\n" if problem else "", file=sys.stderr, flush=True)
    os._exit(254 if problem else 0)  # threads of a library must not keep the client alive


# What a lock can do: names, or a function of its options that gives them.
Can = Union[Iterable[str], Callable[[Dict[str, str]], Iterable[str]]]


class _Client:
    """The client program: hands each operation to the thread of its process."""

    def __init__(self, make: Callable[[Env], Any], can: "Can", sink: int) -> None:
        self.make, self.can, self.sink = make, can, sink
        self.hello: Dict[str, Any] = {}
        self.servers: List[Server] = []
        self.access = Access()
        self.processes: Dict[int, _Process] = {}
        self.write_numbers = itertools.count(1)
        self.shown: Set[type] = set()
        self.changing, self.writing = threading.Lock(), threading.Lock()

    def serve(self, source: Iterator[str]) -> Optional[str]:
        """Serves until the input ends. Gives a sentence if a line makes no sense."""
        line = next(source, "")
        try:
            self.greet(json.loads(line))
            for line in source:
                op = json.loads(line)
                self.dispatch(op, op["process"])
        except (ValueError, KeyError, TypeError) as error:
            return f"the controller sent a line that makes no sense ({error!r}): {line.strip()[:80]}"
        return None

    def greet(self, hello: Dict[str, Any]) -> None:
        if hello["hello"] != 1:
            raise ValueError(f"version {hello['hello']} of the client protocol, and this kit speaks version 1")
        for server in hello["servers"]:
            host, port = server["address"].rsplit(":", 1)
            host = host.strip("[]")
            self.servers.append(Server(server["name"], host, int(port), server["address"], server.get("tls_name") or host))
        access = hello.get("access") or {}
        files = access.get("tls") or {}
        names = {name: files.get(name) for name in ("ca", "certificate", "key")}
        self.access = Access(access.get("user"), access.get("password"), "tls" in access, **names)
        self.hello = hello
        validity = ["validity"] if hello.get("lease", "ttl") == "ttl" else []
        own = self.can(hello.get("options", {})) if callable(self.can) else self.can
        can = dict.fromkeys([*hello.get("claims", []), *validity, *own])
        self.send({"hello": 1, "can": list(can), "pid": os.getpid()})

    def dispatch(self, op: Dict[str, Any], number: int) -> None:
        with self.changing:
            process = self.processes.get(number)
            if "event" in op:
                if op["event"] == "over" and process is not None:
                    process.end()
                elif op["event"] == "cancel" and process is not None:
                    process.cancel(op["id"])
                elif op["event"] == "goes-on" and process is not None:
                    self.processes[op["next"]] = self.processes.pop(number)
                    process.go_on(op["next"])
                return
            if process is None:
                process = self.processes[number] = _Process(self, number)
            process.inbox.put(op)

    def send(self, message: Dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        with self.writing:
            try:
                while data:
                    data = data[os.write(self.sink, data) :]
            except OSError:
                os._exit(0)  # the controller is gone

    def raised(self, error: BaseException) -> str:
        """Describes an error of the user's code. The first of each type is shown in the client's log."""
        if type(error) not in self.shown:
            self.shown.add(type(error))
            traceback.print_exception(type(error), error, error.__traceback__)
        return f"{type(error).__module__}.{type(error).__qualname__}: {' '.join(str(error).split())[:300]}"


class _Coroutines:
    """Runs the coroutines of a process in one task, as a program would, on an event loop in a thread of its own.

    So context variables and cancel scopes last from one to the next, and the library's own tasks run between them.
    """

    def __init__(self) -> None:
        import asyncio
        import concurrent.futures

        self.new_result: Any = concurrent.futures.Future
        self.running: Optional[int] = None  # the operation whose coroutine runs
        started = self.new_result()
        threading.Thread(target=lambda: asyncio.run(self.serve(started)), daemon=True).start()
        self.loop, self.inbox, self.task = started.result()

    async def serve(self, started: Any) -> None:
        import asyncio

        inbox: Any = asyncio.Queue()
        started.set_result((asyncio.get_running_loop(), inbox, asyncio.current_task()))
        while True:
            coroutine, result, self.running = await inbox.get()
            if coroutine is None:
                return
            try:
                ended, outcome = result.set_result, await coroutine
            except BaseException as error:
                ended, outcome = result.set_exception, error
                getattr(self.task, "uncancel", int)()  # what comes next is not cancelled
            self.running = None
            ended(outcome)

    def run(self, coroutine: Any, operation: Optional[int]) -> Any:
        result = self.new_result()
        self.loop.call_soon_threadsafe(self.inbox.put_nowait, (coroutine, result, operation))
        return result.result()

    def cancel(self, operation: int) -> None:
        self.loop.call_soon_threadsafe(lambda: self.running == operation and self.task.cancel())

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.inbox.put_nowait, (None, None, None))


def _names(op: Dict[str, Any]) -> List[str]:
    """All names that an acquire or a release is of, each once (rule 27)."""
    also = (op.get("value") or {}).get("also")
    return list(dict.fromkeys([op["key"], *(also or [])]))


class _Process:
    """One process: its thread, its lock, and the operations that wait."""

    def __init__(self, client: _Client, number: int) -> None:
        self.client, self.env = client, Env(client, number)
        self.lock: Any = None
        self.coroutines: Optional[_Coroutines] = None
        self.operation: Optional[int] = None  # the one that is carried out
        self.cancelled: Optional[int] = None  # the latest that its caller gave up
        hello = client.hello
        self.careful = bool(hello.get("careful"))
        addresses = hello.get("storage_replicas") or [hello.get("storage")]
        self.storage = _Storage(addresses, number, client.write_numbers) if addresses[0] else None
        self.inbox: queue.SimpleQueue[Optional[Dict[str, Any]]] = queue.SimpleQueue()
        threading.Thread(target=self.serve, daemon=True).start()

    def end(self) -> None:
        """The process is over (rule 7). From any thread."""
        with self.env._mutex:
            self.env._over = True
            self.env._held.clear()
        self.inbox.put(None)

    def cancel(self, operation: int) -> None:
        """The caller gives up the call that runs (rule 28). From any thread."""
        if self.coroutines is not None and self.operation == operation:
            self.cancelled = operation
            self.coroutines.cancel(operation)

    def go_on(self, number: int) -> None:
        """The program goes on under another number, with the lock that it has."""
        self.env.process = number
        if self.storage is not None:
            self.storage.process = number

    def serve(self) -> None:
        while not self.env._over:
            op = self.inbox.get()
            if op is not None and self.perform(op) == "info" and self.cancelled != op["id"]:
                self.end()
        with self.client.changing:  # from here on nothing is put into the inbox
            if self.client.processes.get(self.env.process) is self:
                del self.client.processes[self.env.process]
        while not self.inbox.empty():
            op = self.inbox.get()
            if op is not None:
                self.answer(op, "fail", None, "process-over: an operation before it was indeterminate")
        if self.storage is not None:
            self.storage.close()
        try:
            self.awaited(getattr(self.lock, "close", lambda: None)())
        except BaseException as error:
            self.client.raised(error)
        if self.coroutines is not None:
            self.coroutines.close()

    def awaited(self, result: Any) -> Any:
        """The result of the user's function, which may be `async def`."""
        if not isinstance(result, Coroutine):
            return result
        if self.coroutines is None:
            self.coroutines = _Coroutines()
        return self.coroutines.run(result, self.operation)

    def answer(self, op: Dict[str, Any], kind: str, value: Any, error: Optional[str]) -> str:
        message = {"id": op["id"], "type": kind, "value": value, "error": error}
        # That no leader is known is an answer, too; elsewhere None is left out.
        is_value = kind == "ok" and op.get("f") == "leader"
        self.client.send({name: part for name, part in message.items() if part is not None or is_value and name == "value"})
        return kind

    def perform(self, op: Dict[str, Any]) -> str:
        """Carries an operation out and answers it. Gives the type of the answer."""
        f, key, self.env._asked, self.operation = op.get("f"), op["key"], monotonic(), op["id"]
        if f == "holds":
            return self.answer(op, "ok", self.believes(key), None)
        if f in ("read", "write"):
            return self.answer(op, *self.access(op, monotonic() + op.get("timeout_ms", 1000) / 1000))
        if f not in ("acquire", "release", "prolong", "reenter", "leave", "leader"):
            return self.answer(op, "fail", None, f"bad-command: this client does not know `{f}`")
        if self.lock is None:
            try:
                self.lock = self.awaited(self.client.make(self.env))
            except BaseException as error:
                value = {"believed": False} if f in ("release", "leave") else None
                reason = "unreachable: the lock could not be made: " + self.client.raised(error)
                return self.answer(op, "fail", value, reason)
        if f == "acquire":
            return self.acquire(op, key, op.get("ttl_ms") or 0)
        if f == "leader":
            return self.answer(op, *self.leader(key, op.get("timeout_ms", 1000) / 1000))
        if f in ("prolong", "reenter"):
            return self.answer(op, *self.prolong(f, key, (op.get("ttl_ms") or 0) / 1000, op.get("timeout_ms", 1000) / 1000))
        return self.answer(op, *(self.leave(key) if f == "leave" else self.release(op)))

    def acquire(self, op: Dict[str, Any], key: str, ttl_ms: int) -> str:
        env = self.env
        f, wish, error = self.wish(key, op.get("value") or {})
        if error is not None or ttl_ms <= 0:
            return self.answer(op, "fail", None, f"bad-command: {error or 'an acquire needs a ttl_ms greater than 0'}")
        env._acquiring, env._lost_meanwhile = _names(op), {}
        env._begun = monotonic()
        kind, granted, reason = self.call(f, *wish, ttl_ms / 1000, op.get("timeout_ms", 1000) / 1000)
        if granted:
            return self.grant(op, ttl_ms / 1000, granted if isinstance(granted, Grant) else Grant())
        env._acquiring = []
        return self.answer(op, kind or "fail", None, reason or f"refused-by-library: {f} returned {granted}")

    def wish(self, key: str, asked: Dict[str, Any]) -> Tuple[str, Tuple[Any, ...], Optional[str]]:
        """The user's function for what an acquire asks for, its first arguments, or why there is none (rules 10 and 27)."""
        mode, permits, also = asked.get("mode", "exclusive"), asked.get("capacity"), asked.get("also")
        f, wish = "acquire_shared" if mode == "shared" else "acquire", (key,)
        if mode not in ("exclusive", "shared"):
            return f, wish, f"unknown mode {mode}: expected shared or exclusive"
        if "capacity" in asked:
            f, wish = "acquire_permit", (key, permits)
            if type(permits) is not int or permits < 1:
                return f, wish, "a semaphore needs a capacity greater than 0"
        if also is not None:
            if not isinstance(also, list) or not all(isinstance(name, str) for name in also):
                return f, wish, f"the names of a set are a list of texts, not {also}"
            f, wish = "acquire_all", (_names({"key": key, "value": asked}),)
        return f, wish, None if hasattr(self.lock, f) else f"this lock has no {f}"

    def grant(self, op: Dict[str, Any], ttl: float, grant: Grant) -> str:
        """Records a grant and answers, before any notice of its loss (rules 16 and 18)."""
        env, value, valid_until = self.env, {}, None
        with env._mutex:
            now = monotonic()
            if env.lease == "ttl":
                left = max(0.0, env._begun + ttl - now) if grant.validity is None else grant.validity
                valid_until = now + left
                value["validity_ms"] = math.floor(round(left * 1000, 3))
                waited_ms = math.floor((now - env._asked) * 1000)
                if waited_ms > 0:
                    value["waited_ms"] = waited_ms
            for name in ("token", "granted_by", "arrival"):
                if getattr(grant, name) is not None:
                    value[name] = getattr(grant, name)
            env._acquiring = []
            self.answer(op, "ok", value, None)
            for name in _names(op) if not env._over else []:
                held = env._held[name] = _Held(ttl, grant, valid_until)
                if name in env._lost_meanwhile:
                    held.believed = False
                    env._notice("lost", name, reason=env._lost_meanwhile[name])
        if env._over:  # the grant came too late for its process, and the lock must not stay taken
            self.give_back(op)
        return "ok"

    def release(self, op: Dict[str, Any]) -> Answer:
        value: Dict[str, Any] = {"believed": all([self.believes(name) for name in _names(op)])}
        with self.env._mutex:
            held = [self.env._held.pop(name, None) for name in _names(op)]
        if None in held:
            return "fail", value, "not-held: this process has not acquired the lock"
        kind, removed, reason = self.give_back(op)
        if removed is False:
            kind, reason = "fail", "not-held: the release removed nothing"
        if removed is not None:
            value["removed"] = removed
        elif reason is not None and reason.startswith(NotHeld.code):
            value["removed"] = False
        if kind == "info" and self.cancelled == op["id"]:  # the program may release it once more
            self.env._held.update(zip(_names(op), [one for one in held if one is not None]))
        return kind or "ok", value, reason

    def give_back(self, op: Dict[str, Any]) -> Answer:
        is_set = (op.get("value") or {}).get("also") is not None
        return self.call("release_all", _names(op)) if is_set else self.call("release", op["key"])

    def leave(self, key: str) -> Answer:
        """Releases once what the process acquired more than once (rule 26)."""
        held, value = self.env._held.get(key), {"believed": self.believes(key)}
        if not hasattr(self.lock, "leave"):
            return "fail", value, "bad-command: this lock has no leave"
        if held is None:
            return "fail", value, "not-held: this process has not acquired the lock"
        kind, removed, reason = self.call("leave", key)
        is_gone = reason is not None and reason.startswith(NotHeld.code)
        if is_gone or removed is not None:
            value["removed"] = bool(removed)
        with self.env._mutex:
            held.believed = held.believed and not is_gone
        return kind or "ok", value, reason

    def prolong(self, f: str, key: str, ttl: float, timeout: float) -> Answer:
        """Prolongs what the process holds, or acquires it once more (rules 25 and 26)."""
        held, begun, value = self.env._held.get(key), monotonic(), None
        if ttl <= 0 or not hasattr(self.lock, f):
            return "fail", None, "bad-command: " + (f"this lock has no {f}" if ttl > 0 else f"a {f} needs a ttl_ms greater than 0")
        if held is None:
            return "fail", None, "not-held: this process has not acquired the lock"
        kind, prolonged, reason = self.call(f, key, ttl, timeout)
        if prolonged is False:
            kind, reason = "fail", f"not-held: {f} returned False"
        with self.env._mutex:
            if reason is not None and reason.startswith(NotHeld.code):
                held.believed = False
            if reason is None and held.valid_until is not None and f == "prolong":
                held.ttl, held.valid_until = ttl, begun + ttl
            elif held.valid_until is not None and isinstance(prolonged, Grant) and prolonged.validity is not None:
                held.ttl, held.valid_until = ttl, monotonic() + prolonged.validity
                value = {"validity_ms": math.floor(round(prolonged.validity * 1000, 3))}
        return kind or "ok", value, reason

    def leader(self, key: str, timeout: float) -> Answer:
        """Asks who leads (rule 29). That changes nothing, so no answer is an `info`."""
        if not hasattr(self.lock, "leader"):
            return "fail", None, "bad-command: this lock has no leader"
        try:
            named = number = self.awaited(self.lock.leader(key, timeout))
            if isinstance(named, Certain):
                raise named
            if isinstance(named, str) and named.isascii() and named.isdigit():
                number = int(named)
            if number is not None and (type(number) is not int or not 0 <= number < 2**63):
                raise TypeError(f"leader returned {named!r}: expected the number of a process, or None")
            return "ok", number, None
        except Certain as error:
            return "fail", None, str(error)
        except BaseException as error:
            return "fail", None, "raised: " + self.client.raised(error)

    def call(self, f: str, *arguments: Any) -> Answer:
        """Calls the user's function. Gives its result in the middle, or how the operation has ended."""
        try:
            result = self.awaited(getattr(self.lock, f)(*arguments))
            if isinstance(result, Certain):
                raise result
            if not isinstance(result, (bool, Grant, type(None))):
                raise TypeError(f"{f} returned {result!r}: expected True, False or None, or a Grant of an acquire")
            return "", result, None
        except Certain as error:
            return "fail", None, str(error)
        except BaseException as error:
            code = "cancelled: " if self.operation is not None and self.cancelled == self.operation else "raised: "
            return "info", None, code + self.client.raised(error)

    def believes(self, key: str) -> bool:
        """Whether this process believes that it holds the lock (rules 11 to 13)."""
        held = self.env._held.get(key)
        if held is None or not held.believed or not self.careful:
            return held is not None and held.believed
        if held.valid_until is not None and monotonic() >= held.valid_until:
            return False
        try:
            return bool(self.awaited(getattr(self.lock, "holds", lambda key: True)(key)))
        except BaseException as error:
            self.client.raised(error)
            return True

    def access(self, op: Dict[str, Any], deadline: float) -> Answer:
        """Reads or writes the storage."""
        f, key, value = op["f"], op["key"], op.get("value")
        if f == "write" and (not isinstance(value, (int, list)) or isinstance(value, bool)):
            return "fail", None, "bad-command: a write needs a value, a whole number or a list"
        if f == "write" and self.careful:
            if not self.believes(key):
                return "fail", None, "gave-up: the lock is no longer valid by this client's own clock"
            deadline += self.pause_before_write(key)
        if self.storage is None:
            return "fail", None, "no-storage: the hello named none"
        held = self.env._held.get(key)
        credentials = held.credentials if held else {}
        # A process that holds nothing cannot mark; it only looks.
        if self.client.hello.get("marks_first") and not (held and held.marked) and (credentials or f == "write"):
            marked = self.storage.perform("mark", key, credentials, deadline)
            if marked[0] != "ok":
                return marked
            if held:
                held.marked = True
        return self.storage.perform(f, key, credentials, deadline, value)

    def pause_before_write(self, key: str) -> float:
        """Pauses where a scenario wants it (rule 23); gives the seconds for which it did."""
        for point in self.client.hello.get("pause_at", []):
            if point.startswith("between-check-and-write="):
                with self.env._mutex:
                    self.env._notice("at", key, point="between-check-and-write")
                seconds = float(point.split("=")[1][: -len("ms")]) / 1000
                sleep(seconds)
                return seconds
        return 0.0


class _Storage:
    """The protected storage as one process sees it: one server, or replicas of which a majority decides."""

    def __init__(self, addresses: List[str], process: int, write_numbers: Iterator[int]) -> None:
        self.process = process
        self.replicas = [_Replica(address) for address in addresses]
        self.majority = len(addresses) // 2 + 1
        self.write_numbers = write_numbers
        self.id = 0

    def perform(self, f: str, key: str, credentials: Dict[str, Any], deadline: float, value: Any = None) -> Answer:
        self.id += 1
        request = {"id": self.id, "f": f, "key": key, "process": self.process, **credentials}
        if f == "write":
            request["value"] = value
            if len(self.replicas) > 1:
                request["number"] = next(self.write_numbers)
        agreed, errors = [], {"rejected": [], "unanswered": [], "unsent": []}
        for outcome, answer in self.ask(json.dumps(request).encode() + b"\n", deadline):
            if outcome != "agreed":
                errors[outcome].append(answer)
                continue
            agreed.append(answer)
            if len(agreed) == self.majority:
                # The newest value counts; where there are no versions, the first.
                return "ok", max(agreed, key=lambda answer: tuple(answer.get("version") or ())).get("ok"), None
        error = (errors["rejected"] + errors["unanswered"] + errors["unsent"])[0]
        if f != "write" or not (agreed or errors["unanswered"]):
            return "fail", None, error
        # A replica has the write, or may have it, or may get it.
        return "info", None, error if len(self.replicas) == 1 else "no-majority: " + error

    def ask(self, line: bytes, deadline: float) -> Iterator[Tuple[str, Any]]:
        """The outcome of a request at each replica, in the order in which they come."""
        if len(self.replicas) == 1:
            yield self.replicas[0].ask(self.id, line, deadline)
            return
        outcomes: queue.SimpleQueue[Tuple[str, Any]] = queue.SimpleQueue()
        for replica in self.replicas:
            ask = lambda replica=replica, id=self.id: outcomes.put(replica.ask(id, line, deadline))
            threading.Thread(target=ask, daemon=True).start()
        for _ in self.replicas:
            yield outcomes.get()

    def close(self) -> None:
        for replica in self.replicas:
            replica.close()


class _Replica:
    """A connection to one storage, opened when it is needed."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.address = (host.strip("[]"), int(port))
        self.socket: Optional[socket.socket] = None
        self.lines: Any = None
        self.turn = threading.Lock()

    def ask(self, id: int, line: bytes, deadline: float) -> Tuple[str, Any]:
        """Sends a request. Gives `agreed` and the answer; or `rejected`, `unanswered`, `unsent` and an error."""
        # A replica that has not answered an earlier request keeps this one waiting, and no other replica.
        if not self.turn.acquire(timeout=max(0.0, deadline - monotonic())):
            return "unsent", "unreachable: the storage has not answered an earlier request"
        try:
            if not self.connect(deadline):
                return "unsent", "unreachable: no connection to the storage"
            answer = self.exchange(id, line, deadline - monotonic())
            return ("rejected", answer["fail"]) if "fail" in answer else ("agreed", answer)
        except socket.timeout:
            self.close()
            return "unanswered", "timeout: the storage did not answer in time"
        except (OSError, ValueError, AttributeError):  # no attribute: closed meanwhile, as the process is over
            self.close()
            return "unanswered", "disconnected: the connection to the storage broke before it answered"
        finally:
            self.turn.release()

    def connect(self, deadline: float) -> bool:
        if self.socket is not None:
            try:
                # Between requests a storage sends nothing: what can be read is the end of the connection.
                self.socket.setblocking(False)
                self.socket.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return True
            except OSError:
                pass
        patience = 0.3  # doubled with each failure, so that a slow network is reached, too
        while monotonic() < deadline:
            try:
                self.close()
                until = min(deadline, monotonic() + patience)
                self.socket = socket.create_connection(self.address, max(0.001, until - monotonic()))
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.lines = self.socket.makefile("rb")
                # A stopped storage's kernel accepts connections, too: only an answer shows that it serves.
                self.exchange(0, b'{"id":0,"f":"ping","key":""}\n', until - monotonic())
                return True
            except (OSError, ValueError):
                patience = min(2 * patience, 2.4)
                sleep(max(0.0, min(0.025, deadline - monotonic())))
        return False

    def exchange(self, id: int, line: bytes, seconds: float) -> Dict[str, Any]:
        self.socket.settimeout(max(0.001, seconds))
        self.socket.sendall(line)
        while True:
            answer = json.loads(self.lines.readline() or "closed")
            if answer["id"] == id:
                return answer

    def close(self) -> None:
        stream, self.socket = self.socket, None
        if stream is not None:
            stream.close()
