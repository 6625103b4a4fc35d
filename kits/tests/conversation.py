#!/usr/bin/env python3
"""Plays the client protocol with a kit, over pipes, with fake storages: `kits/tests/conversation.py COMMAND…`.

The command is a client that the kit makes of a fake lock; fake-lock.md says what that does. The rules are those of
kits/README.md. Further arguments in CONVERSATION_ONLY name tests to run.
"""

import os
import sys
import time
import unittest

from fake_storage import FakeStorage, closed_port
from talk import Talk

COMMAND = sys.argv[1:]


class Conversation(unittest.TestCase):
    def talk(self, **hello):
        return self.open(hello)

    def open(self, hello):
        talk = Talk(COMMAND, hello)
        self.addCleanup(talk.client.kill)
        return talk

    def assertFails(self, answer, text):
        self.assertEqual("fail", answer["type"], answer)
        self.assertTrue(answer["error"].startswith(text), answer)

    def assertInfo(self, answer, text):
        self.assertEqual("info", answer["type"], answer)
        self.assertTrue(answer["error"].startswith(text), answer)

    def assertValid(self, answer, low, high):
        self.assertEqual("ok", answer["type"], answer)
        self.assertTrue(low <= answer["value"]["validity_ms"] <= high, answer)

    def assertCountsFrom(self, begun_ms, answer, ttl_ms=60000):
        """The validity of a grant counts from an attempt that began so long after the acquire, at least. How long the acquire waited
        stands beside it, so this is certain however slow the machine is."""
        self.assertEqual("ok", answer["type"], answer)
        after_ms = answer["value"]["validity_ms"] + answer["value"].get("waited_ms", 0) - ttl_ms
        self.assertGreaterEqual(after_ms, begun_ms - 3, answer)
        return after_ms


class BeginningAndEnd(Conversation):
    def test_hello(self):
        back = self.talk(claims=["token"], later="field").back
        self.assertEqual((1, {"token", "validity"}), (back["hello"], set(back["can"])))
        self.assertTrue(os.path.exists("/proc/%d" % back["pid"]))

    def test_lock_without_ttl_announces_no_validity(self):
        talk = self.talk(lease="session")
        self.assertEqual([], talk.back["can"])
        self.assertNotIn("validity_ms", talk.do("acquire")["value"])

    def test_access_is_handed_to_the_lock(self):
        tls = {"ca": "/run/ca.pem", "certificate": "/run/client.pem", "key": "/run/client.key"}
        server = {"name": "n1", "address": "198.18.0.2:2379"}
        for more, unique in [
            ({}, "- - - - - 198.18.0.2"),
            ({"access": {"user": "u"}}, "u - - - - 198.18.0.2"),
            ({"access": {"tls": {}}}, "- - - - - 198.18.0.2"),
            ({"access": {"user": "u", "password": "p", "tls": tls}, "servers": [{**server, "tls_name": "db"}]},
             "u p /run/ca.pem /run/client.pem /run/client.key db"),
        ]:
            storage = FakeStorage()
            talk = self.talk(claims=["unique"], guard="unique", storage=storage.address, **more)
            talk.do("acquire", "access")
            talk.do("read", "access")
            self.assertEqual(unique, storage.requests[-1]["unique"])

    def test_bad_hellos_are_refused(self):
        for line in ["what?", '{"hello":2}', '{"client":"c1"}', "[]"]:
            talk = self.open(line)
            self.assertEqual(254, talk.exit_code(close=False), line)
            self.assertEqual(1, len([entry for entry in talk.log if entry.strip()]), talk.log)

    def test_input_that_ends_before_the_hello_is_refused(self):
        self.assertEqual(254, self.open(None).exit_code())

    def test_line_that_is_no_command_is_refused(self):
        talk = self.talk()
        talk.client.stdin.write("what?\n")
        self.assertEqual(254, talk.exit_code(close=False))

    def test_unknown_lines_are_ignored(self):
        talk = self.talk()
        talk.say({"event": "weather", "process": 3})
        talk.say({"event": "over", "process": 99})
        self.assertEqual("ok", talk.do("acquire", colour="red")["type"])

    def test_end_of_the_input_ends_the_client_at_once(self):
        talk = self.talk()
        talk.do("acquire")
        # It would go on for far longer than anything is waited for here.
        talk.send("acquire", "never", process=4, timeout_ms=600000)
        self.assertEqual(0, talk.exit_code())

    def test_what_a_library_prints_goes_to_standard_error(self):
        talk = self.talk()
        self.assertEqual("ok", talk.do("acquire", "print")["type"])
        self.assertTrue(talk.logged("printed by the library"))


