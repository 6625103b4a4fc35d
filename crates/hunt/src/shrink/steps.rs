//! The steps of shrinking, those that remove most first.

use super::candidates::{
    CHANCES, ended_by, fewer_clients, fewer_servers, names_nodes, numbers, repeated, rounded, set_number,
    triggers, with_clients, with_fault, with_faults, with_servers, with_trigger,
};
use super::peace::{Found, Peace};
use super::round;
use super::size::size_of;
use super::step::{ENDED_EARLY, Step};
use super::trial::{GOAL, Goal, Trial, TrialOutcome};
use crate::schedule::Schedule;
use fencepost_history::TimeSpan;
use fencepost_nemesis::PlannedFault;
use std::ops::Range;

/// The shortest fault phase, in milliseconds: in less, it is luck what a busy machine gets done.
const PHASE_MIN_MS: u64 = 100;

/// How much later than the latest violation of the plays a shorter run ends, and what is added to that.
const MARGIN: (u64, u64) = (125, 300);

const ROUND: usize = 4;

/// The faults and clients of what is small enough where other work waits.
pub(super) const SMALL: (usize, usize) = (3, 3);

const FEW: usize = 3;

/// Faults that are tried alone: those right before the violation.
const ALONE: usize = 4;

pub(super) struct ShrinkSearch<'a, 'b> {
    /// Each smaller than the one before, with what its plays showed and the goal that it reached.
    found: Vec<Found>,
    given_up: Vec<Schedule>,
    peace: Peace,
    goal: Goal,
    pub trial: Trial<'a>,
    hurries: &'a (dyn Fn() -> bool + Sync),
    tell: &'b mut (dyn FnMut(&Step) + Send),
}

impl<'a, 'b> ShrinkSearch<'a, 'b> {
    pub fn new(
        base: Found,
        peace: Peace,
        trial: Trial<'a>,
        hurries: &'a (dyn Fn() -> bool + Sync),
        tell: &'b mut (dyn FnMut(&Step) + Send),
    ) -> ShrinkSearch<'a, 'b> {
        let (goal, found, given_up) = (base.2, vec![base], Vec::new());
        ShrinkSearch { found, given_up, peace, goal, trial, hurries, tell }
    }

    fn best(&self) -> &Schedule {
        &self.found.last().expect("the first is never removed").0
    }

    fn faults(&self) -> &[PlannedFault] {
        &self.best().plan.faults
    }

    fn is_enough(&self) -> bool {
        let best = self.best();
        self.goal == GOAL
            && best.plan.faults.len() <= SMALL.0
            && best.options.clients <= SMALL.1
            && (self.hurries)()
    }

    /// Goes through all steps until none makes it smaller. False if time was up before, or other work waits.
    pub async fn run(&mut self) -> bool {
        loop {
            let before = self.best().clone();
            self.end_at_the_violation().await;
            self.no_fault().await;
            self.all_at_once().await;
            self.end_sooner().await;
            self.fewer_faults().await;
            self.more_often().await;
            if self.is_enough() {
                return false;
            }
            self.fewer_targets().await;
            self.events_for_times().await;
            self.end_sooner().await;
            // The scripts of a scenario name its clients, and do what they do.
            if self.best().script.is_none() {
                self.fewer_clients().await;
                self.fewer_keys().await;
            }
            if self.is_enough() {
                return false;
            }
            self.fewer_servers().await;
            self.smaller_numbers().await;
            self.shorter().await;
            self.round_numbers().await;
            if self.trial.is_over() {
                return false;
            }
            if *self.best() == before {
                return true;
            }
        }
    }

    async fn attempt(&mut self, tried: impl FnOnce() -> String, candidate: Schedule) -> bool {
        let known = candidate == *self.best() || self.given_up.contains(&candidate);
        if known || self.trial.is_over() || candidate.spec().is_err() {
            return false;
        }
        let (mut kept, mut outcome) = self.trial.test(&candidate, self.goal).await;
        if kept && self.goal != GOAL && outcome.rate.violations == outcome.rate.plays {
            // A rare violation that now comes each time may reach the usual goal from here on.
            self.trial.measure(&candidate, &mut outcome, GOAL.plays).await;
            if outcome.rate.violations >= GOAL.needed {
                self.goal = GOAL;
            }
        }
        kept &= outcome.rate.violations > 0;
        if !kept && self.trial.is_over() {
            // Cut short, which says nothing about the candidate.
            outcome.discard();
            return false;
        }
        self.settle(tried(), candidate, kept, outcome);
        kept
    }

    fn settle(&mut self, tried: String, candidate: Schedule, kept: bool, outcome: TrialOutcome) {
        (self.tell)(&Step { tried, kept, rate: outcome.rate });
        if kept {
            self.found.push((candidate, outcome, self.goal));
        } else {
            outcome.discard();
            self.given_up.push(candidate);
        }
    }

