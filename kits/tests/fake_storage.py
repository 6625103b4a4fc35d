"""A storage for tests: answers by its own script, and keeps what it was asked."""

import contextlib
import json
import socket
import threading


class FakeStorage:
    """`answer(request)` gives the fields of the answer, None for silence, or `CLOSE`."""

    CLOSE = object()

    def __init__(self, answer=None):
        self.requests = []
        self.values = {}
        self.answer = answer or self.obey
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def obey(self, request):
        """Every read and write succeeds."""
        if request["f"] == "write":
            self.values[request["key"]] = request["value"]
        value = self.values.get(request["key"], 0)
        return {"ok": len(value) if request["f"] == "write" and isinstance(value, list) else value}

    def accept(self):
        while True:
            stream, _ = self.listener.accept()
            threading.Thread(target=self.attend, args=(stream,), daemon=True).start()

    def attend(self, stream):
        with contextlib.suppress(ConnectionError):
            self.serve(stream)

    def serve(self, stream):
        with stream, stream.makefile("rw", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                request = json.loads(line)
                if request["f"] == "ping":
                    answer = {"ok": None}
                else:
                    self.requests.append(request)
                    answer = self.answer(request)
                if answer is self.CLOSE:
                    stream.shutdown(socket.SHUT_RDWR)
                    return
                if answer is not None:
                    lines.write(json.dumps({"id": request["id"], **answer}) + "\n")
                    lines.flush()


BOUND = []


def closed_port():
    """An address that refuses connections."""
    # It stays bound: of a port that is free, the kernel may give it to a client that tries to reach it, and a client that tries often
    # enough so reaches itself.
    bound = socket.socket()
    bound.bind(("127.0.0.1", 0))
    BOUND.append(bound)
    return "127.0.0.1:%d" % bound.getsockname()[1]
