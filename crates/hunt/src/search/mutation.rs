use super::moments::draw_moment;
use super::space::{FAULTS_MAX, Space};
use crate::schedule::Schedule;
use fencepost_history::{Seed, Stream};
use fencepost_nemesis::{Plan, PlannedFault, Trigger, find};
use rand::RngExt;
use rand::seq::IndexedRandom;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// How one schedule differs from the one that it was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleChange {
    Target,
    Moment,
    Time,
    Length,
    Size,
    AddFault,
    DropFault,
    /// A fault of another kept schedule.
    Splice,
    Clients,
    Keys,
    Duration,
    /// Only the seed of the processes' choices.
    Seed,
}

/// How often each is drawn (faults and their aim matter more than options), and what it makes of a schedule.
const CHANGES: [(ScheduleChange, u32, &str); 12] = [
    (ScheduleChange::Target, 4, "another target"),
    (ScheduleChange::Moment, 4, "another moment"),
    (ScheduleChange::Time, 3, "another time"),
    (ScheduleChange::Length, 4, "another length"),
    (ScheduleChange::Size, 4, "another size"),
    (ScheduleChange::AddFault, 3, "one fault more"),
    (ScheduleChange::DropFault, 2, "one fault less"),
    (ScheduleChange::Splice, 3, "a fault of another schedule"),
    (ScheduleChange::Clients, 2, "other clients"),
    (ScheduleChange::Keys, 1, "other keys"),
    (ScheduleChange::Duration, 1, "another duration"),
    (ScheduleChange::Seed, 1, "other choices of the processes"),
];

impl fmt::Display for ScheduleChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = CHANGES.iter().find(|(change, ..)| change == self);
        out.write_str(row.map_or("", |row| row.2))
    }
}

/// How often a change is drawn again that turns out to be impossible, or to change nothing.
const TRIES: usize = 24;

/// Makes a schedule from a kept one by one change, rarely two. `other` is another kept one, to take a fault
/// from. The seed of the processes' choices is always new: the same choices again would teach less.
pub fn mutate(
    space: &Space,
    parent: &Schedule,
    other: Option<&Schedule>,
    random: &mut Stream,
) -> Option<(Schedule, Vec<ScheduleChange>)> {
    for _ in 0..TRIES {
        let mut child = parent.clone();
        let mut changes = Vec::new();
        loop {
            let (change, ..) = *CHANGES.choose_weighted(random, |(_, weight, _)| *weight).ok()?;
            if apply(space, change, &mut child, other, random).is_some() {
                changes.push(change);
            }
            if changes.len() >= 2 || !random.random_bool(0.25) {
                break;
            }
        }
        let possible = space.put_in_order(&mut child);
        child.options.seed = Some(Seed(random.random_range(0..1 << 53)));
        let only_seed = changes == [ScheduleChange::Seed];
        if possible && !changes.is_empty() && (only_seed || differs(&child, parent)) {
            return Some((child, changes));
        }
    }
    None
}

fn differs(child: &Schedule, parent: &Schedule) -> bool {
    let mut options = child.options.clone();
    options.seed = parent.options.seed;
    options != parent.options || child.plan != parent.plan
}

fn apply(
    space: &Space,
    change: ScheduleChange,
    schedule: &mut Schedule,
    other: Option<&Schedule>,
    random: &mut Stream,
) -> Option<()> {
    let Schedule { options, plan, .. } = schedule;
    match change {
        ScheduleChange::AddFault if plan.faults.len() < FAULTS_MAX => {
            plan.faults.push(space.fault(*space.nemeses.choose(random)?, None, options, random)?);
        }
        ScheduleChange::DropFault if plan.faults.len() > 1 => {
            plan.faults.remove(random.random_range(0..plan.faults.len()));
        }
        ScheduleChange::AddFault | ScheduleChange::DropFault => return None,
        ScheduleChange::Splice => splice(plan, other?, random)?,
        ScheduleChange::Clients => space.draw_clients(options, random),
        ScheduleChange::Keys => space.draw_keys(options, random),
        ScheduleChange::Duration => space.draw_time_limit(options, random),
        ScheduleChange::Seed => {}
        ScheduleChange::Target
        | ScheduleChange::Moment
        | ScheduleChange::Time
        | ScheduleChange::Length
        | ScheduleChange::Size => {
            let at = random.random_range(0..plan.faults.len());
            let again = space.fault(find(&plan.faults[at].fault)?, None, options, random);
            let limit_ms = options.time_limit.millis();
            let moments = space.moments(&plan.faults[at], options);
            change_fault(change, &mut plan.faults[at], again?, (limit_ms, &moments), random)?;
        }
    }
    Some(())
}

/// Changes one fault; `again` is another of its nemesis, drawn anew.
fn change_fault(
    change: ScheduleChange,
    fault: &mut PlannedFault,
    again: PlannedFault,
    (limit_ms, moments): (u64, &[Trigger]),
    random: &mut Stream,
) -> Option<()> {
    match change {
        ScheduleChange::Target => {
            let parameters = std::mem::replace(&mut fault.parameters, again.parameters.clone());
            fault.on = again.on;
            // The size stays, unless the parameters name targets themselves, as those of partitions do.
            if !names_nodes(&parameters) && !names_nodes(&again.parameters) {
                fault.parameters = parameters;
            }
        }
        ScheduleChange::Moment => {
            let of_aims = moments.choose(random).filter(|_| random.random_bool(0.6)).cloned();
            let other = random.random_bool(0.85).then(|| draw_moment(random));
            fault.then = of_aims.or(other);
        }
        ScheduleChange::Time => fault.at_ms = random.random_range(0..=limit_ms.saturating_sub(fault.for_ms)),
        ScheduleChange::Length => fault.for_ms = scaled(fault.for_ms as f64, random) as u64,
        _ => return resize(fault, random),
    }
    Some(())
}

fn names_nodes(parameters: &serde_json::Map<String, Value>) -> bool {
    parameters.values().any(|value| value.is_array() || value.is_object())
}

fn resize(fault: &mut PlannedFault, random: &mut Stream) -> Option<()> {
    let is_size = |value: &Value| value.as_f64().is_some_and(|number| number != 0.0);
    let sizes: Vec<String> =
        fault.parameters.iter().filter(|(_, value)| is_size(value)).map(|(name, _)| name.clone()).collect();
    let name = sizes.choose(random)?;
    let value = fault.parameters.get_mut(name)?;
    *value = match (value.as_i64(), value.as_f64()) {
        (Some(whole), _) => Value::from(scaled(whole as f64, random) as i64),
        (None, Some(number)) => Value::from(scaled(number, random)),
        _ => return None,
    };
    Some(())
}

fn scaled(number: f64, random: &mut Stream) -> f64 {
    number * 3_f64.powf(random.random_range(-1.0..=1.0))
}

fn splice(plan: &mut Plan, other: &Schedule, random: &mut Stream) -> Option<()> {
    let fault = other.plan.faults.choose(random)?.clone();
    if plan.faults.len() < FAULTS_MAX {
        plan.faults.push(fault);
    } else {
        let at = random.random_range(0..plan.faults.len());
        plan.faults[at] = fault;
    }
    Some(())
}
