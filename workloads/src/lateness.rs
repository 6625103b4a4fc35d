//! When the steps of a section are due, and when its process is too late to go on.
//!
//! Steps are due at fixed times of a drawn section, so delays do not add up. A section that must end with its
//! lease is counted from the lease's beginning, as far as its client knows it. Where faults may delay
//! processes anyway, a section is cut only if it would come too near to the end of its lease.
//!
//! A section that ends within 0.8 TTL still passes its lease on a machine that is busy enough: a violation
//! that no fault caused. So a process whose lease is over, but for a tenth of the TTL, abandons its section
//! where only the machine can have made it late: no fault of the run reaches it, or this program, which no
//! fault touches, woke up late. A process that a fault made late goes on, as careless users do.

use crate::length::{Drawn, LONGEST_TTLS, Length};
use crate::workload::Now;
use fencepost_history::{Grant, Millis};
use serde_json::Value;
use std::time::Duration;

/// This share of the TTL before its end a lease counts as over: the time from grant to completion.
const MARGIN: u32 = 10;

/// When the section at hand began, and how its process keeps up with it. All times are those of the process.
#[derive(Default)]
pub(crate) struct Lateness {
    /// When the section began; for a section that is not drawn, its first wait.
    begun: Option<Duration>,
    /// How much shorter it is than drawn, because part of the lease had passed before the grant was known.
    cut: Duration,
    /// The lease's end, and whether no fault delays the process. None if it may outlast it or is not drawn.
    end: Option<(Duration, bool)>,
    for_write: Duration,
    due: Option<Duration>,
    overslept: Duration,
}

impl Lateness {
    /// Of a section that was to last for so long, and whose grant, with this value, is known as of `now`.
    pub(crate) fn of_grant(length: &Length, lasts: Duration, granted: &Value, now: Duration) -> Lateness {
        let Length::Drawn(Drawn { ttl, outlasts, undelayed }) = *length else { return Lateness::default() };
        let validity_ms = Grant::of(granted).validity_ms.map(|Millis(ms)| ms).filter(|ms| ms.is_finite());
        let valid = validity_ms.map_or(ttl, |ms| Duration::from_secs_f64(ms.clamp(0.0, 1e12) / 1e3).min(ttl));
        let used = ttl - valid;
        let cut = match (outlasts, undelayed) {
            (true, _) => Duration::ZERO,
            (false, true) => used,
            (false, false) => (lasts + used).saturating_sub(ttl.mul_f64(LONGEST_TTLS)).min(used),
        };
        let end = (now + valid).saturating_sub(ttl / MARGIN);
        Lateness {
            begun: Some(now),
            cut,
            end: (!outlasts).then_some((end, undelayed)),
            for_write: ttl * (MARGIN - 2) / (2 * MARGIN),
            ..Lateness::default()
        }
    }

    pub(crate) fn woke(&mut self, now: Now) {
        if let Some(due) = self.due.take() {
            self.overslept += now.time.saturating_sub(due);
        }
    }

    /// How long to wait until the section has lasted this long; none if it has, or at the end of the run.
    pub(crate) fn wait_until(&mut self, lasted: Duration, now: Now) -> Option<Duration> {
        let begun = *self.begun.get_or_insert(now.time);
        let due = (begun + lasted).saturating_sub(self.cut);
        if now.closing || due <= now.time {
            return None;
        }
        self.due = Some(due);
        Some(due - now.time)
    }

    /// How late the process is to write, if no fault can have delayed it: half of the TTL is for the write.
    pub(crate) fn write_overdue(&self, now: Duration) -> Option<Duration> {
        let (end, undelayed) = self.end?;
        let latest = end.saturating_sub(self.for_write);
        now.checked_sub(latest).filter(|_| undelayed)
    }