class Processes(Conversation):
    def test_processes_do_not_wait_for_each_other(self):
        talk = self.talk()
        for process in (5, 6, 7):
            talk.send("acquire", "never", process, timeout_ms=600000)
        slow = talk.send("acquire", "slow", 1)
        queued = talk.send("holds", "slow", 1)
        self.assertEqual([slow, queued], [talk.next()["id"] for _ in range(2)], "three others go on acquiring meanwhile")
        talk.do("holds", process=4)

    def test_lock_that_cannot_be_made_fails(self):
        talk = self.talk(options={"broken": "yes"})
        for _ in range(2):
            self.assertFails(talk.do("acquire"), "unreachable: the lock could not be made")
        self.assertFails(talk.do("leader"), "unreachable: the lock could not be made")
        self.assertEqual({"type": "ok", "value": False}, talk.do("holds"))

    def test_indeterminate_operation_ends_its_process(self):
        talk = self.talk()
        talk.do("acquire")
        first = talk.send("acquire", "unsure")
        second = talk.send("acquire", "b")
        answer = talk.next()
        self.assertEqual(first, answer["id"])
        self.assertInfo(answer, "raised: ")
        self.assertIn("no answer", answer["error"])
        answer = talk.next()
        self.assertEqual(second, answer["id"])
        # Whether the second line had come before the first was answered is a matter of luck.
        self.assertIn(answer["type"], ("fail", "ok"))
        self.assertTrue(talk.logged("closed 3"))

    def test_process_that_is_over_is_closed(self):
        talk = self.talk()
        talk.do("acquire")
        talk.say({"event": "over", "process": 3})
        self.assertTrue(talk.logged("closed 3"))
        self.assertEqual({"type": "ok", "value": False}, talk.do("holds"))

    def test_process_that_is_over_answers_what_is_under_way_and_is_closed(self):
        talk = self.talk()
        slow = talk.send("acquire", "slow")
        time.sleep(0.2)
        talk.say({"event": "over", "process": 3})
        self.assertEqual(slow, talk.next()["id"])
        self.assertTrue(talk.logged("closed 3"))
        self.assertTrue(talk.logged("released slow"), "what was granted so late is given back")


class Acquire(Conversation):
    def test_believes_from_acquire_to_release(self):
        talk = self.talk(claims=["token"])
        self.assertEqual({"type": "ok", "value": False}, talk.do("holds"))
        granted = talk.do("acquire", ttl_ms=60000)
        self.assertEqual(33, granted["value"]["token"])
        self.assertValid(granted, 0, 60000)
        self.assertCountsFrom(0, granted)
        self.assertEqual({"type": "ok", "value": True}, talk.do("holds"))
        self.assertEqual({"type": "ok", "value": False}, talk.do("holds", "b"))
        self.assertEqual({"type": "ok", "value": {"believed": True}}, talk.do("release"))
        self.assertEqual({"type": "ok", "value": False}, talk.do("holds"))

    def test_outcomes(self):
        talk = self.talk()
        self.assertFails(talk.do("acquire", "taken"), "taken: by another")
        self.assertFails(talk.do("acquire", "nothing"), "refused-by-library: ")
        self.assertFails(talk.do("acquire", "certain"), "unreachable: refused")
        self.assertFails(talk.do("acquire", "a", ttl_ms=0), "bad-command: ")
        self.assertFails(talk.do("acquire", "a", value={"mode": "shared"}), "bad-command: ")
        self.assertFails(talk.do("dance"), "bad-command: ")
        self.assertInfo(talk.do("acquire", "unsure"), "raised: ")

    def test_validity_counts_from_the_attempt_that_was_granted(self):
        talk = self.talk()
        slow = talk.do("acquire", "slow", ttl_ms=60000)
        self.assertCountsFrom(0, slow)
        self.assertValid(slow, 0, 59500)
        # Two attempts of 0.1 s came before the one that was granted, which took as long.
        polled = talk.do("acquire", "polled", ttl_ms=60000)
        self.assertCountsFrom(200, polled)
        self.assertValid(polled, 0, 59900)

    def test_validity_of_the_library_stands_as_it_is(self):
        talk = self.talk()
        self.assertValid(talk.do("acquire", "short"), 150, 150)
        self.assertValid(talk.do("acquire", "long"), 60000, 60000)

    def test_polling_ends_with_its_time(self):
        talk = self.talk()
        talk.send("acquire", "never", process=4, timeout_ms=600000)
        begun = time.monotonic()
        self.assertFails(talk.do("acquire", "never", timeout_ms=300), "refused-by-library: ")
        # No attempt begins in the last twentieth, and a rest of up to 10 ms that would end there is not taken.
        self.assertGreater(time.monotonic() - begun, 0.27)


