//! How each process fared: its grants, how long it tried, and what others got meanwhile.

use crate::prose::{lock, seconds};
use crate::run_index::{Operation, RunIndex};
use crate::slowness::are_by_slowness;
use crate::spans::Span;
use crate::verdict::Finding;
use crate::wants::acquires;
use fencepost_history::Kind;
use rustc_hash::FxHashMap;

/// So many grants for each process that tries leave one out by chance only in one of 20,000 cases: (1 -
/// 1/n)^(10 n) is below e^-10.
pub(super) const GRANTS_A_PROCESS: usize = 10;

/// How all processes fared. A process that goes on under another number after an indeterminate operation
/// counts as the same one.
pub(super) struct Waits<'a> {
    pub of_slots: FxHashMap<u64, Wait>,
    /// The most grants of a key in a row to one process, while others tried.
    pub in_a_row: usize,
    /// Of each key, the longest time without a grant that is beyond the bound, and by no chance.
    pub streaks: Vec<Streak<'a>>,
}

/// How a process fared.
#[derive(Default)]
pub(super) struct Wait {
    granted: usize,
    /// Spent in acquires, all together.
    tried_ns: u64,
    longest_ns: u64,
}

/// How long a process got nothing, and what others got.
pub(super) struct Streak<'a> {
    process: u64,
    key: &'a str,
    tried_ns: u64,
    others: usize,
    failed: Vec<&'a Operation<'a>>,
}

/// What is known of a process and a key since its last grant.
#[derive(Default)]
struct Since<'a> {
    tried_ns: u64,
    grants_then: usize,
    failed: Vec<&'a Operation<'a>>,
}

impl<'a> Waits<'a> {
    /// Of the acquires within a span. Without a grant for longer than the bound a process may be starved.
    pub fn of(run: &'a RunIndex<'a>, open: Span, bound_ns: u64) -> Waits<'a> {
        let mut ended: Vec<_> = acquires(run, open).collect();
        ended.sort_by_key(|(acquire, ..)| acquire.completion.map(|end| end.index));
        let mut waits = Waits { of_slots: FxHashMap::default(), in_a_row: 0, streaks: Vec::new() };
        let mut since: FxHashMap<(u64, &str), Since> = FxHashMap::default();
        let mut granted: FxHashMap<&str, usize> = FxHashMap::default();
        let mut last: FxHashMap<&str, (u64, usize)> = FxHashMap::default();
        for (acquire, kind, (began_ns, ended_ns)) in ended {
            let slot = run.nodes.slot_of(acquire.process);
            let wait = waits.of_slots.entry(slot).or_default();
            let own = since.entry((slot, acquire.key)).or_default();
            own.tried_ns += ended_ns - began_ns;
            wait.tried_ns += ended_ns - began_ns;
            if kind != Kind::Ok {
                own.failed.push(acquire);
                continue;
            }
            let all = granted.entry(acquire.key).or_default();
            waits.streaks.extend(streak(slot, acquire.key, own, *all));
            *all += 1;
            wait.granted += 1;
            wait.longest_ns = wait.longest_ns.max(own.tried_ns);
            *own = Since { grants_then: *all, ..Since::default() };
            let row = last.entry(acquire.key).or_default();
            *row = if row.0 == slot { (slot, row.1 + 1) } else { (slot, 1) };
            waits.in_a_row = waits.in_a_row.max(row.1);
        }
        let mut open: Vec<((u64, &str), Since)> = since.into_iter().collect();
        open.sort_by_key(|(of, _)| *of);
        waits.streaks.extend(open.iter().filter_map(|((slot, key), own)| {
            streak(*slot, key, own, granted.get(key).copied().unwrap_or(0))
        }));
        waits.keep_those_that_prove(run, bound_ns);
        waits
    }

    /// Leaves of each key the longest streak that neither chance nor a slow machine explains. Those who share
    /// a lock pass one who does not.
    fn keep_those_that_prove(&mut self, run: &RunIndex, bound_ns: u64) {
        let processes = self.of_slots.len();
        let is_shared = run.holds.iter().any(|hold| hold.claim.excludes_any() && !hold.claim.is_alone());
        self.streaks.retain(|streak| {
            let by_chance = streak.others < GRANTS_A_PROCESS * processes;
            !is_shared && !by_chance && streak.tried_ns >= bound_ns && !are_by_slowness(&streak.failed)
        });
        self.streaks.sort_by_key(|streak| (streak.key, std::cmp::Reverse(streak.tried_ns)));
        self.streaks.dedup_by_key(|streak| streak.key);
    }

    pub fn longest_ns(&self) -> u64 {
        self.of_slots.values().map(|wait| wait.longest_ns).max().unwrap_or(0)
    }

    /// How many processes tried for longer than the bound and got nothing.
    pub fn starved(&self, bound_ns: u64) -> usize {
        self.of_slots.values().filter(|wait| wait.granted == 0 && wait.tried_ns >= bound_ns).count()
    }

    /// In words: who got the lock, and who did not.
    pub fn figures(&self, bound_ns: u64) -> String {
        let (all, got) =
            (self.of_slots.len(), self.of_slots.values().filter(|wait| wait.granted > 0).count());
        let starved = match self.starved(bound_ns) {
            0 => String::new(),
            count => format!("; {count} tried for more than {} and never got it", seconds(bound_ns)),
        };
        format!(
            "{got} of {all} processes got the lock, after at most {}{starved}",
            seconds(self.longest_ns())
        )
    }
}

fn streak<'a>(process: u64, key: &'a str, own: &Since<'a>, all: usize) -> Option<Streak<'a>> {
    let (tried_ns, others) = (own.tried_ns, all - own.grants_then);
    (others >= GRANTS_A_PROCESS).then(|| Streak {
        process,
        key,
        tried_ns,
        others,
        failed: own.failed.clone(),
    })
}

impl Streak<'_> {
    pub fn finding(&self) -> Finding {
        let ended = || self.failed.iter().filter_map(|acquire| acquire.completion);
        Finding {
            class: "starved".to_owned(),
            key: self.key.to_owned(),
            time: ended().next_back().map_or(0, |end| end.time),
            events: ended().take(10).map(|end| end.index).collect(),
            sentence: format!(
                "without any fault, process {} spent {} in attempts to acquire {} and did not get it, while others got it {} times",
                self.process,
                seconds(self.tried_ns),
                lock(self.key),
                self.others,
            ),
            ..Finding::default()
        }
    }
}
