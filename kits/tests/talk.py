"""The controller's end of a client's pipes."""

import json
import queue
import subprocess
import threading
import time

# What takes longer hangs. No test passes or fails by how fast the machine is.
HANGS = 60

HELLO = {"hello": 1, "client": "c1", "lock": "fake", "seed": 2**64 - 5, "options": {}, "guard": "none", "careful": False,
         "lease": "ttl", "ttl_ms": 2000, "servers": [{"name": "n1", "address": "198.18.0.2:2379"}]}


class Talk:
    """A client under test. `hello` adds to the hello, or replaces it if it is a text."""

    def __init__(self, command, hello):
        pipe = subprocess.PIPE
        self.client = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)
        self.lines, self.log = queue.Queue(), []
        threading.Thread(target=self.collect, args=(self.client.stdout, self.lines.put), daemon=True).start()
        self.logger = threading.Thread(
            target=self.collect, args=(self.client.stderr, self.log.append), daemon=True
        )
        self.logger.start()
        self.last = 0
        if isinstance(hello, dict):
            self.say({**HELLO, **hello})
            self.back = self.next()
        elif hello is not None:
            self.client.stdin.write(hello + "\n")

    @staticmethod
    def collect(stream, put):
        for line in stream:
            put(line.rstrip("\n"))

    def say(self, line):
        self.client.stdin.write(json.dumps(line) + "\n")

    def next(self):
        """The client's next line."""
        return json.loads(self.lines.get(timeout=HANGS))

    def quiet(self, seconds=0.2):
        """Whether the client writes nothing for a while."""
        time.sleep(seconds)
        return self.lines.empty()

    def send(self, f, key="a", process=3, **more):
        """Sends an operation and gives its id."""
        self.last += 1
        more = {"ttl_ms": 2000, **more} if f == "acquire" else more
        self.say({"id": self.last, "process": process, "f": f, "key": key, "timeout_ms": 10000, **more})
        return self.last

    def do(self, f, key="a", process=3, **more):
        """Sends an operation and gives its answer, without the id, which must be right."""
        number = self.send(f, key, process, **more)
        answer = self.next()
        assert answer.pop("id", None) == number, answer
        return answer

    def logged(self, text, seconds=HANGS):
        """Whether this appears on standard error."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(text in line for line in list(self.log)):
                return True
            time.sleep(0.02)
        return False

    def exit_code(self, close=True):
        """Closes the client's input and waits for its end, and until all is read that it wrote to standard error."""
        if close:
            self.client.stdin.close()
        code = self.client.wait(timeout=HANGS)
        self.logger.join(timeout=HANGS)
        return code
