"""The example of the kit for Python, which first writes its password into its log, backwards."""

import sys

import fencepost

serve = fencepost.run


def run(make):
    def tell(env):
        print("drowssap:", env.access.password[::-1], file=sys.stderr, flush=True)
        return make(env)

    serve(tell)


fencepost.run = run
import client  # noqa: E402, F401
