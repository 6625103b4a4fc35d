//! The packet tools between two network namespaces that each test makes for itself, by both mechanisms, and
//! that nothing is left of them. A slow machine makes packets late, and none early: so nothing here is soon
//! enough. Packets are late enough; or held for longer than any test lasts, and then they arrive or do not.

use crate::guest;
use crate::networks::{LEFT, Pair, RIGHT};
use fencepost_cluster::for_tests::eventually;
use fencepost_nemesis::tools::packets::{
    Counts, Distribution, Echoes, Impairment, Mechanism, Network, Probe,
};
use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::process::Command;
use std::time::{Duration, Instant};

/// Ends only what hangs.
pub const DEADLINE: Duration = Duration::from_secs(120);

pub const HUNDRED_MS: Impairment = Impairment { delay_ms: 100.0, ..NOTHING };

pub const NOTHING: Impairment = Impairment {
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
    idle_ms: 0,
};

/// Holds packets for longer than any test lasts. Netem knows no delay above 274 s.
pub const HELD: Impairment = Impairment { delay_ms: 240_000.0, ..NOTHING };

/// Datagrams of a burst: as many copies of all fit into the buffer of a socket.
const BURST: u16 = 100;

pub fn emulator() -> Network {
    Network::by(Mechanism::Emulator)
}

/// Waits until all are answered.
pub fn probe(count: u16) -> Echoes {
    let patience_ms = DEADLINE.as_millis() as u64;
    Probe { to: RIGHT, count, gap_ms: 0.0, bytes: 84, patience_ms }.run().expect("a probe")
}

/// Whether echoes are held back, where they are held for longer than any test lasts.
pub fn is_held() -> bool {
    let probe = Probe { to: RIGHT, count: 3, gap_ms: 0.0, bytes: 84, patience_ms: 300 };
    probe.run().expect("a probe").answered == 0
}

/// Probes from the left to the right while the left's packets are impaired, and how long that took.
fn impaired(by: Mechanism, impairment: Impairment, count: u16) -> (Echoes, Counts, Duration) {
    let pair = Pair::new();
    pair.left(|| {
        let mut network = Network::by(by);
        network.set("test", &[RIGHT], impairment).expect("impaired");
        let begun = Instant::now();
        let echoes = probe(count);
        let took = begun.elapsed();
        let counts = network.look().expect("counts").counts[&RIGHT];
        heal(&mut network);
        (echoes, counts, took)
    })
}

/// Ends the fault `test`: nothing is left of it, and packets pass.
fn heal(network: &mut Network) {
    network.clear("test").expect("cleared");
    assert!(network.is_gone().expect("the kernel answers"));
    assert_eq!(probe(10).answered, 10, "after healing");
}

/// Numbered datagrams from the left to the right. Unlike TCP, nothing sends them again.
struct Datagrams {
    left: UdpSocket,
    right: UdpSocket,
}

/// The number of the datagram that comes last.
const LAST: u16 = u16::MAX;

impl Datagrams {
    fn between(pair: &Pair) -> Datagrams {
        let right = pair.right(|| UdpSocket::bind((RIGHT, 7000)).unwrap());
        right.set_read_timeout(Some(DEADLINE)).unwrap();
        let left = pair.left(|| UdpSocket::bind((LEFT, 0)).unwrap());
        left.connect((RIGHT, 7000)).unwrap();
        Datagrams { left, right }
    }

    fn send(&self, number: u16) {
        self.left.send(&number.to_be_bytes()).unwrap();
    }

    fn receive(&self) -> u16 {
        let mut number = [0; 2];
        self.right.recv(&mut number).expect("a datagram");
        u16::from_be_bytes(number)
    }