class Kinds(Conversation):
    def test_acquire_of_a_kind_has_a_function_of_its_own(self):
        storage = FakeStorage()
        talk = self.talk(claims=["unique", "mode", "permits"], options={"kinds": "yes"}, storage=storage.address)
        self.assertEqual({"unique", "mode", "permits", "validity"}, set(talk.back["can"]))
        for value, unique in [({"mode": "shared"}, "shared"), ({"capacity": 3}, "one of 3"), ({"mode": "exclusive"}, "u-3"),
                              ({"queue": True}, "u-3"), (None, "u-3")]:
            self.assertEqual("ok", talk.do("acquire", value=value)["type"], value)
            talk.do("read")
            self.assertEqual(unique, storage.requests[-1]["unique"])
            self.assertEqual({"believed": True}, talk.do("release")["value"])

    def test_kind_that_the_lock_does_not_have_is_refused(self):
        talk = self.talk()
        for value in ({"mode": "shared"}, {"capacity": 3}):
            self.assertFails(talk.do("acquire", value=value), "bad-command: this lock has no ")
            self.assertFalse(talk.do("holds")["value"])

    def test_kind_that_makes_no_sense_is_refused(self):
        talk = self.talk(options={"kinds": "yes"})
        for capacity in (0, -1, 1.5, "3", None):
            self.assertFails(talk.do("acquire", value={"capacity": capacity}), "bad-command: a semaphore needs a capacity")
        self.assertFails(talk.do("acquire", value={"mode": "upgrade"}), "bad-command: unknown mode ")


class Prolong(Conversation):
    def test_counts_the_validity_anew(self):
        talk = self.talk(careful=True, options={"kinds": "yes"})
        talk.do("acquire", "short")
        self.assertEqual({"type": "ok"}, talk.do("prolong", "short", ttl_ms=60000))
        time.sleep(0.2)
        self.assertTrue(talk.do("holds", "short")["value"])

    def test_outcomes(self):
        talk = self.talk(options={"kinds": "yes"})
        self.assertFails(talk.do("prolong", "a", ttl_ms=2000), "not-held: ")
        for key in ("a", "removed"):
            talk.do("acquire", key)
            self.assertEqual({"type": "ok"}, talk.do("prolong", key, ttl_ms=2000))
            self.assertFails(talk.do("prolong", key, ttl_ms=0), "bad-command: ")
            self.assertTrue(talk.do("holds", key)["value"])
        for key in ("gone", "not-held"):
            talk.do("acquire", key)
            self.assertFails(talk.do("prolong", key, ttl_ms=2000), "not-held: ")
            self.assertFalse(talk.do("holds", key)["value"])
            self.assertEqual({"believed": False}, {"believed": talk.do("release", key)["value"]["believed"]})
        talk.do("acquire", "certain-prolong")
        self.assertFails(talk.do("prolong", "certain-prolong", ttl_ms=2000), "unreachable: refused")
        self.assertTrue(talk.do("holds", "certain-prolong")["value"])
        talk.do("release", "a")
        self.assertFails(talk.do("prolong", "a", ttl_ms=2000), "not-held: ")
        talk.do("acquire", "unsure-prolong")
        self.assertInfo(talk.do("prolong", "unsure-prolong", ttl_ms=2000), "raised: ")

    def test_lock_that_was_lost_is_not_believed_in_again(self):
        talk = self.talk(options={"kinds": "yes"})
        talk.do("acquire", "lose", value={"mode": "shared"})
        talk.send("prolong", "lose", ttl_ms=2000)
        self.assertEqual({"event": "lost", "process": 3, "key": "lose", "reason": "session expired"}, talk.next())
        self.assertEqual("ok", talk.next()["type"])
        self.assertFalse(talk.do("holds", "lose")["value"])

    def test_lock_without_it_is_refused(self):
        talk = self.talk()
        talk.do("acquire")
        self.assertFails(talk.do("prolong", ttl_ms=2000), "bad-command: this lock has no ")
        self.assertTrue(talk.do("holds")["value"])


