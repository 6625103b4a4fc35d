"""The fixture `fencepost_cluster`, on five Redis: played by `fencepost up redlock -- pytest`, in Fencepost's own tests."""

import socket

import pytest
from fencepost_pytest import FaultError

pytest_plugins = ["pytester"]


def ask(server, command):
    """What a Redis answers; None where it does not answer in time."""
    with socket.create_connection((server.host, server.port), timeout=10) as connection:
        connection.settimeout(0.5)
        try:
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(1000).decode().strip() or None
        except OSError:
            return None


@pytest.fixture
def cluster(fencepost_cluster):
    return fencepost_cluster("redlock")


def test_lease_ends_early_where_the_clock_jumps(cluster):
    for server in cluster.servers[:2]:
        assert ask(server, "SET early mine NX PX 30000") == "+OK"
    assert "jumped forward" in cluster.clock("n1").jump(60).report["sentence"]
    assert ask(cluster.servers[0], "SET early other NX PX 30000") == "+OK"
    assert ask(cluster.servers[1], "SET early other NX PX 30000") == "$-1"


def test_faults_are_healed_when_a_test_ends(cluster):
    assert {fault["state"] for fault in cluster.faults()} == {"healed"}


def test_faults_are_healed_when_a_test_fails(cluster, pytester):
    pytester.makepyfile(
        """
        def test_that_fails(fencepost_cluster):
            cluster = fencepost_cluster("redlock")
            cluster.pause("n2")
            cluster.partition("n1,n3", "c1")
            assert {fault["state"] for fault in cluster.faults()[-2:]} == {"in-force"}
            assert not "as long as it takes"
        """
    )
    pytester.runpytest("-p", "fencepost_pytest").assert_outcomes(failed=1)
    assert {fault["state"] for fault in cluster.faults()} == {"healed"}
    assert [ask(server, "PING") for server in cluster.servers] == ["+PONG"] * 5


def test_minority_is_away_for_the_time_of_a_block(cluster):
    with cluster.partition("n1"), cluster.pause("n2"):
        assert [ask(server, "PING") for server in cluster.servers] == [None, None] + ["+PONG"] * 3
    assert [ask(server, "PING") for server in cluster.servers] == ["+PONG"] * 5


def test_killed_server_is_back_when_it_is_healed(cluster):
    fault = cluster.kill("n4")
    assert ask(cluster.servers[3], "PING") != "+PONG"
    fault.heal()
    assert ask(cluster.servers[3], "PING") == "+PONG"


def test_clocks_drift_and_stand_still(cluster):
    with cluster.clock("n1").drift(2), cluster.clock("n2").freeze():
        assert len(cluster.addresses) == 5


def test_what_cannot_be_injected_says_why(cluster):
    for nemesis, node, why in [
        ("puase", "n1", 'did you mean "pause"?'),
        ("pause", "n9", "there is no node n9"),
        ("pause", "c1", "stands for your own programs"),
    ]:
        with pytest.raises(FaultError, match=why.replace("?", "[?]")):
            cluster.fault(nemesis, node)
    with pytest.raises(FaultError, match="showed no effect, and was healed"):
        cluster.clock("n1").drift(1)