    /// By how much the process is too late to go on, where only the machine can have made it late.
    pub(crate) fn overdue(&self, now: Duration) -> Option<Duration> {
        let (end, undelayed) = self.end?;
        let late = now.checked_sub(end)?;
        let in_time_otherwise = now.saturating_sub(self.overslept) < end;
        (undelayed || in_time_otherwise).then_some(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TTL: Duration = Duration::from_secs(2);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(time: u64) -> Now {
        Now { time: ms(time), closing: false }
    }

    /// Of a section granted after ten seconds.
    fn lateness(outlasts: bool, undelayed: bool, granted: &Value) -> Lateness {
        lateness_of(900, outlasts, undelayed, granted)
    }

    fn lateness_of(lasts_ms: u64, outlasts: bool, undelayed: bool, granted: &Value) -> Lateness {
        let length = Length::Drawn(Drawn { ttl: TTL, outlasts, undelayed });
        Lateness::of_grant(&length, ms(lasts_ms), granted, ms(10_000))
    }

    #[test]
    fn steps_are_due_at_times_of_the_section() {
        let mut late = lateness(false, true, &json!({}));
        assert_eq!(late.wait_until(ms(500), at(10_100)), Some(ms(400)));
        assert_eq!(late.wait_until(ms(500), at(10_500)), None);
        assert_eq!(late.wait_until(ms(900), Now { time: ms(10_500), closing: true }), None);
    }

    #[test]
    fn a_lease_that_was_granted_late_leaves_less_time() {
        let mut late = lateness(false, true, &json!({"validity_ms": 1700}));
        assert_eq!(late.wait_until(ms(500), at(10_000)), Some(ms(200)));
        assert_eq!(late.wait_until(ms(200), at(10_000)), None);
        assert_eq!(late.overdue(ms(11_499)), None);
        assert_eq!(late.overdue(ms(11_530)), Some(ms(30)));
        // A clock that was moved says anything.
        for validity in [json!(-5), json!(1e300)] {
            lateness(false, true, &json!({"validity_ms": validity}));
        }
    }

    #[test]
    fn where_faults_may_delay_it_a_section_is_cut_only_as_far_as_it_must() {
        let due = |lasts_ms: u64| {
            let mut late = lateness_of(lasts_ms, false, false, &json!({"validity_ms": 1700}));
            late.wait_until(ms(lasts_ms), at(10_000))
        };
        // 1.6 s of the lease may be used, 0.3 s had been by the grant.
        assert_eq!(due(170), Some(ms(170)));
        assert_eq!(due(1300), Some(ms(1300)));
        assert_eq!(due(1500), Some(ms(1300)));
    }

    #[test]
    fn where_no_fault_can_delay_it_a_process_that_is_late_abandons_its_section() {
        let late = lateness(false, true, &json!({}));
        assert_eq!(late.overdue(ms(11_799)), None);
        assert_eq!(late.overdue(ms(11_900)), Some(ms(100)));
        assert_eq!(lateness(true, true, &json!({})).overdue(ms(99_000)), None, "its lock is renewed");
    }

    #[test]
    fn a_write_needs_half_of_the_ttl_where_no_fault_can_delay_it() {
        let late = lateness(false, true, &json!({}));
        assert_eq!(late.write_overdue(ms(10_999)), None);
        assert_eq!(late.write_overdue(ms(11_050)), Some(ms(50)));
        assert_eq!(lateness(false, false, &json!({})).write_overdue(ms(11_050)), None);
        assert_eq!(lateness(true, true, &json!({})).write_overdue(ms(11_050)), None);
    }

    #[test]
    fn a_process_that_a_fault_made_late_goes_on() {
        let mut late = lateness(false, false, &json!({}));
        assert_eq!(late.overdue(ms(15_000)), None);
        assert!(late.wait_until(ms(1500), at(10_000)).is_some());
        late.woke(at(11_900));
        // The wait ended 400 ms too late; without that it would be 11.5 s.
        assert_eq!(late.overdue(ms(11_900)), Some(ms(100)));
        assert_eq!(late.overdue(ms(12_300)), None, "an operation took long, too");
    }

    #[test]
    fn a_fixed_section_is_counted_from_its_first_wait_and_never_abandoned() {
        let mut late = Lateness::of_grant(&Length::Fixed(TTL), TTL, &json!({"validity_ms": 100}), ms(10_000));
        assert_eq!(late.wait_until(ms(500), at(10_300)), Some(ms(500)));
        late.woke(at(19_000));
        assert_eq!(late.overdue(ms(19_000)), None);
    }
}