class Elections(Conversation):
    def test_a_process_asks_who_leads_at_any_time(self):
        talk = self.talk(options={"kinds": "yes"})
        self.assertEqual({"type": "ok", "value": 3}, talk.do("leader"))
        self.assertFalse(talk.do("holds")["value"], "the question is no campaign")
        talk.do("acquire")
        self.assertEqual({"type": "ok", "value": 3}, talk.do("leader"))
        self.assertEqual({"type": "ok", "value": 4}, talk.do("leader", process=4))
        talk.do("release")
        self.assertEqual({"type": "ok", "value": 3}, talk.do("leader"))

    def test_number_may_be_a_text_and_none_stands_in_the_answer(self):
        talk = self.talk(options={"kinds": "yes"})
        for key, number in [("first", 0), ("digits", 12), ("vacant", None)]:
            self.assertEqual({"type": "ok", "value": number}, talk.do("leader", key))

    def test_no_answer_is_indeterminate(self):
        talk = self.talk(options={"kinds": "yes"})
        talk.do("acquire")
        for key, error in [("unsure-leader", "raised: "), ("certain-leader", "unreachable: refused"), ("stranger", "raised: ")]:
            answer = talk.do("leader", key)
            self.assertFails(answer, error)
            self.assertNotIn("value", answer)
        self.assertTrue(talk.do("holds")["value"], "the process goes on")

    def test_lock_without_it_is_refused(self):
        talk = self.talk()
        talk.do("acquire")
        self.assertFails(talk.do("leader"), "bad-command: this lock has no ")
        self.assertTrue(talk.do("holds")["value"])


