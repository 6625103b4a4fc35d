"""Misbehaves in the way that its argument names. Else it is a lock for its own processes: a run has one client."""

import ctypes
import json
import os
import socket
import sys
import threading
import time

habit = sys.argv[1]


def send(line):
    print(json.dumps(line), flush=True)


def sleeping_child():
    """A program that outlives this one, and holds its standard output."""
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)


# Not its data, nor /tmp, /run and /dev/shm.
ELSEWHERE = ["/var/tmp", "/var/lib", "/var/log", "/root", "/home", "/etc", "/usr/bin", "/opt", os.getcwd()]


def is_writable(folder):
    try:
        with open(folder + "/much", "wb") as file:
            file.write(b"x" * (1 << 20))
        return True
    except OSError:
        return False


def break_later(line):
    """Does what the habit says, after some operations that were answered well."""
    if habit == "prints-later":
        print("Segmentation fault (just kidding)", flush=True)
    if habit == "is-binary":
        os.write(1, bytes(range(128, 256)) + b"\n")
    if habit == "never-ends-a-line":
        while True:
            os.write(1, b"x" * 65536)
    if habit == "stops-reading":
        time.sleep(600)
    if habit == "closes-output":
        os.close(1)
        time.sleep(600)
    if habit == "leaves-a-child":
        sleeping_child()
        os._exit(0)
    if habit == "speaks-for-another":
        send({"event": "lost", "process": line["process"] + 1000, "key": line["key"]})
    if habit == "sends-long-keys":
        send({"event": "lost", "process": line["process"], "key": "k" * 100000})
    if habit == "invents-notices":
        send({"event": "acquire", "process": line["process"], "key": line["key"]})
    if habit == "uses-memory":
        taken = []
        while True:
            taken.append(bytearray(b"x") * (16 << 20))
            time.sleep(0.01)
    if habit == "forks-and-uses-memory":
        for _ in range(8):
            if os.fork() == 0:
                taken = bytearray(b"x") * (60 << 20)
                time.sleep(600)
    if habit == "fills-its-disk":
        with open("/data/much", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 2 << 30)
        time.sleep(600)
    if habit == "fills-its-disk-without-a-name":
        with open("/data/much", "wb") as file:
            os.unlink("/data/much")
            os.posix_fallocate(file.fileno(), 0, 2 << 30)
            time.sleep(600)
    if habit == "makes-files-without-end":
        for number in range(1 << 30):
            open(f"/data/{number}", "wb").close()
    if habit == "nests-folders":
        os.chdir("/data")
        for _ in range(60):
            os.mkdir("x" * 250)
            os.chdir("x" * 250)
        with open("much", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 2 << 30)
            time.sleep(600)
    if habit == "fills-control-groups":
        try:
            with open("/sys/fs/cgroup/much", "wb") as file:
                for _ in range(64):
                    file.write(b"x" * (16 << 20))
                    time.sleep(0.01)
                time.sleep(600)
        except OSError as error:
            sys.exit(f"not written: {error}")
    if habit == "keeps-segments":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.shmat.restype = ctypes.c_void_p
        libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
        libc.shmdt.argtypes = [ctypes.c_void_p]
        while True:
            segment = libc.shmget(0, 16 << 20, 0o1600)
            if segment < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            at = libc.shmat(segment, None, 0)
            ctypes.memset(at, 1, 16 << 20)
            libc.shmdt(at)
            time.sleep(0.01)
    if habit == "keeps-files-in-memory":
        files = []
        while True:
            files.append(os.memfd_create("kept"))
            os.write(files[-1], b"x" * (16 << 20))
            time.sleep(0.01)
    if habit in ("fills-sockets", "fills-sockets-and-leaves"):
        import attempts

        kept = []
        attempts.raise_the_limit_of_files()
        while True:
            sender, receiver = socket.socketpair()
            sender.setblocking(False)
            try:
                while True:
                    sender.send(b"x" * 4096)
            except BlockingIOError:
                pass
            kept.append(receiver)
            if habit == "fills-sockets":
                kept.append(sender)
    if habit.startswith("evades-"):
        import evades

        evades.WAYS[habit.removeprefix("evades-")]()
    if habit == "breaks-out":
        import attempts

        sys.exit("possible: " + (", ".join(attempts.possible()) or "nothing"))
    if habit == "starts-without-end":
        threading.stack_size(64 << 10)
        while True:
            threading.Thread(target=time.sleep, args=[600]).start()
    if habit == "writes-elsewhere":
        sys.exit("wrote to " + (", ".join(filter(is_writable, ELSEWHERE)) or "nothing"))
    if habit == "fills-its-log":
        for _ in range(20000):
            os.write(2, b"x" * 1000 + b"\n")


sys.stdin.readline()
if habit in ("invents-a-pid", "names-the-first-pid"):
    send({"hello": 1, "can": [], "pid": 99999 if habit == "invents-a-pid" else 1})
    time.sleep(600)
if habit == "exits":
    sys.exit("ImportError: no module named lock_library")
if habit == "exits-in-colour":
    sys.exit("\x1b[2J\x1b[31mImportError\x1b[0m: no module named lock_library")
if habit == "says-nothing":
    print("waiting for a server", file=sys.stderr, flush=True)
    time.sleep(600)
if habit == "chats":
    print("hello, I am a client", flush=True)
send({"hello": 1, "can": [], "pid": os.getpid()})
answered = 0
GRANTS = {
    "sends-a-negative-token": {"value": {"token": -1}},
    "sends-a-token-in-words": {"value": {"token": "7"}},
    "acquires-a-list": {"value": [7]},
}
holders = {}


def perform(line):
    """Type, value and error of an operation."""
    key, process = line["key"], line["process"]
    held = holders.get(key) == process
    if line["f"] == "acquire":
        if key in holders:
            return {"type": "fail", "error": "taken: another process of this client holds it"}
        holders[key] = process
        return {"type": "ok"} | GRANTS.get(habit, {})
    if line["f"] == "release":
        if held:
            del holders[key]
        believed = "yes" if habit == "believes-in-words" else held
        return {"type": "ok" if held else "fail", "value": {"believed": believed}} | ({} if held else {"error": "not-held: it was not taken"})
    return {"type": "ok", "value": int(held) if habit == "counts-holds" else held}


for text in sys.stdin:
    line = json.loads(text)
    if "id" not in line:
        continue
    print("last operation: " + line["f"], file=sys.stderr, flush=True)
    if habit == "ends-later":
        sys.exit("MemoryError")
    if habit == "never-answers":
        continue
    if answered == 6:
        break_later(line)
    if answered == 6 and habit == "answers-for-another":
        other = next(later for later in map(json.loads, sys.stdin) if "id" in later)
        # An answer that fits any operation, so that only its id is wrong.
        send({"id": other["id"], "type": "fail", "error": "taken: another process of this client holds it"})
        line = other
    answer = {"id": line["id"]} | perform(line)
    if habit == "invents-ids":
        answer["id"] += 1000000
    send(answer)
    answered += 1
    if habit == "answers-twice":
        send(answer)
    while habit == "floods":
        send({"event": "renewed", "process": line["process"], "key": line["key"]})
