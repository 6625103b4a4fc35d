"""A server that is a Python program: `server.py ADDRESS PORT`."""

import sys

from fakeredis import TcpFakeServer

TcpFakeServer((sys.argv[1], int(sys.argv[2])), server_type="redis").serve_forever()
