//! How long critical sections last, when they write, and how long processes rest between them. Users'
//! sections differ: most are short, and some end just before the lease does. A fault meets a holder that will
//! still write only in a long section. So lengths are drawn, unless one is given.

use fencepost_history::{AcquireArguments, Millis, Stream};
use rand::RngExt;
use serde_json::Value;
use std::time::Duration;

/// The shares of sections that are long, and longer than the TTL where they may be. The others are short.
const LONG: f64 = 0.25;
const OUTLASTING: f64 = 0.125;

/// Lengths of sections in TTLs. A long one leaves a fifth of the TTL for delays of a machine without faults.
const SHORT_TTLS: (f64, f64) = (0.01, 0.09);
const LONG_TTLS: (f64, f64) = (0.5, LONGEST_TTLS);
pub(crate) const LONGEST_TTLS: f64 = 0.8;
const OUTLASTING_TTLS: (f64, f64) = (1.1, 1.6);

/// Undelayed processes write by then: a write past the lease would be a violation without a fault.
const UNDELAYED_WRITE_TTLS: f64 = 0.4;

/// The share of sections that do something else before they read: a late write of another process that
/// arrives before their read is seen by it, and one that arrives between read and write is lost.
const LATE_READ: f64 = 0.3;

/// The share of acquires with a longer time-out, and how many times as long: a fault meets them in the queue.
const PATIENT: f64 = 0.3;
const PATIENT_TIME_LIMITS: u32 = 4;

const NO_REST: f64 = 0.25;
const REST_MAX: f64 = 6.0;

/// How the lengths of critical sections are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    Fixed(Duration),
    /// Each takes any time from the first to the second, and writes at its end.
    Between(Duration, Duration),
    Drawn(Drawn),
}

/// What drawn sections depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drawn {
    pub ttl: Duration,
    /// A section may outlast the TTL: the lock is renewed, has no end, or its holder checks before it writes.
    pub outlasts: bool,
    /// No fault of the run can delay a process within its section, so nothing but the machine can.
    pub undelayed: bool,
}

/// One critical section, as it was drawn before its acquire.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SectionPlan {
    pub(crate) length: Duration,
    pub(crate) read_at: Duration,
    pub(crate) write_at: Duration,
    pub(crate) acquire_time_limits: u32,
}

impl SectionPlan {
    /// What the history says of it, beside the arguments of the section's acquire.
    pub(crate) fn note(&self, writes: bool) -> Value {
        let ms = |time: Duration| Millis(time.as_millis() as f64);
        let note = AcquireArguments {
            hold_ms: Some(ms(self.length)),
            write_at_ms: writes.then(|| ms(self.write_at)),
            read_at_ms: (writes && !self.read_at.is_zero()).then(|| ms(self.read_at)),
            ..AcquireArguments::default()
        };
        note.into()
    }
}

impl Length {
    #[must_use]
    pub fn mean(&self) -> Duration {
        let middle = |(from, to): (f64, f64)| f64::midpoint(from, to);
        match self {
            Length::Fixed(length) => *length,
            Length::Between(shortest, longest) => (*shortest + *longest) / 2,
            Length::Drawn(drawn) => {
                let outlasting = if drawn.outlasts { OUTLASTING } else { 0.0 };
                let short = 1.0 - LONG - outlasting;
                let ttls = short * middle(SHORT_TTLS)
                    + LONG * middle(LONG_TTLS)
                    + outlasting * middle(OUTLASTING_TTLS);
                drawn.ttl.mul_f64(ttls)
            }
        }
    }

    pub(crate) fn plan(&self, random: &mut Stream) -> SectionPlan {
        let simple = |length| SectionPlan {
            length,
            read_at: Duration::ZERO,
            write_at: length,
            acquire_time_limits: 1,
        };
        match *self {
            Length::Fixed(length) => simple(length),
            Length::Between(shortest, longest) => {
                let more = longest.saturating_sub(shortest);
                simple(shortest + more.mul_f64(random.random_range(0.0..=1.0)))
            }
            Length::Drawn(drawn) => {
                let kind = random.random_range(0.0..1.0);
                let (from, to) = match kind {
                    _ if kind < LONG => LONG_TTLS,
                    _ if drawn.outlasts && kind < LONG + OUTLASTING => OUTLASTING_TTLS,
                    _ => SHORT_TTLS,
                };
                let length = drawn.ttl.mul_f64(random.random_range(from..=to));
                let latest = match drawn.undelayed && !drawn.outlasts {
                    true => length.min(drawn.ttl.mul_f64(UNDELAYED_WRITE_TTLS)),
                    false => length,
                };
                let write_at = latest.mul_f64(random.random_range(0.0..=1.0));
                let read_at = match random.random_bool(LATE_READ) {
                    true => write_at.mul_f64(random.random_range(0.0..=1.0)),
                    false => Duration::ZERO,
                };
                let acquire_time_limits = if random.random_bool(PATIENT) { PATIENT_TIME_LIMITS } else { 1 };
                SectionPlan { length, read_at, write_at, acquire_time_limits }
            }
        }
    }

