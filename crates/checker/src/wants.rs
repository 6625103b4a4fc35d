//! When each key was wanted, when it had a holder, and when it was idle: wanted, and without a holder. It is
//! *wanted* while any acquire of it is under way, however that ends, and between two attempts that follow
//! each other within [`GAP_NS`]: a lock that says no at once is asked again and again. By [`View::Holders`],
//! an acquire counts only for the time that it was given, and one that outlasted that only from so much later
//! on: what held its answer back, such as a virtual machine that compiles, may have held back its question.
//! One that took twice its given time shows nothing; `time-outs` judges that.
//!
//! It is *taken* while a process holds it (as long as it claims it, or its lease runs), or releases it. By
//! [`View::Holders`], for runs without faults, nothing else counts: where an acquire is slow, or failed and
//! left something behind, the key has no holder by the lock's own doing. By [`View::Benefit`], for what
//! follows faults, a key is taken as well from the moment at which an acquire that succeeds may have been
//! granted, and an acquire of unknown outcome may have taken it for a TTL, or for good where there is none.

use crate::run_index::{Operation, RunIndex};
use crate::slowness::is_by_slowness;
use crate::spans::{Span, difference, length_ns, meeting, union};
use fencepost_history::{Kind, f};
use std::collections::BTreeMap;

/// Attempts that follow each other within this time count as one that goes on.
const GAP_NS: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum View {
    #[default]
    Holders,
    Benefit,
}

#[derive(Default)]
pub(crate) struct Wants<'a> {
    pub granted: usize,
    pub failed: Vec<&'a Operation<'a>>,
    view: View,
    wanted: Vec<Span>,
    taken: Vec<Span>,
    /// When an acquire was under way, and may have been granted, that succeeded.
    pending: Vec<Span>,
    /// When an acquire of unknown outcome may have taken it.
    perhaps: Vec<Span>,
}

pub(crate) type WantsByKey<'a> = BTreeMap<&'a str, Wants<'a>>;

/// What happened to each key between two moments: the acquires count that began then, and ended at all.
pub(crate) fn wants<'a>(run: &'a RunIndex<'a>, open: Span, view: View) -> WantsByKey<'a> {
    let mut keys = WantsByKey::new();
    for (acquire, kind, (began_ns, ended_ns)) in acquires(run, open) {
        let key = keys.entry(acquire.key).or_default();
        key.wanted.push(match view {
            View::Holders => asked_for(acquire, (began_ns, ended_ns)),
            View::Benefit => (began_ns, ended_ns),
        });
        match kind {
            Kind::Ok => key.granted += 1,
            _ => key.failed.push(acquire),
        }
    }
    for acquire in run.acquires() {
        let unknown = match view {
            View::Benefit => acquire.completion.is_none_or(|end| end.kind == Kind::Info),
            View::Holders => {
                acquire.completion.is_none()
                    || !acquire.did_not_happen() && acquire.completion.is_some_and(is_by_slowness)
            }
        };
        if let Some(key) = keys.get_mut(acquire.key).filter(|_| unknown && acquire.ok().is_none()) {
            let ended_ns = acquire.completion.map_or(u64::MAX, |end| end.time);
            let free_ns = run.ttl_ns(acquire).map_or(u64::MAX, |ttl_ns| ended_ns.saturating_add(ttl_ns));
            key.perhaps.push((acquire.invoke.time, free_ns));
        }
    }
    for hold in &run.holds {
        if let Some(key) = keys.get_mut(hold.key) {
            key.pending.push((hold.granted.earliest.ns, hold.from_ns));
            key.taken.push((hold.from_ns, hold.end_latest_ns()));
        }
    }
    for release in run.calls(f::RELEASE) {
        let ended_ns = release.completion.map_or(u64::MAX, |end| end.time);
        if let Some(key) = keys.get_mut(release.key) {
            key.taken.push((release.invoke.time, ended_ns));
        }
    }
    for key in keys.values_mut() {
        key.wanted = bridged(union(std::mem::take(&mut key.wanted)));
        key.taken = union(std::mem::take(&mut key.taken));
        key.pending = union(std::mem::take(&mut key.pending));
        key.perhaps = union(std::mem::take(&mut key.perhaps));
        key.view = view;
    }
    keys
}

