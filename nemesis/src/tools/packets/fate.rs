//! What becomes of each packet of a link: pure arithmetic, the same as netem's.

use super::impairment::{Distribution, Impairment};
use super::segment::Ports;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Bytes that netem counts on top of an IP packet when it limits the rate.
const ETHERNET: u64 = 14;

/// netem's tables reach no further than this many σ.
const FARTHEST: f64 = 4.0;

#[derive(Debug)]
pub(super) struct Link {
    pub impairment: Impairment,
    pub counts: Counts,
    lost_last: bool,
    /// Packets with data so far, by connection.
    with_data: HashMap<Ports, u64>,
    /// When something last went over each connection, and whether it is forgotten.
    connections: HashMap<Ports, (Instant, bool)>,
    /// Since when connections are forgotten: those of before count as used then.
    forgets_since: Instant,
    /// When the last packet of the link falls due, for the rate.
    last_due_ns: u64,
}

/// What happened to the packets of a link since it was first impaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Packets that went on, sooner or later; copies are not counted.
    pub passed: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub reset: u64,
}

impl Counts {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Counts) -> Counts {
        Counts {
            passed: self.passed + other.passed,
            lost: self.lost + other.lost,
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
            reset: self.reset + other.reset,
        }
    }
}

/// When a packet and its copy go on; none: never. Whether its connection is reset just before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub due_ns: Option<u64>,
    pub copy_due_ns: Option<u64>,
    pub reset: bool,
}

impl Link {
    pub fn new(impairment: Impairment) -> Link {
        Link {
            impairment,
            counts: Counts::default(),
            lost_last: false,
            with_data: HashMap::new(),
            connections: HashMap::new(),
            forgets_since: Instant::now(),
            last_due_ns: 0,
        }
    }

    /// Impairs it in another way from now on.
    pub fn set(&mut self, impairment: Impairment) {
        if self.impairment.idle_ms == 0 {
            (self.forgets_since, self.connections) = (Instant::now(), HashMap::new());
        }
        self.impairment = impairment;
    }

    /// Whether a TCP packet is lost because its connection is forgotten.
    pub fn forgets(&mut self, now: Instant, ports: Ports, opens: bool) -> bool {
        let fresh = (if opens { now } else { self.forgets_since }, false);
        if opens {
            self.connections.insert(ports, fresh);
        }
        let (last, forgotten) = self.connections.entry(ports).or_insert(fresh);
        *forgotten |= now.saturating_duration_since(*last) >= Duration::from_millis(self.impairment.idle_ms);
        *last = now;
        self.counts.lost += u64::from(*forgotten);
        *forgotten
    }

    /// Decides about a TCP packet with data: it passes first, or resets its connection; none: as any.
    pub fn fate_of_data(&mut self, now_ns: u64, ports: Ports, random: &mut impl RngExt) -> Option<Fate> {
        let number = self.with_data.entry(ports).or_default();
        *number += 1;
        let passes_first = *number <= self.impairment.pass_first;
        let reset = !passes_first && self.impairment.reset > 0.0 && random.random_bool(self.impairment.reset);
        if !passes_first && !reset {
            return None;
        }
        self.counts.passed += 1;
        self.counts.reset += u64::from(reset);
        Some(Fate { due_ns: Some(now_ns), copy_due_ns: None, reset })
    }

    /// Decides about an IP packet of `bytes` bytes that leaves at `now_ns`.
    pub fn fate(&mut self, now_ns: u64, bytes: usize, random: &mut impl RngExt) -> Fate {
        let copied = self.impairment.duplicate > 0.0 && random.random_bool(self.impairment.duplicate);
        let mut fate = Fate::default();
        if self.loses(random) {
            self.counts.lost += 1;
        } else {
            self.counts.passed += 1;
            fate.due_ns = Some(self.due(now_ns, bytes, random));
        }
        if copied {
            self.counts.duplicated += 1;
            fate.copy_due_ns = Some(self.due(now_ns, bytes, random));
        }
        fate
    }

    fn loses(&mut self, random: &mut impl RngExt) -> bool {
        self.lost_last = self.impairment.loss > 0.0
            && random.random_bool(self.impairment.loss_after(self.lost_last).min(1.0));
        self.lost_last
    }

    fn due(&mut self, now_ns: u64, bytes: usize, random: &mut impl RngExt) -> u64 {
        let Impairment { reorder, rate_kbit, .. } = self.impairment;
        if reorder > 0.0 && random.random_bool(reorder) {
            self.counts.reordered += 1;
            return now_ns;
        }
        let arrives_ns = now_ns + self.delay_ns(random);
        if rate_kbit == 0 {
            return arrives_ns;
        }
        // A packet can begin only when the one before is through.
        let takes_ns = (bytes as u64 + ETHERNET) * 8 * 1_000_000 / rate_kbit;
        self.last_due_ns = arrives_ns.max(self.last_due_ns) + takes_ns;
        self.last_due_ns
    }