    /// Sends a burst while the left's packets are impaired, and waits until the fate of each is decided.
    /// Gives what was counted.
    fn send_burst(&self, network: &mut Network, impairment: Impairment) -> Counts {
        network.set("test", &[RIGHT], impairment).expect("impaired");
        (0..BURST).for_each(|number| self.send(number));
        let counts =
            |network: &Network| network.look().unwrap().counts.get(&RIGHT).copied().unwrap_or_default();
        let is_decided = |counts: Counts| counts.passed + counts.lost >= u64::from(BURST);
        let holds = impairment.delay_ms > 0.0 && network.look().unwrap().mechanism == Some(Mechanism::Netem);
        // What netem holds it has not counted yet.
        eventually("each has its fate", || holds || is_decided(counts(network)));
        counts(network)
    }

    /// The next so many that arrive.
    fn next(&self, count: u64) -> Vec<u16> {
        (0..count).map(|_| self.receive()).collect()
    }

    /// All that arrive before the last, which is sent now.
    fn rest(&self) -> Vec<u16> {
        self.send(LAST);
        std::iter::from_fn(|| Some(self.receive()).filter(|number| *number != LAST)).collect()
    }
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
    jitter_spreads_the_round_trips
    lost_packets_are_counted_and_no_others_are_missing
    copies_arrive_beside_the_originals
    packets_without_delay_overtake_the_others
    a_rate_makes_packets_wait_for_each_other
    only_the_chosen_destination_is_impaired_and_faults_add_up
    a_delay_ends_with_the_fault
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

fn a_delay_shows_in_the_round_trip(by: Mechanism) {
    let (echoes, counts, _) = impaired(by, HUNDRED_MS, 20);
    assert_eq!((echoes.answered, counts.lost), (20, 0));
    assert!(counts.passed >= 20, "{counts:?}");
    assert!(echoes.least_ms.unwrap() >= 99.0, "{echoes:?}");
}

fn jitter_spreads_the_round_trips(by: Mechanism) {
    let spread =
        Impairment { delay_ms: 60.0, jitter_ms: 20.0, distribution: Distribution::Normal, ..NOTHING };
    let (echoes, ..) = impaired(by, spread, 200);
    assert_eq!(echoes.answered, 200);
    assert!(echoes.median_ms.unwrap() > 50.0 && echoes.most_ms.unwrap() > 80.0, "{echoes:?}");
}

fn lost_packets_are_counted_and_no_others_are_missing(by: Mechanism) {
    for (loss, loss_correlation) in [(0.3, 0.0), (0.3, 0.3), (1.0, 0.0)] {
        let pair = Pair::new();
        let datagrams = Datagrams::between(&pair);
        pair.left(|| {
            let mut network = Network::by(by);
            let counts = datagrams.send_burst(&mut network, Impairment { loss, loss_correlation, ..NOTHING });
            assert_eq!(counts.passed + counts.lost, u64::from(BURST));
            assert!(counts.lost > 0 && (counts.passed > 0) == (loss < 1.0), "{counts:?}");
            heal(&mut network);
            assert!(datagrams.next(counts.passed).is_sorted());
            assert_eq!(datagrams.rest(), Vec::<u16>::new(), "{counts:?}");
        });
    }
}

fn copies_arrive_beside_the_originals(by: Mechanism) {
    let pair = Pair::new();
    let datagrams = Datagrams::between(&pair);
    pair.left(|| {
        let mut network = Network::by(by);
        let counts = datagrams.send_burst(&mut network, Impairment { duplicate: 0.5, ..NOTHING });
        heal(&mut network);
        let mut arrived = datagrams.next(u64::from(BURST) + counts.duplicated);
        let rest = datagrams.rest();
        match by {
            Mechanism::Emulator => assert_eq!(rest, Vec::<u16>::new(), "{counts:?}"),
            // It does not tell how many copies it made.
            Mechanism::Netem => assert_eq!(counts.duplicated, 0),
        }
        arrived.extend(rest);
        let mut times: BTreeMap<u16, u16> = BTreeMap::new();
        arrived.iter().for_each(|number| *times.entry(*number).or_default() += 1);
        assert!(times.keys().copied().eq(0..BURST), "{times:?}");
        let copied = times.values().filter(|times| **times == 2).count();
        assert!(
            times.values().all(|times| *times <= 2) && (1..usize::from(BURST)).contains(&copied),
            "{times:?}"
        );
    });
}

fn packets_without_delay_overtake_the_others(by: Mechanism) {
    let pair = Pair::new();
    let datagrams = Datagrams::between(&pair);
    pair.left(|| {
        let mut network = Network::by(by);
        let counts = datagrams.send_burst(&mut network, Impairment { reorder: 0.25, ..HELD });
        // Netem does not tell how many there are, and loses what it holds.
        let known = if by == Mechanism::Emulator { counts.reordered } else { 1 };
        let mut first = datagrams.next(known);
        heal(&mut network);
        let mut held = datagrams.rest();
        if by == Mechanism::Netem {
            first.append(&mut held);
            held = (0..BURST).filter(|number| !first.contains(number)).collect();
        }
        assert!(first.is_sorted() && held.is_sorted(), "{first:?} {held:?}");
        assert!(first.last() > held.first() && !held.is_empty(), "none was overtaken: {first:?} {held:?}");
        assert_eq!(first.len() + held.len(), usize::from(BURST), "{first:?} {held:?}");
    });
}

fn a_rate_makes_packets_wait_for_each_other(by: Mechanism) {
    // 20 packets of 98 bytes at 64 kbit/s take 245 ms, from the first to the end of the last.
    let (echoes, _, took) = impaired(by, Impairment { rate_kbit: 64, ..NOTHING }, 20);
    assert!(echoes.answered == 20 && took >= Duration::from_millis(230), "{echoes:?} in {took:?}");
}

fn only_the_chosen_destination_is_impaired_and_faults_add_up(by: Mechanism) {
    let pair = Pair::new();
    pair.left(|| {
        let mut network = Network::by(by);
        let elsewhere = "198.18.0.77".parse().unwrap();
        network.set("other", &[elsewhere], HELD).unwrap();
        assert_eq!(probe(5).answered, 5, "no way there is impaired");
        network.set("one", &[RIGHT, elsewhere], HUNDRED_MS).unwrap();
        network.set("two", &[RIGHT], HUNDRED_MS).unwrap();
        assert!(probe(5).least_ms.unwrap() >= 199.0);
        network.set("one", &[RIGHT], HELD).unwrap();
        assert!(is_held());
        network.clear("one").unwrap();
        let two = probe(5);
        assert!(two.answered == 5 && two.least_ms.unwrap() >= 99.0, "{two:?}");
        assert_eq!(network.look().unwrap().faults, ["other", "two"]);
        network.set("two", &[RIGHT], HELD).unwrap();
        assert!(is_held());
        network.clear("two").unwrap();
        assert_eq!(probe(5).answered, 5);
        assert!(!network.is_gone().unwrap(), "one fault is still in force");
    });
    // Dropping the network took the last one away.
    assert!(pair.left(|| Network::by(by).is_gone().unwrap()));
}

fn a_delay_ends_with_the_fault(by: Mechanism) {
    let pair = Pair::new();
    pair.left(|| {
        let mut network = Network::by(by);
        network.set("test", &[RIGHT], HELD).unwrap();
        assert!(is_held());
        heal(&mut network);
    });
}

#[test]
fn a_mechanism_is_chosen_beside_a_fault_that_only_the_emulator_knows() {
    let pair = Pair::new();
    pair.left(|| {
        let mut network = Network::default();
        network.set("copies", &[RIGHT], Impairment { duplicate: 1.0, ..NOTHING }).unwrap();
        network.set("delay", &[RIGHT], HELD).unwrap();
        assert!(is_held());
    });
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
        assert_eq!(probe(10).answered, 10);
    });
}

#[test]
fn what_is_held_goes_on_at_once_when_the_fault_ends() {
    let pair = Pair::new();
    let datagrams = Datagrams::between(&pair);
    pair.left(|| {
        let mut network = emulator();
        let counts = datagrams.send_burst(&mut network, HELD);
        assert_eq!((counts.passed, counts.lost), (u64::from(BURST), 0), "taken in, and not lost");
        network.clear("test").unwrap();
        assert!(datagrams.next(u64::from(BURST)).is_sorted(), "in another order");
    });
}