class Nested(Conversation):
    def test_outcomes_of_reenter(self):
        talk = self.talk(claims=["reentrant"], options={"kinds": "yes"})
        self.assertIn("reentrant", talk.back["can"])
        self.assertFails(talk.do("reenter", "a", ttl_ms=2000), "not-held: ")
        for key in ("a", "removed"):
            talk.do("acquire", key)
            self.assertEqual({"type": "ok"}, talk.do("reenter", key, ttl_ms=2000))
            self.assertFails(talk.do("reenter", key, ttl_ms=0), "bad-command: ")
            self.assertTrue(talk.do("holds", key)["value"])
        for key in ("gone", "not-held"):
            talk.do("acquire", key)
            self.assertFails(talk.do("reenter", key, ttl_ms=2000), "not-held: ")
            self.assertFalse(talk.do("holds", key)["value"])
        for key, error in [("shut-out", "taken: by another"), ("certain-prolong", "unreachable: refused")]:
            talk.do("acquire", key)
            self.assertFails(talk.do("reenter", key, ttl_ms=2000), error)
            self.assertTrue(talk.do("holds", key)["value"])
        talk.do("acquire", "unsure-prolong")
        self.assertInfo(talk.do("reenter", "unsure-prolong", ttl_ms=2000), "raised: ")

    def test_validity_counts_anew_where_the_library_states_it(self):
        for key, is_prolonged in [("short", True), ("short-still", False)]:
            talk = self.talk(careful=True, options={"kinds": "yes"})
            talk.do("acquire", key)
            answer = talk.do("reenter", key, ttl_ms=60000)
            self.assertEqual({"type": "ok", **({"value": {"validity_ms": 60000}} if is_prolonged else {})}, answer)
            time.sleep(0.2)
            self.assertEqual(is_prolonged, talk.do("holds", key)["value"])

    def test_outcomes_of_leave(self):
        talk = self.talk(options={"kinds": "yes"})
        answer = talk.do("leave")
        self.assertFails(answer, "not-held: ")
        self.assertEqual({"believed": False}, answer["value"], "the library was not called")
        # The process goes on to hold the lock, whatever its library says of an inner release.
        for key, more in [("a", {}), ("removed", {"removed": True}), ("gone", {"removed": False})]:
            talk.do("acquire", key)
            self.assertEqual({"type": "ok", "value": {"believed": True, **more}}, talk.do("leave", key))
            self.assertTrue(talk.do("holds", key)["value"])
        talk.do("acquire", "certain-release")
        answer = talk.do("leave", "certain-release")
        self.assertFails(answer, "unreachable: refused")
        self.assertEqual({"believed": True}, answer["value"])
        talk.do("acquire", "not-held")
        answer = talk.do("leave", "not-held")
        self.assertFails(answer, "not-held: of another")
        self.assertEqual({"believed": True, "removed": False}, answer["value"])
        self.assertFalse(talk.do("holds", "not-held")["value"])
        self.assertEqual("ok", talk.do("release", "a")["type"])
        self.assertFails(talk.do("leave", "a"), "not-held: ")
        talk.do("acquire", "unsure-release")
        answer = talk.do("leave", "unsure-release")
        self.assertInfo(answer, "raised: ")
        self.assertEqual({"believed": True}, answer["value"])

    def test_lock_without_it_is_refused(self):
        talk = self.talk()
        talk.do("acquire")
        self.assertFails(talk.do("reenter", ttl_ms=2000), "bad-command: this lock has no ")
        self.assertFails(talk.do("leave"), "bad-command: this lock has no ")
        self.assertTrue(talk.do("holds")["value"])


class Several(Conversation):
    def test_set_is_acquired_and_released_by_functions_of_its_own(self):
        storage = FakeStorage()
        talk = self.talk(claims=["unique", "several"], options={"kinds": "yes"}, storage=storage.address)
        self.assertIn("several", talk.back["can"])
        # A name that stands twice counts once.
        for also, names in [(["b", "c"], "a b c"), (["b", "a", "b"], "a b"), ([], "a")]:
            value = {"also": also}
            self.assertCountsFrom(0, talk.do("acquire", value=value, ttl_ms=60000))
            for key in names.split():
                self.assertTrue(talk.do("holds", key)["value"])
                talk.do("read", key)
                self.assertEqual("all of " + names, storage.requests[-1]["unique"])
            self.assertEqual({"type": "ok", "value": {"believed": True}}, talk.do("release", value=value))
            for key in names.split():
                self.assertFalse(talk.do("holds", key)["value"])
        talk.do("acquire", value={"queue": True})
        self.assertFalse(talk.do("holds", "b")["value"], "without other names it is the lock of one")
        self.assertEqual("ok", talk.do("release")["type"])

    def test_outcomes(self):
        talk = self.talk(options={"kinds": "yes"})
        for key, error in [("taken", "taken: by another"), ("nothing", "refused-by-library: "), ("certain", "unreachable: refused")]:
            self.assertFails(talk.do("acquire", value={"also": [key]}), error)
            self.assertFalse(talk.do("holds", key)["value"] or talk.do("holds")["value"])
        for key, error in [("gone", "not-held: "), ("not-held", "not-held: of another")]:
            value = {"also": [key]}
            talk.do("acquire", value=value)
            answer = talk.do("release", value=value)
            self.assertFails(answer, error)
            self.assertEqual({"believed": True, "removed": False}, answer["value"])
        answer = talk.do("release", value={"also": ["b"]})
        self.assertFails(answer, "not-held: ")
        self.assertEqual({"believed": False}, answer["value"], "the library was not called")
        for also in ("b", [1], {"b": 1}):
            self.assertFails(talk.do("acquire", value={"also": also}), "bad-command: the names of a set ")
        talk.send("acquire", value={"also": ["unsure"]})
        self.assertInfo(talk.next(), "raised: ")

    def test_one_name_can_be_lost(self):
        talk = self.talk(options={"kinds": "yes"})
        value = {"also": ["b", "lost"]}
        self.assertEqual("ok", talk.do("acquire", value=value)["type"])
        self.assertEqual({"event": "lost", "process": 3, "key": "lost", "reason": "session expired"}, talk.next())
        self.assertEqual([True, True, False], [talk.do("holds", key)["value"] for key in ("a", "b", "lost")])
        self.assertEqual({"believed": False}, talk.do("release", value=value)["value"])

    def test_set_that_is_granted_too_late_is_given_back(self):
        talk = self.talk(options={"kinds": "yes"})
        slow = talk.send("acquire", value={"also": ["slow"]})
        time.sleep(0.2)
        talk.say({"event": "over", "process": 3})
        self.assertEqual(slow, talk.next()["id"])
        self.assertTrue(talk.logged("released slow"))

    def test_lock_without_it_is_refused(self):
        talk = self.talk()
        self.assertFails(talk.do("acquire", value={"also": ["b"]}), "bad-command: this lock has no ")
        self.assertFalse(talk.do("holds")["value"])


