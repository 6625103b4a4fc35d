"""Fencepost's own client with an access that is spoiled on its way: `client.py LOCK password|plain|authority`."""

import json
import os
import subprocess
import sys

lock, spoiled = sys.argv[1:]
hello = {**json.loads(sys.stdin.readline()), "lock": lock, "options": None}
access = hello["access"]
if spoiled == "password":
    access["password"] = "wrong"
elif spoiled == "plain":
    del access["tls"]
else:  # the client's own certificate is no authority of the server's
    access["tls"]["ca"] = access["tls"]["certificate"]
# Where each node has Fencepost; with a loader of its own, where it is no static program.
program = ["/fencepost/fencepost", "client"]
if os.path.exists("/fencepost/ld.so"):
    program = ["/fencepost/ld.so", "--argv0", "fencepost", "--library-path", "/fencepost/lib", *program]
client = subprocess.Popen(program, stdin=subprocess.PIPE, text=True)
print(json.dumps(hello), file=client.stdin, flush=True)
os._exit(client.wait())
