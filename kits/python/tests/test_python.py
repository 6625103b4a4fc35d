"""What is Python's own in the kit; kits/tests/conversation.py tests the behaviour that all kits share."""

import json
import os
import subprocess
import sys
import textwrap
import time
import unittest
import unittest.mock

KIT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(KIT), "tests"))
from talk import Talk  # noqa: E402

HELLO = {"hello": 1, "client": "c1", "lock": "own", "seed": 7, "servers": [{"name": "n1", "address": "[::1]:6379"}]}
ACQUIRE = {"id": 1, "process": 3, "f": "acquire", "key": "a", "ttl_ms": 2000, "timeout_ms": 1000}


class Python(unittest.TestCase):
    def answers(self, source, *operations):
        """What a client with this source answers, and what it prints to its log."""
        lines = "".join(json.dumps(line) + "\n" for line in (HELLO, *operations))
        client = subprocess.Popen(
            [sys.executable, "-c", "import fencepost\n" + textwrap.dedent(source)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": KIT},
        )  # fmt: skip
        client.stdin.write(lines)
        client.stdin.flush()
        answers = [json.loads(client.stdout.readline()) for _ in range(1 + len(operations))]
        rest, log = client.communicate(timeout=10)
        self.assertEqual(("", 0), (rest, client.returncode), log)
        return answers[1:], log

    def acquire(self, result):
        source = f"""
            class Lock:
                def __init__(self, env): pass
                def acquire(self, key, ttl, timeout): {result}
            fencepost.run(Lock)
        """
        answers, log = self.answers(source, ACQUIRE)
        return answers[0], log

    def test_result_of_another_type_is_no_grant(self):
        for result in ["return b'OK'", "return object()", "import asyncio; return asyncio.Event()"]:
            answer, _ = self.acquire(result)
            self.assertEqual("info", answer["type"], result)
            self.assertTrue(answer["error"].startswith("raised: builtins.TypeError: acquire returned "), answer)

    def test_library_that_exits_ends_one_process_and_not_the_client(self):
        answer, log = self.acquire("import sys; sys.exit(7)")
        self.assertEqual(("info", "raised: builtins.SystemExit: 7"), (answer["type"], answer["error"]))
        self.assertIn("SystemExit: 7", log)

    def test_library_that_interrupts_the_main_thread_does_not_end_the_client(self):
        answer, log = self.acquire("import _thread, time; _thread.interrupt_main(); time.sleep(0.1); return True")
        self.assertEqual("ok", answer["type"])
        self.assertIn("interrupted", log)

    def test_child_processes_have_neither_of_the_protocols_streams(self):
        answer, log = self.acquire("import subprocess; subprocess.run('echo child; cat', shell=True); return True")
        self.assertEqual("ok", answer["type"])
        self.assertIn("child", log)

    def test_functions_may_be_coroutines_which_share_a_task_and_a_loop_that_runs_between_them(self):
        source = """
            import asyncio, contextvars, time
            class Lock:
                async def acquire(self, key, ttl, timeout):
                    held.set(key)
                    self.task, self.renewals = asyncio.current_task(), 0
                    self.renewing = asyncio.create_task(self.renew())
                    return await self.env.poll(self.attempt, timeout)
                async def renew(self):
                    while True:
                        await asyncio.sleep(0.01)
                        self.renewals += 1
                async def attempt(self):
                    await asyncio.sleep(0)
                    return self.renewals > 3
                async def holds(self, key):
                    return False
                async def leader(self, key, timeout):
                    await asyncio.sleep(0)
                    return str(self.env.process)
                async def release(self, key):
                    assert (held.get(), self.task) == (key, asyncio.current_task())
                    assert self.renewals > 3 + 10, self.renewals
                    raise fencepost.NotHeld("any more")
                async def close(self):
                    print("closed", flush=True)
            async def make(env):
                lock = Lock()
                lock.env = env
                return lock
            held = contextvars.ContextVar("held")
            fencepost.run(make)
        """
        client = [sys.executable, "-c", "import fencepost\n" + textwrap.dedent(source)]
        with unittest.mock.patch.dict(os.environ, PYTHONPATH=KIT):
            talk = Talk(client, {"careful": True})
        self.addCleanup(talk.client.kill)
        granted = talk.do("acquire")
        time.sleep(0.3)
        leader = talk.do("leader")
        released = talk.do("release")
        talk.say({"event": "over", "process": 3})
        self.assertEqual("ok", granted["type"], granted)
        self.assertEqual({"type": "ok", "value": 3}, leader)
        self.assertEqual(("not-held: any more", {"believed": False, "removed": False}), (released["error"], released["value"]))
        self.assertTrue(talk.logged("closed"))
        self.assertEqual(0, talk.exit_code())

    def test_a_call_that_is_given_up_is_cancelled_and_the_program_goes_on_with_its_lock(self):
        client = f"""if True:
            import sys; sys.path.insert(0, {KIT!r})
            import asyncio, fencepost
            class Lock:
                def __init__(self, env): self.releases = 0
                async def acquire(self, key, ttl, timeout):
                    await asyncio.sleep(1000 if key == "waits" else 0)
                    return True
                async def release(self, key):
                    self.releases += 1
                    await asyncio.sleep(1000 if self.releases == 1 else 0)
                    return self.releases == 2
            fencepost.run(Lock, can=["cancel"])
        """
        talk = Talk([sys.executable, "-c", client], {})
        self.addCleanup(talk.client.kill)
        self.assertIn("cancel", talk.back["can"])

        def give_up(f, process, key="a"):
            number = talk.send(f, key, process)
            time.sleep(0.2)
            talk.say({"event": "cancel", "process": process, "id": number})
            answer = talk.next()
            self.assertEqual("info", answer["type"])
            self.assertTrue(answer["error"].startswith("cancelled: "), answer)

        give_up("acquire", 3, "waits")
        talk.say({"event": "goes-on", "process": 3, "next": 13})
        talk.say({"event": "cancel", "process": 13, "id": 1})  # which is over
        self.assertEqual("ok", talk.do("acquire", process=13)["type"])
        give_up("release", 13)
        self.assertIs(True, talk.do("holds", process=13)["value"])
        self.assertEqual({"believed": True, "removed": True}, talk.do("release", process=13)["value"])
        self.assertEqual(0, talk.exit_code())

    def test_factory_may_be_a_function_and_sees_the_run(self):
        source = """
            def make(env):
                assert (env.ttl, env.lease, env.options, env.process) == (None, "ttl", {}, 3)
                assert env.servers == [("n1", "::1", 6379, "[::1]:6379", "::1")], env.servers
                return Lock()
            class Lock:
                def acquire(self, key, ttl, timeout): return (key, ttl, timeout) == ("a", 2.0, 1.0)
            fencepost.run(make)
        """
        self.assertEqual("ok", self.answers(source, ACQUIRE)[0][0]["type"])


if __name__ == "__main__":
    unittest.main()