class BeliefAndRelease(Conversation):
    def test_careless_process_does_not_look_at_its_clock(self):
        talk = self.talk()
        talk.do("acquire", "short")
        time.sleep(0.2)
        self.assertTrue(talk.do("holds", "short")["value"])

    def test_careful_process_looks_at_its_clock(self):
        storage = FakeStorage()
        talk = self.talk(careful=True, storage=storage.address)
        talk.do("acquire", "long")
        self.assertTrue(talk.do("holds", "long")["value"])
        talk.do("acquire", "short")
        time.sleep(0.2)
        self.assertFalse(talk.do("holds", "short")["value"])
        self.assertFails(talk.do("write", "short", value=1), "gave-up: ")
        self.assertEqual([], storage.requests)
        self.assertEqual({"believed": False}, talk.do("release", "short")["value"])

    def test_renewal_counts_the_validity_anew(self):
        talk = self.talk(careful=True)
        talk.do("acquire", "short", ttl_ms=60000)
        talk.send("acquire", "renew:short")
        notice = talk.next()
        # As old as it was said to be, and the time until it is written.
        self.assertTrue(5 <= notice.pop("age_ms") < 5000)
        self.assertEqual({"event": "renewed", "process": 3, "key": "short"}, notice)
        talk.next()
        time.sleep(0.2)
        self.assertTrue(talk.do("holds", "short")["value"])

    def test_careful_process_asks_its_library(self):
        talk = self.talk()
        talk.do("acquire", "doubted")
        self.assertTrue(talk.do("holds", "doubted")["value"])
        talk = self.talk(careful=True)
        talk.do("acquire", "doubted")
        self.assertFalse(talk.do("holds", "doubted")["value"])
        talk.do("acquire", "confused")
        self.assertTrue(talk.do("holds", "confused")["value"])

    def test_releases(self):
        talk = self.talk()
        outcomes = [("gone", "not-held: the release removed nothing", {"believed": True, "removed": False}),
                    ("not-held", "not-held: of another", {"believed": True, "removed": False}),
                    ("certain-release", "unreachable: refused", {"believed": True})]
        for key, error, value in outcomes:
            talk.do("acquire", key)
            answer = talk.do("release", key)
            self.assertFails(answer, error)
            self.assertEqual(value, answer["value"])
        talk.do("acquire", "removed")
        self.assertEqual({"type": "ok", "value": {"believed": True, "removed": True}}, talk.do("release", "removed"))
        answer = talk.do("release", "removed")
        self.assertFails(answer, "not-held: ")
        self.assertEqual({"believed": False}, answer["value"], "the library was not called")
        talk.do("acquire", "unsure-release")
        answer = talk.do("release", "unsure-release")
        self.assertInfo(answer, "raised: ")
        self.assertEqual({"believed": True}, answer["value"])


