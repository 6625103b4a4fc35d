//! What to try next, and what was learned: the part of a hunt that needs no server. Schedules are drawn anew
//! for a share of the time, in turns among all nemeses, and else made by changing one that taught something.
//! A schedule is kept if it covered a new situation, or came nearer to a violation in one.

mod archive;
mod held;
#[cfg(test)]
mod model;
mod moments;
mod mutation;
mod opening;
mod peace;
mod schedule_coverage;
mod space;
mod ttl;

use crate::AnyNemesis;
pub use archive::{ScheduleArchive, ScheduleOutcome, SituationRecord, Use};
pub use mutation::ScheduleChange;
pub use schedule_coverage::{ScheduleCoverage, ShownViolation, SituationName};
pub use space::{DrawnOptions, FAULTS_MAX, Space};
pub use ttl::{ACQUIRE_TTLS, LIMIT_TTLS, with_ttl};

use crate::schedule::Schedule;
use fencepost_history::{Seed, Stream};
use fencepost_nemesis::WhichAim;
use opening::Opening;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

/// Of ten schedules, so many are drawn anew even when others wait to be changed.
const FRESH_OF_TEN: u32 = 3;

/// The share of the hunt that each schedule without faults may last.
const PEACE_SHARE: u32 = 4;

/// How many schedules lie between them, so that some with faults go on beside each.
const PEACE_APART: usize = 4;

/// A schedule to try.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub number: u64,
    pub schedule: Schedule,
    pub origin: Origin,
}

/// Where a schedule comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Without any fault, to see whether all processes get the lock, and soon.
    Peace,
    /// Drawn anew, with a fault of this nemesis.
    Fresh { nemesis: String },
    /// Made from the schedule of this number.
    Changed { parent: u64, changes: Vec<ScheduleChange> },
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Peace => out.write_str("without any fault"),
            Origin::Fresh { nemesis } => write!(out, "drawn, with {nemesis}"),
            Origin::Changed { parent, changes } => {
                let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
                write!(out, "schedule {parent} with {}", changes.join(" and "))
            }
        }
    }
}

/// A hunt's memory. The draws for a schedule come from a stream of its number, so one that is drawn anew is
/// the same in every hunt of this seed; which one is changed depends on what the others have taught by then.
pub struct Search {
    pub space: Space,
    pub archive: ScheduleArchive,
    seed: Seed,
    next: u64,
    /// From a schedule's number to the next: other parts of a hunt play those between.
    step: u64,
    learns: bool,
    opening: Vec<Opening>,
    peace_most: Duration,
    /// Which of the first schedules each number was.
    places: BTreeMap<u64, usize>,
    /// The first schedules that failed and are tried once more; and all that ever did.
    again: VecDeque<usize>,
    failed: BTreeSet<usize>,
}

impl Search {
    pub fn new(space: Space, seed: Seed) -> Search {
        let opening = space.opening(&mut seed.stream("opening"));
        let opening = opening.into_iter().map(|(nemesis, aim)| Opening::Fault(nemesis, aim));
        let opening = space.held_plays().into_iter().map(Opening::Held).chain(opening).collect();
        Search {
            space,
            archive: ScheduleArchive::default(),
            seed,
            next: 1,
            step: 1,
            learns: true,
            opening,
            peace_most: Duration::ZERO,
            places: BTreeMap::new(),
            again: VecDeque::new(),
            failed: BTreeSet::new(),
        }
    }

    /// The same search, but each schedule is drawn anew: to measure what the feedback is worth.
    pub fn without_feedback(space: Space, seed: Seed) -> Search {
        Search { learns: false, ..Search::new(space, seed) }
    }

    /// Goes on after a hunt that ended early, with its archive, its next number, and the step from there on.
    pub fn resume(&mut self, archive: ScheduleArchive, next: u64, step: u64) {
        (self.archive, self.next, self.step) = (archive, next, step);
    }

    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Begins with schedules without faults, for a hunt of this length. Gives a sentence if it is too short.
    pub fn watch_without_faults(&mut self, budget: Duration) -> Option<String> {
        self.peace_most = budget / PEACE_SHARE;
        let least = self.space.idle_bound();
        if self.peace_most < least {
            return Some(format!(
                "too short to see whether the lock stays free without any fault while it is wanted: that takes --for {} s",
                (least * PEACE_SHARE).as_secs_f64().ceil()
            ));
        }
        for (number, play) in self.space.peace_plays().into_iter().enumerate() {
            let place = (number * PEACE_APART).min(self.opening.len());
            self.opening.insert(place, Opening::Peace(play));
        }
        None
    }

