//! The packet tools between two network namespaces that each test makes for itself: what a probe sees of each
//! impairment, by both mechanisms, and that nothing is left of it.

use crate::guest;
use crate::networks::{LEFT, Pair, RIGHT};
use fencepost_nemesis::tools::packets::{
    Counts, Distribution, Echoes, Impairment, Mechanism, Network, Probe,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

const HUNDRED_MS: Impairment = Impairment { delay_ms: 100.0, ..NOTHING };

const NOTHING: Impairment = Impairment {
    delay_ms: 0.0,
    jitter_ms: 0.0,
    distribution: Distribution::Uniform,
    loss: 0.0,
    loss_correlation: 0.0,
    duplicate: 0.0,
    reorder: 0.0,
    rate_kbit: 0,
    reset: 0.0,
    pass_first: 0,
};

fn emulator() -> Network {
    Network::by(Mechanism::Emulator)
}

fn probe(count: u16, gap_ms: f64) -> Echoes {
    Probe { to: RIGHT, count, gap_ms, bytes: 84, patience_ms: 2000 }.run().expect("a probe")
}

/// Probes from the left to the right while the left's packets are impaired.
fn impaired(by: Mechanism, impairment: Impairment, count: u16, gap_ms: f64) -> (Echoes, Counts) {
    let pair = Pair::new();
    pair.left(|| {
        let mut network = Network::by(by);
        network.set("test", &[RIGHT], impairment).expect("impaired");
        let echoes = probe(count, gap_ms);
        let counts = network.look().expect("counts").counts[&RIGHT];
        network.clear("test").expect("cleared");
        assert!(network.is_gone().expect("the kernel answers"));
        let after = probe(10, 0.0);
        assert_eq!(after.answered, 10, "after healing");
        assert!(after.least_ms.unwrap() < 20.0, "after healing: {after:?}");
        (echoes, counts)
    })
}

/// Each of these is checked with both mechanisms.
macro_rules! with_both_mechanisms {
    ($($name:ident)*) => {
        mod emulated { $(#[test] fn $name() { super::$name(super::Mechanism::Emulator) })* }

        /// In the guest, where there is one.
        fn with_netem() {
            $(println!("{}", stringify!($name)); $name(Mechanism::Netem);)*
        }
    };
}

with_both_mechanisms! {
    a_delay_shows_in_the_round_trip
    jitter_spreads_the_round_trips_and_lets_packets_overtake
    packets_are_lost_in_the_share_that_was_asked_for
    copies_arrive_beside_the_originals
    some_packets_overtake_the_others
    a_rate_makes_packets_wait_for_each_other
    only_the_chosen_destination_is_impaired_and_faults_add_up
}

#[test]
fn netem_does_the_same() {
    let pair = Pair::new();
    match pair.left(Network::offers) {
        Ok(Mechanism::Netem) => with_netem(),
        _ => guest::boot("packets::netem_in_the_guest"),
    }
}

/// Not a test, but what the guest runs.
#[test]
#[ignore = "runs as the first process of a guest"]
fn netem_in_the_guest() {
    guest::inside(with_netem);
}

// The machine may be busy with other work, which makes packets late, and none early. So the fastest packets
// say that a fault does not do more than it should, and all of them that it does not do less; docs/packets.md
// has what an idle machine does.

fn a_delay_shows_in_the_round_trip(by: Mechanism) {
    let (echoes, counts) = impaired(by, HUNDRED_MS, 20, 5.0);
    assert_eq!((echoes.answered, counts.lost), (20, 0));
    assert!(counts.passed >= 20, "{counts:?}");
    assert!((99.0..130.0).contains(&echoes.least_ms.unwrap()), "{echoes:?}");
}

fn jitter_spreads_the_round_trips_and_lets_packets_overtake(by: Mechanism) {
    let spread =
        Impairment { delay_ms: 60.0, jitter_ms: 20.0, distribution: Distribution::Normal, ..NOTHING };
    let (echoes, _) = impaired(by, spread, 200, 1.0);
    assert!(echoes.median_ms.unwrap() > 50.0, "{echoes:?}");
    assert!(echoes.least_ms.unwrap() < 40.0 && echoes.most_ms.unwrap() > 80.0, "{echoes:?}");
    assert!(echoes.overtaken > 20, "{echoes:?}");
}

fn packets_are_lost_in_the_share_that_was_asked_for(by: Mechanism) {
    for loss_correlation in [0.0, 0.3] {
        let (echoes, counts) = impaired(by, Impairment { loss: 0.3, loss_correlation, ..NOTHING }, 1000, 0.1);
        assert!((600..800).contains(&echoes.answered), "{echoes:?}");
        assert_eq!(counts.lost, 1000 - echoes.answered);
    }
}

fn copies_arrive_beside_the_originals(by: Mechanism) {
    let (echoes, counts) = impaired(by, Impairment { duplicate: 0.5, ..NOTHING }, 200, 1.0);
    assert_eq!(echoes.answered, 200);
    assert!((60..140).contains(&echoes.duplicates), "{echoes:?}");
    match by {
        // No probe waits for a copy that comes after the last answer.
        Mechanism::Emulator => {
            let late = counts.duplicated.checked_sub(echoes.duplicates);
            assert!(late.is_some_and(|late| late <= 2), "{counts:?} {echoes:?}");
        }
        // It does not tell how many copies it made.
        Mechanism::Netem => assert_eq!(counts.duplicated, 0),
    }
}

fn some_packets_overtake_the_others(by: Mechanism) {
    let reorder = Impairment { delay_ms: 50.0, reorder: 0.25, ..NOTHING };
    let (echoes, _) = impaired(by, reorder, 200, 1.0);
    assert_eq!(echoes.answered, 200);
    assert!(echoes.overtaken > 50, "{echoes:?}");
}

fn a_rate_makes_packets_wait_for_each_other(by: Mechanism) {
    // 20 packets of 98 bytes at 64 kbit/s take 245 ms.
    let tries = [(); 3].map(|()| impaired(by, Impairment { rate_kbit: 64, ..NOTHING }, 20, 0.0).0);
    assert!(tries.iter().all(|echoes| echoes.answered == 20), "{tries:?}");
    assert!(tries.iter().all(|echoes| echoes.most_ms.unwrap() >= 230.0), "{tries:?}");
    assert!(tries.iter().any(|echoes| echoes.most_ms.unwrap() < 350.0), "{tries:?}");
    assert!(tries.iter().any(|echoes| echoes.least_ms.unwrap() < 40.0), "{tries:?}");
}

fn only_the_chosen_destination_is_impaired_and_faults_add_up(by: Mechanism) {
    let pair = Pair::new();
    pair.left(|| {
        let mut network = Network::by(by);
        let elsewhere = "198.18.0.77".parse().unwrap();
        network.set("other", &[elsewhere], HUNDRED_MS).unwrap();
        assert!(probe(5, 0.0).least_ms.unwrap() < 50.0);
        network.set("one", &[RIGHT, elsewhere], HUNDRED_MS).unwrap();
        network.set("two", &[RIGHT], HUNDRED_MS).unwrap();
        assert!((199.0..250.0).contains(&probe(5, 0.0).least_ms.unwrap()));
        network.clear("one").unwrap();
        assert!((99.0..150.0).contains(&probe(5, 0.0).least_ms.unwrap()));
        assert_eq!(network.look().unwrap().faults, ["other", "two"]);
        network.clear("two").unwrap();
        assert!(probe(5, 0.0).least_ms.unwrap() < 50.0);
        assert!(!network.is_gone().unwrap(), "one fault is still in force");
    });
    // Dropping the network took the last one away.
    assert!(pair.left(|| Network::by(by).is_gone().unwrap()));
}

#[test]
fn connection_tracking_does_not_lose_what_is_held() {
    let pair = Pair::new();
    pair.left(|| {
        // Any rule about connections makes the kernel track them, as in containers.
        let rule = ["-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT"];
        assert!(Command::new("iptables").args(rule).status().unwrap().success());
        let mut network = emulator();
        network.set("test", &[RIGHT], HUNDRED_MS).unwrap();
        assert_eq!(probe(10, 1.0).answered, 10);
    });
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
        client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(client.read_exact(&mut byte).is_err(), "the answer came through");
        assert!(network.look().unwrap().counts[&LEFT].lost > 0);
        network.clear("answers").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        client.read_exact(&mut byte).unwrap();
        assert_eq!(byte, *b"!", "TCP sends again what was lost");
    });
}

#[test]
fn what_is_held_goes_on_at_once_when_the_fault_ends() {
    let pair = Pair::new();
    // UDP repeats nothing: what was thrown away never arrives, and what is still held not within the test.
    let server = pair.right(|| UdpSocket::bind((RIGHT, 7000)).unwrap());
    server.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let client = pair.left(|| UdpSocket::bind((LEFT, 0)).unwrap());
    pair.left(|| {
        let mut network = emulator();
        network.set("long", &[RIGHT], Impairment { delay_ms: 600_000.0, ..NOTHING }).unwrap();
        client.send_to(b"?", (RIGHT, 7000)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(network.look().unwrap().counts[&RIGHT].passed, 1, "taken in, and not lost");
        network.clear("long").unwrap();
        server.recv(&mut [0]).expect("the packet came at once");
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
            end.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
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
        let stalled = Impairment { delay_ms: 600_000.0, pass_first: 2, ..NOTHING };
        network.set("stalled", &[RIGHT], stalled).unwrap();
        for request in [b"1", b"2"] {
            client.write_all(request).unwrap();
            server.read_exact(&mut [0]).expect("it passes");
        }
        client.write_all(b"3").unwrap();
        server.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(server.read(&mut [0]).is_err(), "it is held back");
        network.clear("stalled").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
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
        assert!(probe(3, 0.0).least_ms.unwrap() >= 100.0, "the first is still in force");
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
            .args(["--exact", "packets::emulator_until_it_is_killed", "--ignored", "--nocapture"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let mut lines = BufReader::new(emulator.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("in force")));
    assert!(pair.left(|| probe(3, 0.0)).least_ms.unwrap() >= 100.0);
    emulator.kill().unwrap();
    emulator.wait().unwrap();
    let after = pair.left(|| probe(5, 0.0));
    assert!(after.answered == 5 && after.least_ms.unwrap() < 50.0, "{after:?}");
    assert!(pair.left_rules().contains("--queue-bypass"), "a killed program cannot remove its rules");
}

/// Not a test, but the program that the test above kills.
#[test]
#[ignore = "runs until it is killed"]
fn emulator_until_it_is_killed() {
    let mut network = emulator();
    network.set("test", &[RIGHT], HUNDRED_MS).unwrap();
    println!("in force");
    std::thread::sleep(Duration::from_secs(60));
}