    /// Ends the run at its first violation; tried again here, since a rare one may have a lower goal now.
    async fn end_at_the_violation(&mut self) {
        if !ENDED_EARLY.contains(&self.trial.violation.checker.as_str()) || self.best().options.fail_fast {
            return;
        }
        let mut early = self.best().clone();
        early.options.fail_fast = true;
        self.attempt(|| "ended at the first violation".to_owned(), early).await;
    }

    async fn end_sooner(&mut self) {
        let (best, outcome, _) = self.found.last().expect("the first is never removed");
        let Some(latest) = outcome.times_ms.iter().max() else { return };
        let limit = round::two_digits_up(latest * MARGIN.0 / 100 + MARGIN.1);
        if limit < best.options.time_limit.millis() {
            let candidate = ended_by(best, limit);
            let left_out = best.plan.faults.len() - candidate.plan.faults.len();
            let without = match left_out {
                0 => String::new(),
                1 => ", without the fault after that".to_owned(),
                _ => format!(", without the {left_out} faults after that"),
            };
            let length = TimeSpan::from_millis(limit);
            self.attempt(|| format!("a fault phase of {length}{without}"), candidate).await;
        }
    }

    async fn no_fault(&mut self) {
        let (best, outcome, goal) = self.found.last().expect("the first is never removed");
        let now = (best, outcome.rate, *goal);
        if let Some(found) = self.peace.try_again(now, &mut self.trial, self.tell).await {
            self.goal = found.2;
            self.found.push(found);
        }
    }

    /// Few clients with a process each, and one key: most violations need no more, and the runs are shorter.
    async fn all_at_once(&mut self) {
        let options = &self.best().options;
        let (clients, processes) = (options.clients.min(FEW), options.concurrency.min(FEW));
        if self.best().script.is_some() || processes == options.concurrency {
            return;
        }
        let Some(mut candidate) = with_clients(self.best(), clients, processes) else { return };
        (candidate.options.keys, candidate.options.readers) = (1, 0);
        let tried = format!("{clients} clients and {processes} processes, one key, no readers");
        self.attempt(|| tried, candidate).await;
    }

    async fn fewer_faults(&mut self) {
        let all = self.faults().to_vec();
        if all.len() > 1 {
            for fault in all.iter().rev().take(ALONE) {
                let alone = with_faults(self.best(), vec![fault.clone()]);
                if self.attempt(|| format!("only {}", in_words(fault)), alone).await {
                    return;
                }
            }
        }
        self.leave_out_parts().await;
    }

    /// A violation that comes too rarely may come often enough where its fault has several chances.
    async fn more_often(&mut self) {
        if self.goal == GOAL {
            return;
        }
        let Some(candidate) = repeated(self.best()) else { return };
        let goal = std::mem::replace(&mut self.goal, GOAL);
        let tried = || format!("{CHANCES} times its fault, one after the other");
        if !self.attempt(tried, candidate).await {
            self.goal = goal;
        }
    }

    /// Delta debugging (Zeller and Hildebrandt 2002): leaves out halves, then quarters, down to one fault.
    async fn leave_out_parts(&mut self) {
        let mut parts = 2;
        while self.faults().len() > 1 && !self.trial.is_over() {
            let faults = self.faults().to_vec();
            let length = faults.len().div_ceil(parts);
            let mut smaller = false;
            for start in (0..faults.len()).step_by(length) {
                let end = (start + length).min(faults.len());
                let rest: Vec<PlannedFault> = [&faults[..start], &faults[end..]].concat();
                let candidate = with_faults(self.best(), rest);
                let tried = || match end - start {
                    1 => format!("without {}", in_words(&faults[start])),
                    count => format!("without {count} of {} faults", faults.len()),
                };
                if self.attempt(tried, candidate).await {
                    smaller = true;
                    break;
                }
            }
            match (smaller, length) {
                (true, _) => parts = parts.saturating_sub(1).max(2),
                (false, 1) => return,
                (false, _) => parts = (2 * parts).min(faults.len()),
            }
        }
    }

    async fn fewer_targets(&mut self) {
        for number in 0..self.faults().len() {
            self.fewer_of_a_role(number).await;
            let mut place = 0;
            while place < self.faults()[number].on.len() {
                let fault = &self.faults()[number];
                if fault.on.len() == 1 || names_nodes(fault) {
                    break;
                }
                let (name, left_out) = (fault.fault.clone(), fault.on[place].clone());
                let candidate = with_fault(self.best(), number, |fault| {
                    fault.on.remove(place);
                });
                if !self.attempt(|| format!("{name} not on {left_out}"), candidate).await {
                    place += 1;
                }
            }
        }
    }

    /// `granting:2` in place of `granting:3`.
    async fn fewer_of_a_role(&mut self, number: usize) {
        for place in 0..self.faults()[number].on.len() {
            let fault = &self.faults()[number];
            let Some((role, count)) = counted(&fault.on[place]) else { continue };
            let (name, role) = (fault.fault.clone(), role.to_owned());
            for fewer in 1..count {
                let target = format!("{role}:{fewer}");
                let candidate = with_fault(self.best(), number, |fault| fault.on[place].clone_from(&target));
                if self.attempt(|| format!("{name} on {target}"), candidate).await {
                    break;
                }
            }
        }
    }

