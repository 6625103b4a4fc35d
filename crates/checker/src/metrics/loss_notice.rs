//! How long after a lock was gone its holder learned of it: by a notice `lost` of its library, or by the
//! first answer to `holds` that says no.
//!
//! Gone means that the service had certainly given it up: its lease was over even if counted from the
//! latest moment, or the next process had certainly got the lock. A holder that learned earlier counts as
//! 0. One that began to release a lock that was gone never learned of it.

use super::{Metric, quantile};
use crate::run_index::{Hold, RunIndex};
use crate::tracker::HoldEnd;
use rustc_hash::FxHashMap;

pub(crate) const MEDIAN: &str = "holders learned of a loss after (median)";
pub const LONGEST: &str = "holders learned of a loss after (longest)";
pub const NEVER: &str = "losses of which the holder never learned";

/// What became of a lock that was gone while its process had not let go of it.
enum Learned {
    After { ns: u64 },
    Never,
}

pub(crate) fn metrics(run: &RunIndex) -> Vec<Metric> {
    let (mut delays_ns, mut never) = (Vec::new(), 0);
    for (at, next) in next_holds(run).into_iter().enumerate() {
        match learned(&run.holds[at], next.map(|next| &run.holds[next])) {
            Some(Learned::After { ns }) => delays_ns.push(ns),
            Some(Learned::Never) => never += 1,
            None => {}
        }
    }
    delays_ns.sort_unstable();
    let all = delays_ns.len() + never;
    let after = |name, share| {
        let ns = quantile(&delays_ns, share)?;
        Some(Metric::new(name, ns as f64 / 1e6, "ms"))
    };
    let never = (all > 0).then(|| Metric::share(NEVER, never, all));
    [after(MEDIAN, 0.5), after(LONGEST, 1.0), never].into_iter().flatten().collect()
}

/// For each hold the next of its key that it left no room for.
fn next_holds(run: &RunIndex) -> Vec<Option<usize>> {
    let mut later: FxHashMap<&str, usize> = FxHashMap::default();
    let mut next = vec![None; run.holds.len()];
    for (at, hold) in run.holds.iter().enumerate().rev() {
        next[at] = later.get(hold.key).copied().filter(|&place| run.holds[place].excludes(hold));
        later.insert(hold.key, at);
    }
    next
}

fn learned(hold: &Hold, next: Option<&Hold>) -> Option<Learned> {
    let lease_over = hold.lease_at(u64::MAX).map(|lease| lease.latest.ns);
    let taken = next.filter(|next| next.came_after(hold)).map(|next| next.granted.latest.ns);
    let gone_ns = lease_over.into_iter().chain(taken).min()?;
    match hold.ends.how {
        HoldEnd::Lost => Some(Learned::After { ns: hold.ends.let_go_ns.saturating_sub(gone_ns) }),
        HoldEnd::Released if hold.ends.let_go_ns > gone_ns => Some(Learned::Never),
        // It let go in time, or what it knew is not known.
        HoldEnd::Released | HoldEnd::Reacquired | HoldEnd::Open => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::events;

    fn shown(text: &str) -> Vec<String> {
        let metrics = metrics(&RunIndex::new(&events(text)).unwrap());
        metrics.iter().map(|metric| metric.to_string().split(" (95").next().unwrap().to_owned()).collect()
    }

    /// A lease of 2 s, whose latest end is at 2.010 s.
    const GRANT: &str = "0 1 invoke acquire a {ttl_ms:2000}\n10 1 ok acquire a\n";

    #[test]
    fn a_notice_after_the_lease_counts_from_its_latest_end() {
        let shown = shown(&format!("{GRANT}2510 1 info lost a"));
        assert_eq!(
            shown,
            [format!("{MEDIAN} 500.0 ms"), format!("{LONGEST} 500.0 ms"), format!("{NEVER} 0.0 %")]
        );
    }

    #[test]
    fn a_notice_in_time_counts_as_none() {
        assert_eq!(shown(&format!("{GRANT}1500 1 info lost a"))[0], format!("{MEDIAN} 0.0 ms"));
    }

    #[test]
    fn the_next_grant_shows_that_the_lock_is_gone() {
        let taken = "500 2 invoke acquire a {ttl_ms:2000}\n510 2 ok acquire a\n900 1 info lost a";
        // It may have been gone a moment before: what is certain is the answer.
        assert_eq!(shown(&format!("{GRANT}{taken}"))[0], format!("{MEDIAN} 390.0 ms"));
    }

    #[test]
    fn who_releases_a_lock_that_is_gone_never_learned_of_it() {
        let release = |at: u64| format!("{GRANT}{at} 1 invoke release a\n{} 1 ok release a", at + 5);
        assert_eq!(shown(&release(2500)), [format!("{NEVER} 100.0 %")]);
        assert_eq!(shown(&release(1500)), Vec::<String>::new());
    }

    #[test]
    fn of_a_lock_that_was_not_lost_nothing_is_said() {
        assert_eq!(shown(GRANT), Vec::<String>::new());
    }
}