/// The acquires that began within a span and ended, with the moments between which they were under way.
pub(crate) fn acquires<'a>(
    run: &'a RunIndex<'a>,
    open: Span,
) -> impl Iterator<Item = (&'a Operation<'a>, Kind, Span)> {
    run.acquires().filter_map(move |acquire| {
        let (began_ns, end) = (acquire.invoke.time, acquire.completion?);
        (open.0..open.1).contains(&began_ns).then_some((acquire, end.kind, (began_ns, end.time)))
    })
}

/// When an acquire certainly asked for the key, as far as the time goes that it was given.
fn asked_for(acquire: &Operation, (began_ns, ended_ns): Span) -> Span {
    let Some(given_ns) = acquire.timeout_ns() else { return (began_ns, ended_ns) };
    let due_ns = began_ns.saturating_add(given_ns);
    (began_ns.saturating_add(ended_ns.saturating_sub(due_ns)), ended_ns.min(due_ns))
}

fn bridged(spans: Vec<Span>) -> Vec<Span> {
    let mut bridged: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match bridged.last_mut() {
            Some(last) if span.0 <= last.1.saturating_add(GAP_NS) => last.1 = last.1.max(span.1),
            _ => bridged.push(span),
        }
    }
    bridged
}

impl Wants<'_> {
    /// The stretches in which it certainly had no holder, and was wanted.
    pub fn idle(&self, within: Span) -> Vec<Span> {
        let pending = if self.view == View::Holders { &[][..] } else { &self.pending };
        let taken = [&self.taken[..], pending, &self.perhaps].map(|spans| meeting(spans, within));
        difference(meeting(&self.wanted, within), &union(taken.concat()), within)
    }

    /// The stretches in which it was wanted, without these.
    pub fn without(&self, taken: &[Span], within: Span) -> Vec<Span> {
        difference(&self.wanted, taken, within)
    }

    /// How long failed acquires were under way: while no process held it, and while certainly none did.
    pub fn in_vain_ns(&self, within: Span) -> (u64, u64) {
        let span = |acquire: &&Operation| {
            (acquire.invoke.time, acquire.completion.map_or(acquire.invoke.time, |end| end.time))
        };
        let failed = || self.failed.iter();
        let length = |failed: Vec<Span>, without: &[Span]| {
            let without = union([&self.taken[..], &self.pending, without].concat());
            length_ns(&difference(&union(failed), &without, within))
        };
        let asked = failed().map(|acquire| asked_for(acquire, span(acquire))).collect();
        (length(failed().map(span).collect(), &[]), length(asked, &self.perhaps))
    }

    /// The attempts that failed and were under way at some moment of a span.
    pub fn failed_within(&self, span: Span) -> Vec<&Operation<'_>> {
        let meets = |acquire: &&&Operation| {
            acquire.invoke.time < span.1 && acquire.completion.is_some_and(|end| end.time > span.0)
        };
        self.failed.iter().filter(meets).copied().collect()
    }
}

pub(crate) fn length_of(span: Span) -> u64 {
    span.1 - span.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::events;

    #[test]
    fn an_attempt_is_within_a_span_only_if_it_shares_a_moment_with_it() {
        let events = events("10 1 invoke acquire a {ttl_ms:200}\n 20 1 fail acquire a null taken");
        let run = RunIndex::new(&events).unwrap();
        let wants = Wants { failed: run.acquires().collect(), ..Wants::default() };
        let within = |from_ms: u64, until_ms: u64| {
            wants.failed_within((from_ms * 1_000_000, until_ms * 1_000_000)).len()
        };
        assert_eq!(
            [(0, 10), (0, 11), (19, 30), (20, 30)].map(|(from, until)| within(from, until)),
            [0, 1, 1, 0]
        );
    }
}
