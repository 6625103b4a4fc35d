"""Misbehaves in the way that its argument names: it grants every acquire, and is no lock."""

import json
import os
import sys
import time

habit = sys.argv[1]


def send(line):
    print(json.dumps(line), flush=True)


sys.stdin.readline()
if habit == "exits":
    sys.exit("ImportError: no module named lock_library")
if habit == "says-nothing":
    print("waiting for a server", file=sys.stderr, flush=True)
    time.sleep(600)
if habit == "chats":
    print("hello, I am a client", flush=True)
send({"hello": 1, "can": [], "pid": os.getpid()})
for text in sys.stdin:
    line = json.loads(text)
    if "id" not in line:
        continue
    print("last operation: " + line["f"], file=sys.stderr, flush=True)
    if habit == "ends-later":
        sys.exit("MemoryError")
    if habit == "never-answers":
        continue
    answer = {"id": line["id"], "type": "ok", "value": {"believed": True}}
    if habit == "invents-ids":
        answer["id"] += 1000000
    send(answer)
    if habit == "answers-twice":
        send(answer)
    while habit == "floods":
        send({"event": "renewed", "process": line["process"], "key": line["key"]})
