//! Connections over impaired packets, and what stays of the tool where it is refused or killed.

use crate::networks::{LEFT, Pair, RIGHT};
use crate::packets::{DEADLINE, HELD, HUNDRED_MS, NOTHING, emulator, is_held, probe};
use fencepost_cluster::for_tests::eventually;
use fencepost_nemesis::tools::packets::{Impairment, Network};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

/// Nothing waits to be read.
fn assert_nothing_came(stream: &TcpStream) {
    stream.set_nonblocking(true).unwrap();
    assert_eq!(stream.peek(&mut [0]).map_err(|error| error.kind()), Err(ErrorKind::WouldBlock));
    stream.set_nonblocking(false).unwrap();
}

#[test]
fn answers_are_lost_while_requests_arrive() {
    let pair = Pair::new();
    let listener = pair.right(|| TcpListener::bind((RIGHT, 7000)).unwrap());
    let mut client = pair.left(|| TcpStream::connect((RIGHT, 7000)).unwrap());
    let (mut server, _) = listener.accept().unwrap();
    pair.right(|| {
        let mut network = emulator();
        network.set("answers", &[LEFT], Impairment { loss: 1.0, ..NOTHING }).unwrap();
        client.write_all(b"?").unwrap();
        let mut byte = [0];
        server.read_exact(&mut byte).unwrap();
        server.write_all(b"!").unwrap();
        eventually("the answer is lost", || network.look().unwrap().counts[&LEFT].lost > 0);
        assert_nothing_came(&client);
        network.clear("answers").unwrap();
        client.set_read_timeout(Some(DEADLINE)).unwrap();
        client.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"!", "TCP sends again what was lost");
    });
}

#[test]
fn what_resets_a_connection_is_heard_of_at_both_ends() {
    let pair = Pair::new();
    let listener = pair.right(|| TcpListener::bind((RIGHT, 7000)).unwrap());
    let connect = || {
        let client = pair.left(|| TcpStream::connect((RIGHT, 7000)).unwrap());
        let server = listener.accept().unwrap().0;
        for end in [&client, &server] {
            end.set_read_timeout(Some(DEADLINE)).unwrap();
        }
        (client, server)
    };
    pair.left(|| {
        // Beside netem, where there is one.
        let mut network = Network::default();
        network.set("resets", &[RIGHT], Impairment { reset: 1.0, pass_first: 1, ..NOTHING }).unwrap();
        let (mut client, mut server) = connect();
        client.write_all(b"1").unwrap();
        server.read_exact(&mut [0]).expect("the first packet passes");
        client.write_all(b"2").unwrap();
        for end in [&mut client, &mut server] {
            let heard = end.read(&mut [0]).map_err(|error| error.kind());
            assert_eq!(heard, Err(std::io::ErrorKind::ConnectionReset));
        }
        assert_eq!(network.look().unwrap().counts[&RIGHT].reset, 1);
        network.clear("resets").unwrap();
        assert!(network.is_gone().unwrap());
        let (mut client, mut server) = connect();
        client.write_all(b"3").unwrap();
        server.read_exact(&mut [0]).expect("nothing resets any more");
    });
}

#[test]
fn the_first_requests_pass_and_those_after_them_are_held_back() {
    let pair = Pair::new();
    let listener = pair.right(|| TcpListener::bind((RIGHT, 7000)).unwrap());
    let mut client = pair.left(|| TcpStream::connect((RIGHT, 7000)).unwrap());
    let (mut server, _) = listener.accept().unwrap();
    pair.left(|| {
        let mut network = Network::default();
        network.set("stalled", &[RIGHT], Impairment { pass_first: 2, ..HELD }).unwrap();
        for request in [b"1", b"2"] {
            client.write_all(request).unwrap();
            server.read_exact(&mut [0]).expect("it passes");
        }
        client.write_all(b"3").unwrap();
        let passed = || network.look().unwrap().counts[&RIGHT].passed;
        eventually("the third is taken in", || passed() > 2);
        assert_nothing_came(&server);
        network.clear("stalled").unwrap();
        server.set_read_timeout(Some(DEADLINE)).unwrap();
        server.read_exact(&mut [0]).expect("what is held goes on at the end");
    });
}

#[test]
fn a_refused_fault_leaves_everything_as_it_was() {
    let pair = Pair::new();
    pair.left(|| {
        let mut network = emulator();
        let error = network.set("nonsense", &[RIGHT], Impairment { loss: 2.0, ..NOTHING }).unwrap_err();
        assert_eq!(error.to_string(), "loss is a share between 0 and 1, not 2");
        network.set("first", &[RIGHT], HUNDRED_MS).unwrap();
        // A second emulator in the same namespace finds the queue taken.
        let error = emulator().set("second", &[RIGHT], HUNDRED_MS).unwrap_err();
        assert!(error.to_string().starts_with("the packet emulator did not start"), "{error}");
        assert!(probe(3).least_ms.unwrap() >= 100.0, "the first is still in force");
    });
    assert_eq!(pair.left_rules(), Pair::NO_RULES);
}

#[test]
fn the_node_tells_what_it_offers_and_trying_leaves_nothing() {
    let pair = Pair::new();
    pair.left(|| Network::offers().expect("one of the mechanisms"));
    assert_eq!(pair.left_rules(), Pair::NO_RULES);
}

#[test]
fn traffic_flows_when_the_emulator_is_killed() {
    let pair = Pair::new();
    let program = std::env::current_exe().unwrap();
    let mut emulator = pair.left(|| {
        Command::new(program)
            .args(["--exact", "connections::emulator_until_it_is_killed", "--ignored", "--nocapture"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let mut lines = BufReader::new(emulator.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("in force")));
    assert!(pair.left(is_held));
    emulator.kill().unwrap();
    emulator.wait().unwrap();
    assert_eq!(pair.left(|| probe(5)).answered, 5);
    assert!(pair.left_rules().contains("--queue-bypass"), "a killed program cannot remove its rules");
}

/// Not a test, but the program that the test above kills.
#[test]
#[ignore = "runs until it is killed"]
fn emulator_until_it_is_killed() {
    let mut network = emulator();
    network.set("test", &[RIGHT], HELD).unwrap();
    println!("in force");
    std::thread::park();
}
