"""A client of etcd by its JSON gateway: as much of it as locks need, and a time-out for each request."""

import base64
import http.client
import json
import threading
import time


class Refused(Exception):
    """The server answered with an error."""


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def decoded(text):
    return base64.b64decode(text).decode()


def end_of(prefix):
    return encoded(prefix[:-1] + chr(ord(prefix[-1]) + 1))


class Etcd:
    """One connection, to one server at a time; threads take turns."""

    def __init__(self, servers, first, timeout):
        self.servers, self.current, self.timeout = servers, first, timeout
        self.connection, self.turn = None, threading.Lock()

    def ask(self, path, **body):
        """The answer as a dictionary. Raises OSError where none came in time; then the next request goes to the next server."""
        with self.turn:
            try:
                connection = self.connect()
                connection.request("POST", "/v3/" + path, json.dumps(body))
                response = connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.disconnect()
                self.current += 1
                raise OSError(f"no answer to {path}: {error!r}") from error
        if response.status != 200:
            raise Refused(answer.get("error", response.status))
        return answer

    def connect(self):
        if self.connection is None:
            server = self.servers[self.current % len(self.servers)]
            self.connection = http.client.HTTPConnection(server.host, server.port, timeout=self.timeout)
        return self.connection

    def disconnect(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def grant(self, ttl):
        return self.ask("lease/grant", TTL=int(ttl))["ID"]

    def revoke(self, lease):
        self.ask("lease/revoke", ID=lease)

    def keep_alive(self, lease):
        """Whether the lease still lives."""
        return int(self.ask("lease/keepalive", ID=lease)["result"].get("TTL", 0)) > 0

    def get(self, key):
        return self.ask("kv/range", key=encoded(key)).get("kvs", [None])[0]

    def below(self, prefix):
        """The keys with this prefix, the oldest first, and the revision at which that was so."""
        answer = self.ask("kv/range", key=encoded(prefix), range_end=end_of(prefix))
        return sorted(answer.get("kvs", []), key=lambda kv: int(kv["create_revision"])), int(answer["header"]["revision"])

    def put(self, key, value, **lease):
        return self.ask("kv/put", key=encoded(key), value=encoded(value), **lease)

    def put_if_absent(self, key, value, **lease):
        absent = {"key": encoded(key), "target": "CREATE", "create_revision": "0"}
        put = {"request_put": {"key": encoded(key), "value": encoded(value), **lease}}
        return self.ask("kv/txn", compare=[absent], success=[put]).get("succeeded", False)

    def delete(self, key):
        """How many keys that removed."""
        return int(self.ask("kv/deleterange", key=encoded(key)).get("deleted", 0))

    def wait_for_delete(self, key, until, **start):
        """Watches a key. Whether it was deleted by then, as far as the watch has said."""
        server = self.servers[self.current % len(self.servers)]
        connection = http.client.HTTPConnection(server.host, server.port, timeout=max(0.001, until - time.monotonic()))
        try:
            request = {"create_request": {"key": encoded(key), **start}}
            connection.request("POST", "/v3/watch", json.dumps(request))
            response = connection.getresponse()
            while time.monotonic() < until:
                connection.sock.settimeout(max(0.001, until - time.monotonic()))
                events = json.loads(response.readline())["result"].get("events", [])
                if any(event.get("type") == "DELETE" for event in events):
                    return True
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            pass  # the caller looks again
        finally:
            connection.close()
        return False

    def close(self):
        with self.turn:
            self.disconnect()