class Notices(Conversation):
    def test_lost_before_the_grant_is_reported_after_it(self):
        talk = self.talk()
        self.assertEqual("ok", talk.do("acquire", "lost")["type"])
        self.assertEqual({"event": "lost", "process": 3, "key": "lost", "reason": "session expired"}, talk.next())
        self.assertFalse(talk.do("holds", "lost")["value"])
        self.assertEqual({"believed": False}, talk.do("release", "lost")["value"])

    def test_lost_without_a_grant_is_dropped(self):
        talk = self.talk()
        self.assertFails(talk.do("acquire", "lost-taken"), "taken: ")
        self.assertFails(talk.do("acquire", "lose:a"), "refused-by-library: ")
        self.assertTrue(talk.quiet())
        talk.do("acquire", "a")
        self.assertTrue(talk.do("holds", "a")["value"])

    def test_lost_is_reported_once(self):
        talk = self.talk()
        talk.do("acquire")
        talk.send("acquire", "lose:a")
        self.assertEqual({"event": "lost", "process": 3, "key": "a", "reason": "session expired"}, talk.next())
        talk.next()
        self.assertFalse(talk.do("holds")["value"])
        self.assertFails(talk.do("acquire", "lose:a"), "refused-by-library: ")


class Storage(Conversation):
    def test_requests_carry_what_was_granted(self):
        storage = FakeStorage()
        talk = self.talk(storage=storage.address, claims=["token", "unique"])
        self.assertEqual({"type": "ok", "value": 0}, talk.do("read"))
        talk.do("acquire")
        self.assertEqual({"type": "ok", "value": 8}, talk.do("write", value=8))
        self.assertEqual({"type": "ok", "value": 8}, talk.do("read"))
        talk.do("release")
        self.assertEqual({"type": "ok", "value": 2}, talk.do("write", value=[1, 2]))
        self.assertEqual({"type": "ok", "value": [1, 2]}, talk.do("read"))
        seen = [(request["f"], request.get("token"), request.get("unique")) for request in storage.requests]
        self.assertEqual({3}, {request["process"] for request in storage.requests})
        held = (33, "u-3")
        self.assertEqual([("read", None, None), ("write", *held), ("read", *held), ("write", None, None), ("read", None, None)], seen)
        self.assertFails(talk.do("write", value="x"), "bad-command: ")

    def test_marks_once_a_grant(self):
        storage = FakeStorage()
        talk = self.talk(storage=storage.address, marks_first=True)
        talk.do("read")
        for _ in range(2):
            talk.do("acquire")
            talk.do("read")
            talk.do("write", value=1)
        functions = [request["f"] for request in storage.requests]
        self.assertEqual(["read", *["mark", "read", "write"] * 2], functions)

    def test_mark_that_fails_is_repeated(self):
        storage = FakeStorage(lambda request: {"fail": "rejected: stale-unique: x"} if request["f"] == "mark" else {"ok": 1})
        talk = self.talk(storage=storage.address, marks_first=True)
        talk.do("acquire")
        for _ in range(2):
            self.assertFails(talk.do("write", value=1), "rejected: stale-unique: x")
        self.assertEqual(["mark", "mark"], [request["f"] for request in storage.requests])

    def test_rejection_is_passed_on_as_it_is(self):
        storage = FakeStorage(lambda _: {"fail": "rejected: stale-token: 33 < 35"})
        talk = self.talk(storage=storage.address)
        self.assertEqual({"type": "fail", "error": "rejected: stale-token: 33 < 35"}, talk.do("write", value=1))

    def test_storage_that_cannot_be_reached_fails(self):
        self.assertFails(self.talk().do("write", value=1), "no-storage: ")
        talk = self.talk(storage=closed_port())
        self.assertFails(talk.do("write", value=1, timeout_ms=300), "unreachable: ")
        self.assertFails(talk.do("read", timeout_ms=300), "unreachable: ")

    def test_write_without_an_answer_is_indeterminate_and_a_read_fails(self):
        for answer, text in [(None, "timeout: "), (FakeStorage.CLOSE, "disconnected: ")]:
            # The first answer shows that the connection is there, however long that took.
            def connected():
                answers = [{"ok": 0}]
                talk = self.talk(storage=FakeStorage(lambda _: answers.pop() if answers else answer).address)
                talk.do("read")
                return talk
            # What never comes is waited for in vain, and what comes may come late.
            limit = {"timeout_ms": 300} if answer is None else {}
            self.assertFails(connected().do("read", **limit), text)
            self.assertInfo(connected().do("write", value=1, **limit), text)

    def test_connects_anew(self):
        answers = [FakeStorage.CLOSE, {"ok": 1}, {"ok": 2}]
        talk = self.talk(storage=FakeStorage(lambda _: answers.pop(0)).address)
        self.assertFails(talk.do("read"), "disconnected: ")
        self.assertEqual({"type": "ok", "value": 1}, talk.do("read"))

    def test_pauses_between_check_and_write(self):
        storage = FakeStorage()
        talk = self.talk(storage=storage.address, careful=True, pause_at=["between-check-and-write=1500ms"])
        talk.do("acquire")
        begun = time.monotonic()
        talk.send("write", value=1)
        self.assertEqual({"event": "at", "process": 3, "key": "a", "point": "between-check-and-write"}, talk.next())
        self.assertEqual([], storage.requests)
        self.assertEqual("ok", talk.next()["type"])
        self.assertGreater(time.monotonic() - begun, 1.49)