    /// The lock prolongs what it holds: what breaks that comes before all other faults.
    pub fn note_renewals(&mut self) {
        self.space.renews = true;
        let is_peace = |opening: &&Opening| matches!(opening, Opening::Peace(_));
        let place = self.opening.iter().take_while(is_peace).count();
        self.opening.splice(place..place, self.space.renewing_plays().into_iter().map(Opening::Held));
    }

    /// Goes on with other options. What the lock was seen to do stays.
    pub fn change_space(&mut self, space: Space) {
        let renews = self.space.renews;
        self.space = space;
        self.space.renews = renews;
    }

    /// Draws no fault of this nemesis any more.
    pub fn leave_out(&mut self, name: &str) {
        self.space.nemeses.retain(|nemesis| nemesis.name() != name);
    }

    /// One of the first schedules; none where it cannot be drawn, or its nemesis is left out by now.
    fn open(&self, opening: Opening, random: &mut Stream) -> Option<(Schedule, Origin)> {
        let is_left_out =
            |nemesis: AnyNemesis| self.space.nemeses.iter().all(|other| other.name() != nemesis.name());
        match opening {
            Opening::Peace(play) => {
                Some((self.space.without_faults(play, self.peace_most, random), Origin::Peace))
            }
            Opening::Fault(nemesis, _) if is_left_out(nemesis) => None,
            Opening::Held(play) if is_left_out(play.nemesis) => None,
            Opening::Fault(nemesis, aim) => self.drawn_with(nemesis, aim, random),
            Opening::Held(play) => {
                let schedule = (0..8).find_map(|_| self.space.held(play, random))?;
                Some((schedule, Origin::Fresh { nemesis: play.nemesis.name().to_owned() }))
            }
        }
    }

    /// A schedule could not be carried out: one of the first is tried once more.
    pub fn put_back(&mut self, number: u64) {
        let place = self.places.get(&number).copied();
        self.again.extend(place.filter(|&place| self.failed.insert(place)));
    }

    /// The next schedule to try. None where no nemesis has a target.
    pub fn propose(&mut self) -> Option<Proposal> {
        let number = self.next;
        self.next += self.step;
        let mut random = self.seed.stream(&format!("schedule-{number}"));
        // First each nemesis once, so that none waits for its luck.
        let own = usize::try_from(number - 1).ok().filter(|&place| place < self.opening.len());
        let place = match self.again.pop_front() {
            Some(failed) => {
                self.again.extend(own);
                Some(failed)
            }
            None => own,
        };
        self.places.extend(place.map(|place| (number, place)));
        let opening = place.and_then(|place| self.opening.get(place)).copied();
        if let Some((schedule, origin)) = opening.and_then(|opening| self.open(opening, &mut random)) {
            return Some(Proposal { number, schedule, origin });
        }
        let fresh = random.random_ratio(FRESH_OF_TEN, 10) || !self.learns;
        let changed = if fresh { None } else { self.change(&mut random) };
        let (schedule, origin) = changed.or_else(|| self.draw(number, &mut random))?;
        Some(Proposal { number, schedule, origin })
    }

    fn draw(&self, number: u64, random: &mut Stream) -> Option<(Schedule, Origin)> {
        let count = self.space.nemeses.len() as u64;
        let round = number.checked_sub(1)?.checked_div(count)?;
        let mut turns = self.space.nemeses_by_chance(&mut self.seed.stream(&format!("round-{round}")));
        let first = ((number - 1) % count) as usize;
        turns.rotate_left(first);
        turns.into_iter().find_map(|nemesis| self.drawn_with(nemesis, None, random))
    }

    fn drawn_with(
        &self,
        nemesis: AnyNemesis,
        aim: Option<WhichAim>,
        random: &mut Stream,
    ) -> Option<(Schedule, Origin)> {
        let schedule = (0..8).find_map(|_| self.space.fresh(nemesis, aim, random))?;
        Some((schedule, Origin::Fresh { nemesis: nemesis.name().to_owned() }))
    }

    fn change(&self, random: &mut Stream) -> Option<(Schedule, Origin)> {
        let ttl_ms = self.space.ttl().as_secs_f64() * 1e3;
        let (parent, schedule) = self.archive.draw(ttl_ms, random)?;
        let other = self.archive.draw(ttl_ms, random).map(|(_, other)| other);
        let (child, changes) = mutation::mutate(&self.space, schedule, other, random)?;
        Some((child, Origin::Changed { parent, changes }))
    }

    /// Learns what became of a schedule.
    pub fn learn(
        &mut self,
        proposal: &Proposal,
        coverage: &ScheduleCoverage,
        violation: ShownViolation,
    ) -> ScheduleOutcome {
        if let Origin::Changed { parent, .. } = proposal.origin {
            self.archive.note_child(parent, violation == ShownViolation::Known);
        }
        self.archive.learn(proposal.number, &proposal.schedule, coverage, violation != ShownViolation::None)
    }
}