    fn delay_ns(&self, random: &mut impl RngExt) -> u64 {
        let Impairment { delay_ms, jitter_ms, distribution, .. } = self.impairment;
        let spread = if jitter_ms == 0.0 { 0.0 } else { deviation(distribution, random) };
        ((delay_ms + jitter_ms * spread).max(0.0) * 1e6) as u64
    }
}

/// How far from the mean, in units of the jitter.
fn deviation(distribution: Distribution, random: &mut impl RngExt) -> f64 {
    match distribution {
        Distribution::Uniform => random.random_range(-1.0..=1.0),
        Distribution::Normal => {
            // Box and Muller; 1 − u is never 0, so that the logarithm is finite.
            let (radius, angle) = (1.0 - random.random::<f64>(), random.random::<f64>());
            let normal = (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos();
            normal.clamp(-FARTHEST, FARTHEST)
        }
        // As iproute2's table: a Pareto distribution of shape 3, its mean of 1.5 moved to 0, times 4/3.
        Distribution::Pareto => {
            let heavy = (1.0 - random.random::<f64>()).powf(-1.0 / 3.0);
            ((heavy - 1.5) * 4.0 / 3.0).min(FARTHEST)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    const PACKETS: usize = 200_000;

    #[test]
    fn a_connection_is_forgotten_once_it_was_idle_and_another_one_is_not() {
        let mut link = Link::new(Impairment::default());
        link.set(Impairment { idle_ms: 100, ..Impairment::default() });
        let at = |ms: u64| link.forgets_since + Duration::from_millis(ms);
        let times = [50, 120, 221, 222, 230, 231, 320].map(at);
        let old = [1, 2, 3, 4];
        assert!(!link.forgets(times[0], old, false) && !link.forgets(times[1], old, false));
        assert!(link.forgets(times[2], old, false), "it was idle for 101 ms");
        assert!(link.forgets(times[3], old, false), "and stays forgotten");
        assert!(!link.forgets(times[4], [4, 3, 2, 1], true) && !link.forgets(times[6], [4, 3, 2, 1], false));
        assert!(!link.forgets(times[5], old, true), "the port is used anew");
        assert!(link.forgets(times[5], [9, 9, 9, 9], false), "one of before the fault");
        assert_eq!(link.counts.lost, 3);
    }

    fn fates(impairment: Impairment) -> (Vec<Fate>, Counts) {
        let (mut link, mut random) = (Link::new(impairment), SmallRng::seed_from_u64(1));
        let fates = (0..PACKETS).map(|_| link.fate(0, 1000, &mut random)).collect();
        (fates, link.counts)
    }

    fn mean_and_deviation(delays_ms: &[f64]) -> (f64, f64) {
        let count = delays_ms.len() as f64;
        let mean = delays_ms.iter().sum::<f64>() / count;
        let variance = delays_ms.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / count;
        (mean, variance.sqrt())
    }

    #[test]
    fn delays_have_the_mean_and_the_spread_of_netem() {
        for (distribution, deviation) in
            // The Pareto table is cut off at four σ, which takes some of its weight.
            [(Distribution::Uniform, 5.77), (Distribution::Normal, 10.0), (Distribution::Pareto, 7.9)]
        {
            let impairment =
                Impairment { delay_ms: 100.0, jitter_ms: 10.0, distribution, ..Impairment::default() };
            let delays_ms: Vec<f64> =
                fates(impairment).0.iter().map(|fate| fate.due_ns.unwrap() as f64 / 1e6).collect();
            let (mean, seen) = mean_and_deviation(&delays_ms);
            assert!((mean - 100.0).abs() < 0.5, "{distribution:?}: mean {mean}");
            assert!((seen - deviation).abs() < 0.5, "{distribution:?}: deviation {seen}");
            assert!(delays_ms.iter().all(|delay| *delay <= 140.0));
        }
    }

    #[test]
    fn jitter_makes_some_packets_sooner_than_the_delay_and_lets_them_overtake() {
        let spread = Impairment {
            delay_ms: 60.0,
            jitter_ms: 20.0,
            distribution: Distribution::Normal,
            ..Impairment::default()
        };
        let (mut link, mut random) = (Link::new(spread), SmallRng::seed_from_u64(1));
        // One leaves each millisecond.
        let left_ns = (0..200).map(|number| number * 1_000_000);
        let due: Vec<(u64, u64)> =
            left_ns.map(|now_ns| (now_ns, link.fate(now_ns, 84, &mut random).due_ns.unwrap())).collect();
        let delays_ms: Vec<u64> = due.iter().map(|(now_ns, due_ns)| (due_ns - now_ns) / 1_000_000).collect();
        assert!(delays_ms.iter().any(|ms| *ms < 40) && delays_ms.iter().any(|ms| *ms > 80), "{delays_ms:?}");
        let mut newest_ns = 0;
        let overtaken = due.iter().filter(|(_, due_ns)| {
            newest_ns = newest_ns.max(*due_ns);
            *due_ns < newest_ns
        });
        assert!(overtaken.count() > 20, "{delays_ms:?}");
    }

    #[test]
    fn losses_have_their_share_and_their_correlation() {
        for correlation in [0.0, 0.6] {
            let impairment = Impairment { loss: 0.2, loss_correlation: correlation, ..Impairment::default() };
            let (fates, counts) = fates(impairment);
            let lost: Vec<f64> =
                fates.iter().map(|fate| f64::from(u8::from(fate.due_ns.is_none()))).collect();
            let (share, deviation) = mean_and_deviation(&lost);
            let covariance = lost.windows(2).map(|pair| (pair[0] - share) * (pair[1] - share)).sum::<f64>()
                / (PACKETS - 1) as f64;
            assert!((share - 0.2).abs() < 0.01, "share {share}");
            assert!((covariance / deviation.powi(2) - correlation).abs() < 0.02, "correlation");
            assert_eq!(counts.lost + counts.passed, PACKETS as u64);
        }
    }

    #[test]
    fn copies_and_overtaking_have_their_shares() {
        let impairment = Impairment { delay_ms: 5.0, duplicate: 0.3, reorder: 0.25, ..Impairment::default() };
        let (fates, counts) = fates(impairment);
        let share = |count: usize| count as f64 / PACKETS as f64;
        assert!((share(fates.iter().filter(|fate| fate.copy_due_ns.is_some()).count()) - 0.3).abs() < 0.01);
        assert!((share(fates.iter().filter(|fate| fate.due_ns == Some(0)).count()) - 0.25).abs() < 0.01);
        assert!(fates.iter().all(|fate| matches!(fate.due_ns, Some(0 | 5_000_000))));
        assert!((counts.duplicated as f64 / PACKETS as f64 - 0.3).abs() < 0.01);
    }

    #[test]
    fn the_first_packets_with_data_pass_and_of_the_others_a_share_resets() {
        let impairment = Impairment { delay_ms: 5.0, pass_first: 2, reset: 0.25, ..Impairment::default() };
        let (mut link, mut random) = (Link::new(impairment), SmallRng::seed_from_u64(1));
        let mut of_data = |_| link.fate_of_data(0, [1; 4], &mut random);
        let passes = Some(Fate { due_ns: Some(0), ..Fate::default() });
        assert_eq!([0, 1].map(&mut of_data), [passes, passes]);
        let resets = (0..PACKETS).filter_map(of_data).filter(|fate| fate.reset).count();
        assert!((resets as f64 / PACKETS as f64 - 0.25).abs() < 0.01 && link.counts.reset == resets as u64);
        assert_eq!(link.fate_of_data(0, [2; 4], &mut random), passes, "each connection has its first ones");
    }

    #[test]
    fn a_rate_lets_one_packet_through_after_the_other() {
        let (mut link, mut random) = (
            Link::new(Impairment { delay_ms: 10.0, rate_kbit: 8, ..Impairment::default() }),
            SmallRng::seed_from_u64(1),
        );
        // 986 + 14 bytes at 8 kbit/s: one second each, after the delay.
        let due: Vec<_> =
            (0..3).map(|_| link.fate(0, 986, &mut random).due_ns.unwrap() / 1_000_000).collect();
        assert_eq!(due, [1010, 2010, 3010]);
        let idle = link.fate(60_000_000_000, 986, &mut random).due_ns.unwrap() / 1_000_000;
        assert_eq!(idle, 61_010, "an idle link saves nothing up");
    }

    #[test]
    fn packets_wait_for_a_rate_no_longer_than_they_have_to() {
        let limited = Impairment { rate_kbit: 64, ..Impairment::default() };
        let (mut link, mut random) = (Link::new(limited), SmallRng::seed_from_u64(1));
        // 98 bytes each on the wire.
        let due: Vec<u64> = (0..20).map(|_| link.fate(0, 84, &mut random).due_ns.unwrap()).collect();
        assert_eq!((due[0], due[19]), (12_250_000, 245_000_000));
    }
}
