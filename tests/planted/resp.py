"""A client of Redis: as much of its protocol as locks need, a time-out for each request, and a new connection after an error."""

import socket


class Refused(Exception):
    """The server answered with an error."""


class Redis:
    def __init__(self, server, timeout):
        self.server, self.timeout = server, timeout
        self.socket = self.answers = None

    def connect(self):
        if self.socket is None:
            self.socket = socket.create_connection((self.server.host, self.server.port), timeout=self.timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.answers = self.socket.makefile("rb")

    def ask(self, *words):
        """The answer: a text, a number, or None. Raises OSError where none came in time."""
        parts = [str(word).encode() for word in words]
        try:
            self.connect()
            self.socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
            return self.answer()
        except OSError:
            self.close()  # an answer that comes later would be taken for that of the next request
            raise

    def answer(self):
        line = self.answers.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise Refused(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else self.answers.read(int(rest) + 2)[:-2].decode()
        return rest

    def close(self):
        if self.socket is not None:
            self.answers.close()
            self.socket.close()
            self.socket = None
