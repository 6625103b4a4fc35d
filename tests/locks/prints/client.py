"""The mistake: a line for people on standard output, which belongs to the protocol. It has no kit: a kit prevents this."""

import json
import os
import queue
import sys
import threading
import time
import types

import redis_lock


def perform(lock, op):
    key, timeout = op["key"], op.get("timeout_ms", 1000) / 1000
    if op["f"] == "acquire":
        lock.values[key] = f"{os.getpid()} {op['id']}"
        until = time.monotonic() + 0.9 * timeout
        while time.monotonic() < until:
            if lock.set_if_free(key, op["ttl_ms"] / 1000):
                print(f"process {op['process']} acquired {key}", flush=True)
                return {"type": "ok"}
            time.sleep(0.01)
        return {"type": "fail", "error": "taken: another process holds the lock"}
    if op["f"] == "release":
        removed = lock.release(key)
        return {"type": "ok" if removed else "fail", "value": {"believed": True, "removed": removed}}
    return {"type": "fail", "error": "bad-command: this client only acquires and releases"}


def serve(inbox):
    lock = redis_lock.RedisLock(env)
    while True:
        op = inbox.get()
        print(json.dumps({"id": op["id"], **perform(lock, op)}) + "\n", end="", flush=True)


hello = json.loads(sys.stdin.readline())
host, port = hello["servers"][0]["address"].rsplit(":", 1)
env = types.SimpleNamespace(servers=[types.SimpleNamespace(host=host, port=int(port))])
print(json.dumps({"hello": 1, "can": [], "pid": os.getpid()}), flush=True)
inboxes = {}
for line in sys.stdin:
    op = json.loads(line)
    if "event" not in op:
        if op["process"] not in inboxes:
            inboxes[op["process"]] = queue.Queue()
            threading.Thread(target=serve, args=(inboxes[op["process"]],), daemon=True).start()
        inboxes[op["process"]].put(op)
