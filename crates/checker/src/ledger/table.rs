use super::ends::{End, possible_ends};
use super::interval::{Bound, Interval};
use crate::prose::seconds;
use crate::run_index::parts::Fault;
use crate::run_index::{Hold, RunIndex};
use fencepost_history::FaultEffect;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The ledger as text: a paragraph a key, a block a grant in order, with every end that can have come before
/// the next grant; or the blocks of the holds `only`, with the faults that can have ended one of them.
pub fn ledger_table(run: &RunIndex, only: Option<&[usize]>) -> String {
    let mut keys: BTreeMap<&str, Vec<(usize, &Hold)>> = BTreeMap::new();
    for (at, hold) in run.holds.iter().enumerate() {
        keys.entry(hold.key).or_default().push((at, hold));
    }
    let (mut text, mut cited) = (String::new(), BTreeSet::new());
    for (key, of_key) in keys {
        if only.is_none() {
            let _ = writeln!(text, "\nlock {key}");
        }
        for (place, (at, hold)) in of_key.iter().enumerate() {
            let next = of_key.get(place + 1);
            let until = next.map_or((u64::MAX, run.end_ns), |(_, next)| (next.from, next.granted.latest.ns));
            if only.is_none_or(|only| only.contains(at)) {
                grant(run, hold, until, &mut text, &mut cited);
            }
        }
    }
    let is_shown = |fault: &&Fault| only.is_none() || cited.contains(&fault.inject);
    let faults: String = run.faults.iter().filter(is_shown).map(|fault| fault_line(run, fault)).collect();
    faults + &text
}

fn fault_line(run: &RunIndex, fault: &Fault) -> String {
    let until = fault.healed_ns.map_or("the end".to_owned(), seconds);
    let (id, sentence) = (fault.id, &fault.description.sentence);
    let effects = FaultEffect::ALL.into_iter().filter(|effect| fault.can(*effect));
    let effects: Vec<&str> = effects.map(FaultEffect::in_words).collect();
    let worked = if run.may_have_worked(fault) { "" } else { " (without effect)" };
    format!(
        "fault {id}: {} to {until}{worked}: {sentence}; it {}\n",
        seconds(fault.inject_ns),
        fencepost_history::prose::and(&effects)
    )
}

/// The block of a grant. Adds the events that its ends cite.
fn grant(run: &RunIndex, hold: &Hold, until: (u64, u64), text: &mut String, cited: &mut BTreeSet<u64>) {
    let renewed = match hold.renewals.len() {
        0 => String::new(),
        count => format!(", renewed {count} times"),
    };
    let lease = match hold.ttl_ns {
        Some(ttl_ns) => format!("{} of {}{renewed}", hold.lease, seconds(ttl_ns)),
        None => format!("{}{renewed}", hold.lease),
    };
    let _ = writeln!(text, "  process {}, event {}; lease: {lease}", hold.process, hold.from);
    let _ = writeln!(text, "    granted   {}", interval(hold.granted));
    if hold.granted_by_no_server {
        let _ = writeln!(text, "              by no server: none could be reached in all that time");
    }
    let _ = writeln!(text, "    believed  {} to {}", seconds(hold.from_ns), seconds(hold.until_ns));
    let ends = possible_ends(&run.setting(), &run.holds, hold, until);
    if ends.is_empty() {
        let _ = writeln!(text, "    ended     by nothing that is known, before the next grant");
    }
    for End { cause, interval: when, events } in ends {
        cited.extend(&events);
        let events: Vec<String> = events.iter().map(u64::to_string).collect();
        let by = if events.is_empty() { String::new() } else { format!("; events {}", events.join(", ")) };
        let _ = writeln!(text, "    ended     {}: {}{by}", cause.in_words(), interval(when));
    }
}

fn interval(Interval { earliest, latest }: Interval) -> String {
    let bound = |Bound { ns, why }: Bound| match ns {
        u64::MAX => format!("open ({})", why.in_words()),
        ns => format!("{} ({})", seconds(ns), why.in_words()),
    };
    format!("{} to {}", bound(earliest), bound(latest))
}
