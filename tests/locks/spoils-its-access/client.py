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
# The first process of a node is Fencepost.
client = subprocess.Popen(["/proc/1/exe", "client"], stdin=subprocess.PIPE, text=True)
print(json.dumps(hello), file=client.stdin, flush=True)
os._exit(client.wait())