    async fn events_for_times(&mut self) {
        for number in 0..self.faults().len() {
            for trigger in triggers(self.best(), number) {
                let fault = self.faults()[number].fault.clone();
                let candidate = with_trigger(self.best(), number, &trigger);
                let event = event(&trigger.0);
                if self.attempt(|| format!("{fault} {event} in place of a time"), candidate).await {
                    break;
                }
            }
        }
    }

    async fn fewer_clients(&mut self) {
        for (clients, processes) in fewer_clients(self.best()) {
            let Some(candidate) = with_clients(self.best(), clients, processes) else { continue };
            if self.attempt(|| format!("{clients} clients and {processes} processes"), candidate).await {
                return;
            }
        }
    }

    async fn fewer_keys(&mut self) {
        let mut one = self.best().clone();
        (one.options.keys, one.options.readers) = (1, 0);
        self.attempt(|| "one key, no readers".to_owned(), one).await;
    }

    async fn fewer_servers(&mut self) {
        for servers in fewer_servers(self.best()) {
            let Some(candidate) = with_servers(self.best(), servers) else { continue };
            if self.attempt(|| format!("{servers} servers"), candidate).await {
                return;
            }
        }
    }

    async fn smaller_numbers(&mut self) {
        for number in 0..self.faults().len() {
            for (name, now) in numbers(&self.faults()[number]) {
                let fault = self.faults()[number].fault.clone();
                let set = |schedule: &Schedule, value| {
                    with_fault(schedule, number, |fault| set_number(fault, &name, value))
                };
                self.bisect(0..now, set, |value| format!("{fault} with {name} = {value}")).await;
            }
        }
    }

    async fn shorter(&mut self) {
        let set = |schedule: &Schedule, value| ended_by(schedule, value);
        let now = self.best().options.time_limit.millis();
        let words = |value| format!("a fault phase of {}", TimeSpan::from_millis(value));
        self.bisect(PHASE_MIN_MS..now, set, words).await;
    }

    /// The least round number of this range that reaches the goal, if all greater ones do, too.
    async fn bisect(
        &mut self,
        range: Range<u64>,
        set: impl Fn(&Schedule, u64) -> Schedule,
        words: impl Fn(u64) -> String,
    ) {
        let rounds = round::below(range.end, ROUND);
        let rounds: Vec<u64> = rounds.into_iter().filter(|value| range.contains(value)).collect();
        let (mut low, mut high) = (0, rounds.len());
        while low < high {
            let middle = (low + high) / 2;
            let value = rounds[middle];
            let candidate = set(self.best(), value);
            match self.attempt(|| words(value), candidate).await {
                true => high = middle,
                false => low = middle + 1,
            }
        }
    }

    async fn round_numbers(&mut self) {
        let candidate = rounded(self.best());
        self.attempt(|| "round numbers".to_owned(), candidate).await;
    }

    pub fn discard(self) {
        self.found.into_iter().for_each(|(_, outcome, _)| outcome.discard());
    }

    /// The smallest schedule that reaches the goal when it is played once more, and what these plays showed:
    /// one that reached it by luck gives way to the one before. When the time is up: the latest.
    pub async fn confirmed(&mut self) -> (Schedule, TrialOutcome) {
        loop {
            let (schedule, mut outcome, goal) = self.found.pop().expect("the first is never removed");
            let is_first = self.found.is_empty() && outcome.rate.plays >= goal.needed;
            if self.trial.stop.reason().is_some() || is_first && outcome.example.is_some() {
                return (schedule, outcome);
            }
            let until = self.trial.until.take();
            let mut again = TrialOutcome::default();
            self.trial.measure(&schedule, &mut again, GOAL.plays).await;
            self.trial.until = until;
            let kept = again.rate.violations >= goal.needed || self.found.is_empty();
            let size = size_of(&schedule);
            (self.tell)(&Step { tried: format!("once more ({size})"), kept, rate: again.rate });
            if kept {
                match &again.example {
                    Some(_) => drop(outcome.example.take().map(fencepost_campaign::Played::discard)),
                    None => again.example = outcome.example.take(),
                }
                return (schedule, again);
            }
            outcome.discard();
            again.discard();
        }
    }
}

fn in_words(fault: &PlannedFault) -> String {
    format!("{} on {}", fault.fault, fault.on.join(","))
}

fn counted(target: &str) -> Option<(&str, usize)> {
    let (role, count) = target.split_once(':')?;
    Some((role, count.parse().ok()?))
}

fn event(trigger: &fencepost_nemesis::Trigger) -> String {
    match trigger.kind {
        Some(fencepost_history::Kind::Invoke) => format!("as a {} begins", trigger.f),
        _ => format!("right after {}", trigger.f),
    }
}
