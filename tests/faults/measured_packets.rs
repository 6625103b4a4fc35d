//! What the packet tools do in numbers, by the clock of a machine that has time for it: shares, and how long
//! packets take at most. By day `packets.rs` holds that they are late enough, and the unit tests of the
//! emulator hold all numbers on a virtual clock.

use crate::guest;
use crate::networks::{Pair, RIGHT};
use crate::packets::{HUNDRED_MS, NOTHING};
use fencepost_nemesis::tools::packets::{
    Counts, Distribution, Echoes, Impairment, Mechanism, Network, Probe,
};

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
        mod emulated_by_night {
            $(#[test]
            #[ignore = "runs every night, by .ci/nightly"]
            fn $name() { super::$name(super::Mechanism::Emulator) })*
        }

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
    faults_add_up_and_touch_no_other_destination
}

#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn netem_does_the_same_by_night() {
    let pair = Pair::new();
    match pair.left(Network::offers) {
        Ok(Mechanism::Netem) => with_netem(),
        _ => guest::boot("measured_packets::netem_in_the_guest"),
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
    assert!(tries.iter().any(|echoes| echoes.most_ms.unwrap() >= 230.0), "{tries:?}");
    assert!(tries.iter().any(|echoes| echoes.most_ms.unwrap() < 350.0), "{tries:?}");
    assert!(tries.iter().any(|echoes| echoes.least_ms.unwrap() < 40.0), "{tries:?}");
}

fn faults_add_up_and_touch_no_other_destination(by: Mechanism) {
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