    /// A drawn rest goes from none to long, others up to twice the mean, so that processes are not in step.
    pub(crate) fn rest(&self, mean: Duration, random: &mut Stream) -> Duration {
        if mean.is_zero() {
            return Duration::ZERO;
        }
        match self {
            Length::Drawn(_) if random.random_bool(NO_REST) => Duration::ZERO,
            Length::Drawn(_) => {
                let means = -(1.0 - random.random_range(0.0..1.0_f64)).ln() / (1.0 - NO_REST);
                mean.mul_f64(means.min(REST_MAX))
            }
            Length::Fixed(_) | Length::Between(..) => mean.mul_f64(random.random_range(0.0..=2.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_history::Seed;
    use serde_json::json;

    const TTL: Duration = Duration::from_secs(2);
    const MANY: u32 = 4000;

    fn drawn(outlasts: bool) -> Length {
        Length::Drawn(Drawn { ttl: TTL, outlasts, undelayed: false })
    }

    fn plans(length: Length) -> Vec<SectionPlan> {
        let mut random = Seed(1).stream("process-7");
        (0..MANY).map(|_| length.plan(&mut random)).collect()
    }

    /// The share of the sections whose length lies between these, in TTLs.
    fn share(plans: &[SectionPlan], from: f64, to: f64) -> f64 {
        let within = |plan: &&SectionPlan| (TTL.mul_f64(from)..=TTL.mul_f64(to)).contains(&plan.length);
        plans.iter().filter(within).count() as f64 / plans.len() as f64
    }

    #[test]
    fn most_sections_are_short_and_some_end_just_before_the_lease() {
        let plans = plans(drawn(false));
        assert!((0.72..0.78).contains(&share(&plans, 0.0, 0.09)));
        assert!((0.22..0.28).contains(&share(&plans, 0.5, 0.8)));
        assert!(plans.iter().all(|plan| plan.length <= TTL.mul_f64(0.8)), "none outlasts a lease that ends");
    }

    #[test]
    fn sections_outlast_the_ttl_only_where_they_may() {
        let plans = plans(drawn(true));
        assert!((0.10..0.15).contains(&share(&plans, 1.1, 1.6)));
        assert!((0.22..0.28).contains(&share(&plans, 0.5, 0.8)));
    }

    #[test]
    fn a_third_of_the_sections_reads_later_than_at_its_beginning() {
        let plans = plans(drawn(true));
        let late = plans.iter().filter(|plan| !plan.read_at.is_zero()).count();
        assert!((1080..1320).contains(&late), "{late} of {MANY}");
        assert!(plans.iter().all(|plan| plan.read_at <= plan.write_at));
    }

    #[test]
    fn some_acquires_wait_longer_than_others() {
        let plans = plans(drawn(true));
        let patient = plans.iter().filter(|plan| plan.acquire_time_limits == 4).count();
        assert!((1080..1320).contains(&patient), "{patient} of {MANY}");
        assert!(plans.iter().all(|plan| matches!(plan.acquire_time_limits, 1 | 4)));
    }

    #[test]
    fn the_write_is_anywhere_in_its_section() {
        let plans = plans(drawn(true));
        assert!(plans.iter().all(|plan| plan.write_at <= plan.length));
        let early = plans.iter().filter(|plan| plan.write_at < plan.length / 2).count();
        assert!((1800..2200).contains(&early), "{early} of {MANY}");
    }

    #[test]
    fn a_write_that_only_the_machine_can_delay_leaves_most_of_the_lease() {
        let drawn = |outlasts| Length::Drawn(Drawn { ttl: TTL, outlasts, undelayed: true });
        let late = |plan: &SectionPlan| plan.write_at > TTL.mul_f64(0.4);
        assert!(!plans(drawn(false)).iter().any(late));
        assert!(plans(drawn(true)).iter().any(late));
    }

    #[test]
    fn means_are_what_was_drawn() {
        for length in [drawn(false), drawn(true), Length::Between(TTL / 4, TTL), Length::Fixed(TTL)] {
            let mean = plans(length).iter().map(|plan| plan.length).sum::<Duration>() / MANY;
            let difference = mean.abs_diff(length.mean());
            assert!(difference < TTL.mul_f64(0.03), "{length:?}: {mean:?} and {:?}", length.mean());
            let mut random = Seed(2).stream("process-7");
            let rests = (0..MANY).map(|_| length.rest(TTL, &mut random)).sum::<Duration>() / MANY;
            assert!(rests.abs_diff(TTL) < TTL.mul_f64(0.06), "{length:?} rests for {rests:?}");
        }
    }

    #[test]
    fn drawn_rests_go_from_none_to_long() {
        let mut random = Seed(1).stream("process-7");
        let rests: Vec<Duration> = (0..MANY).map(|_| drawn(true).rest(TTL, &mut random)).collect();
        assert!(rests.iter().filter(|rest| rest.is_zero()).count() > MANY as usize / 5);
        assert!(rests.iter().any(|rest| *rest > 4 * TTL));
        assert_eq!(drawn(true).rest(Duration::ZERO, &mut random), Duration::ZERO);
    }

    #[test]
    fn a_note_says_what_is_planned() {
        let ms = Duration::from_millis;
        let plan = SectionPlan {
            length: ms(1300),
            read_at: Duration::ZERO,
            write_at: ms(420),
            acquire_time_limits: 1,
        };
        assert_eq!(plan.note(true), json!({"hold_ms": 1300, "write_at_ms": 420}));
        let late = SectionPlan { read_at: ms(70), ..plan };
        assert_eq!(late.note(true), json!({"hold_ms": 1300, "read_at_ms": 70, "write_at_ms": 420}));
        assert_eq!(plan.note(false), json!({"hold_ms": 1300}));
    }
}