class Replicas(Conversation):
    def replicas(self, *storages):
        addresses = [storage.address if isinstance(storage, FakeStorage) else storage for storage in storages]
        return self.talk(storage=addresses[0], storage_replicas=addresses)

    def test_majority_is_enough(self):
        one, two = FakeStorage(), FakeStorage()
        silent = FakeStorage(lambda _: None)
        for third in (closed_port(), silent):
            talk = self.replicas(third, one, two)
            talk.do("acquire")
            # A wait for the silent one would last longer than anything is waited for here.
            patient = {"timeout_ms": 600000}
            self.assertEqual({"type": "ok", "value": 8}, talk.do("write", value=8, **patient))
            self.assertEqual({"type": "ok", "value": 9}, talk.do("write", value=9, **patient))
            self.assertEqual({"type": "ok", "value": 9}, talk.do("read", **patient))
        numbers = [request["number"] for request in one.requests if request["f"] == "write"]
        self.assertEqual([1, 2, 1, 2], numbers)

    def test_readers_take_the_newest_value(self):
        versions = [[33, 2], [34, 1], None]
        storages = [FakeStorage(lambda _, n=n, version=version: {"ok": n, "version": version} if version else {"ok": n})
                    for n, version in enumerate(versions)]
        talk = self.replicas(storages[0], storages[1], closed_port())
        self.assertEqual({"type": "ok", "value": 1}, talk.do("read"))
        talk = self.replicas(storages[0], storages[2], closed_port())
        self.assertEqual({"type": "ok", "value": 0}, talk.do("read"))

    def test_numbers_count_over_all_processes(self):
        storages = [FakeStorage() for _ in range(3)]
        talk = self.replicas(*storages)
        for process in (3, 4, 3):
            talk.do("write", process=process, value=1)
        time.sleep(0.1)
        # A majority is enough, in any order: each process has connections of its own.
        numbers = {request["number"] for storage in storages for request in storage.requests}
        self.assertEqual({1, 2, 3}, numbers)

    def test_without_a_majority(self):
        talk = self.replicas(FakeStorage(), closed_port(), closed_port())
        self.assertFails(talk.do("read", timeout_ms=300), "unreachable: ")
        # Enough to reach the one that is there, on a slow machine as well.
        self.assertInfo(talk.do("write", value=8, timeout_ms=8000), "no-majority: ")
        talk = self.replicas(closed_port(), closed_port(), closed_port())
        self.assertFails(talk.do("write", value=8, timeout_ms=300), "unreachable: ")
        stale = lambda _: {"fail": "rejected: stale-epoch: 33 < 34"}
        talk = self.replicas(FakeStorage(stale), FakeStorage(stale), closed_port())
        self.assertFails(talk.do("write", value=8), "rejected: stale-epoch")


if __name__ == "__main__":
    if not COMMAND:
        sys.exit(__doc__)
    only = os.environ.get("CONVERSATION_ONLY", "").split()
    unittest.main(argv=[sys.argv[0], *only], warnings="ignore")
