mod meeting;

pub(crate) use meeting::overlap_among;

use crate::ledger::reasons::reason;
use crate::ledger::removals::removal;
use crate::properties::{Overlap, overlaps, too_many};
use crate::prose::{lock, seconds};
use crate::run_index::{Fault, Hold, HoldEnd, RunIndex};
use crate::verdict::Finding;
use crate::whose::Whose;
use fencepost_history::prose::and;
use fencepost_history::{Kind, f};
use meeting::two_holds;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoryLine {
    pub time_ns: u64,
    pub text: String,
}

/// How many lines a story has at most between its first and its last.
const LINES_MAX: usize = 40;
/// How many stalls of the machine have a line of their own: more are one line, so that they hide nothing.
const STALLS_MAX: usize = 3;

/// What happened around a finding, for a new reader: holds, faults in force, who else was let in, what each
/// wrote, and whose fault it was. In order of time; empty for findings that are not about two holds.
pub fn story(run: &RunIndex, finding: &Finding) -> Vec<StoryLine> {
    match overlap_among(run, &overlaps(run), finding) {
        Some(overlap) => {
            let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
            let kind = too_many(run, &overlap).map_or(String::new(), |words| format!("{words}; "));
            let last = format!("{}: {kind}{}", overlap.class.in_words(), reason(run, overlap.class, a, b));
            lines_of(run, finding, (a, b), Some(&overlap), last)
        }
        None => match two_holds(run, finding) {
            Some((a, b)) => {
                let last = format!("{}: {}", finding.class.replace('-', " "), finding.sentence);
                lines_of(run, finding, (&run.holds[a], &run.holds[b]), None, last)
            }
            None => Vec::new(),
        },
    }
}

/// Events around two overlapping holds until the second ended, or of two that do not; `last` at the end.
fn lines_of(
    run: &RunIndex,
    finding: &Finding,
    (a, b): (&Hold, &Hold),
    overlap: Option<&Overlap>,
    last: String,
) -> Vec<StoryLine> {
    let begin = a.invoke_ns;
    let found_ns = if overlap.is_some() { 0 } else { finding.time };
    let end = a.until_ns.max(b.until_ns).max(b.from_ns).max(found_ns);
    let mut lines = Vec::new();
    lines.push(line(a.from_ns, acquired(run, a, "")));
    let while_held = format!(", while process {} still held it", a.process);
    let beside = overlap.map_or(&[][..], |overlap| &overlap.beside).iter().map(|&other| &run.holds[other]);
    lines.extend(beside.map(|hold| line(hold.from_ns, acquired(run, hold, ""))));
    lines.push(line(b.from_ns, acquired(run, b, if overlap.is_some() { &while_held } else { "" })));
    for fault in &run.faults {
        tell_fault(run, fault, begin, end, &mut lines);
    }
    let ended = run.servers_ended.iter().filter(|(time_ns, _)| (begin..=end).contains(time_ns));
    lines.extend(ended.map(|(time_ns, ended)| line(*time_ns, ended.sentence())));
    let rests = if finding.whose == Some(Whose::Machine) { "rests" } else { "does not rest" };
    let stalled = format!("the machine stalled (not an injected fault; the verdict {rests} on this)");
    let stalls: Vec<_> = run.stalls.of_each((begin, end)).collect();
    if stalls.len() > STALLS_MAX {
        let first_ns = stalls.iter().map(|(_, span)| span.0).min().unwrap_or(begin);
        let until_ns = stalls.iter().map(|(_, span)| span.1).max().unwrap_or(end);
        let (until, length) = (seconds(until_ns), seconds(run.stalls.within((begin, end))));
        let times = stalls.len();
        let rest = format!("some node had hardly any time for {length} in all");
        lines.push(line(first_ns, format!("{stalled}, {times} times until {until}: {rest}")));
    } else {
        lines.extend(stalls.into_iter().map(|(node, (from_ns, until_ns))| {
            let length = seconds(until_ns - from_ns);
            line(from_ns, format!("{stalled}: it gave {node} hardly any time for {length}"))
        }));
    }
    for (hold, earlier) in [(a, true), (b, false)] {
        tell_hold(run, hold, earlier, (begin, end), &mut lines);
    }
    tell_releases(run, (a, b), &mut lines);
    lines.sort_by_key(|line| line.time_ns);
    lines.dedup();
    if lines.len() > LINES_MAX {
        let left_out = lines.len() - LINES_MAX;
        let later = lines.split_off(lines.len() - LINES_MAX / 2);
        lines.truncate(LINES_MAX / 2);
        lines.push(line(later[0].time_ns, format!("({left_out} lines are left out before this one)")));
        lines.extend(later);
    }
    let end = lines.last().map_or(end, |line| line.time_ns.max(end));
    lines.push(line(end, last));
    lines
}

fn line(time_ns: u64, text: String) -> StoryLine {
    StoryLine { time_ns, text }
}

/// "process 3 (on client c1) acquired a on n1, n2 and n4 for 2.000 s (valid for 1.961 s), token 33".
fn acquired(run: &RunIndex, hold: &Hold, tail: &str) -> String {
    let client =
        run.nodes.client_of(hold.process).map_or(String::new(), |client| format!(" (on client {client})"));
    let what = hold.claim.of_lock(hold.key, run.lock.kind);
    let mut text = format!("process {}{client} acquired {what}", hold.process);
    if !hold.granted_by.is_empty() {
        text += &format!(" on {}", and(&hold.granted_by));
    }
    if let Some(ttl) = hold.ttl_ns {
        text += &format!(" for {}", seconds(ttl));
    }
    if let Some(validity_ms) = hold.validity_ms.filter(|ms| *ms >= 0.0) {
        text += &format!(" (reported validity: {})", seconds((validity_ms * 1e6) as u64));
    }
    if let Some(token) = hold.token {
        text += &format!(", with token {token}");
    }
    text + tail
}

fn tell_hold(
    run: &RunIndex,
    hold: &Hold,
    earlier: bool,
    (begin, end): (u64, u64),
    lines: &mut Vec<StoryLine>,
) {
    let process = hold.process;
    let mine =
        run.operations[hold.acquire..].iter().skip(1).take_while(|operation| operation.invoke.time <= end);
    for operation in mine.filter(|operation| operation.process == process && operation.key == hold.key) {
        if operation.f() == f::ACQUIRE {
            break;
        }
        let Some(completion) = operation.completion else { continue };
        let what = &operation.invoke.value;
        let text = match (operation.f(), completion.kind) {
            (f::READ, Kind::Ok) => format!("process {process} read {}", completion.value),
            (f::WRITE, Kind::Ok) => {
                let twin = written_by_another(run, process, hold.key, what, begin, completion.time);
                let tail = twin.map_or(String::new(), |other| format!(": the same value as process {other}"));
                let sent = sent(operation.invoke.time, completion.time);
                format!("process {process} wrote {what}{sent}{tail}")
            }
            (f::WRITE, Kind::Fail) => {
                let error = completion.error.as_deref().unwrap_or("no reason given");
                format!("process {process} could not write {what}: {error}")
            }
            (f::WRITE, _) => {
                format!("process {process} wrote {what}, and it is not known whether it was done")
            }
            _ => String::new(),
        };
        if !text.is_empty() {
            lines.push(line(completion.time, text));
        }
        // The later holder certainly believed.
        if earlier && operation.invoke.index == hold.until {
            lines.push(line(hold.until_ns, last_belief(hold, operation.f())));
        }
    }
    for &(_, time) in hold.renewals.iter().filter(|(_, time)| *time <= end).rev().take(1) {
        lines.push(line(time, format!("the lease of process {process} was last prolonged")));
    }
    if hold.ends.how == HoldEnd::Lost && hold.ends.let_go_ns <= end {
        let text = format!("process {process} was notified that it had lost the lock");
        lines.push(line(hold.ends.let_go_ns, text));
    }
}

fn last_belief(hold: &Hold, name: &str) -> String {
    let here = match name {
        f::RELEASE => "began to release: until here it believed",
        f::WRITE => "sent its last write: here it still believed",
        _ => "answered `holds` with true: here it still believed",
    };
    format!("process {} {here} that it held the lock", hold.process)
}

/// Another process whose write of the same value was acknowledged shortly before.
fn written_by_another(
    run: &RunIndex,
    process: u64,
    key: &str,
    value: &Value,
    begin: u64,
    until: u64,
) -> Option<u64> {
    let from = run.operations.partition_point(|operation| operation.invoke.time < begin);
    let window = run.operations[from..].iter().take_while(|operation| operation.invoke.time <= until);
    let mut same = window.filter(|operation| {
        let early = operation.ok().is_some_and(|ok| ok.time <= until);
        operation.f() == f::WRITE
            && operation.key == key
            && operation.process != process
            && *operation.invoke.value == *value
            && early
    });
    same.next().map(|operation| operation.process)
}

/// Releases by others between the two grants: what removed the first holder's lock, and what ended by then.
fn tell_releases(run: &RunIndex, (a, b): (&Hold, &Hold), lines: &mut Vec<StoryLine>) {
    let removed = removal(&run.setting(), &run.holds, a, b.from).map(|release| release.invoke.index);
    let count = run.operations.partition_point(|operation| operation.invoke.index < b.from);
    // Begun before the first grant, it was the release that let the first holder in.
    let between =
        run.operations[..count].iter().rev().take_while(|operation| operation.invoke.index > a.from);
    let others = between.filter(|operation| {
        operation.f() == f::RELEASE && operation.key == a.key && operation.process != a.process
    });
    for (release, done) in others.filter_map(|release| Some((release, release.ok()?))) {
        let (process, key) = (release.process, lock(a.key));
        let text = match removed == Some(release.invoke.index) {
            true => format!(
                "the release of {key} by process {process}, begun at {}, removed the lock of process {}",
                seconds(release.invoke.time),
                a.process
            ),
            false if done.index < b.from && process != b.process => {
                format!("process {process} released {key} in between")
            }
            false => continue,
        };
        lines.push(line(done.time, text));
    }
}

/// A difference in time that is worth a word.
const LATER_NS: u64 = 5_000_000;

/// Since when a write was under way, where that was long.
fn sent(invoke_ns: u64, done_ns: u64) -> String {
    match done_ns - invoke_ns >= 10 * LATER_NS {
        true => format!(" (sent at {})", seconds(invoke_ns)),
        false => String::new(),
    }
}

fn tell_fault(run: &RunIndex, fault: &Fault, begin: u64, end: u64, lines: &mut Vec<StoryLine>) {
    if fault.inject_ns > end
        || fault.healed_ns.is_some_and(|healed| healed < begin)
        || !run.may_have_worked(fault)
    {
        return;
    }
    // At its beginning, since it works from then on; that it was seen to work is known a little later.
    let happened = |began_ns: u64, done_ns: Option<u64>, sentence: &str| {
        let seen = done_ns.filter(|done_ns| done_ns.saturating_sub(began_ns) >= LATER_NS);
        let later = seen.map_or(String::new(), |seen| format!(" (observed by {})", seconds(seen)));
        line(began_ns, format!("{sentence}{later}"))
    };
    let sentence = match fault.effective {
        true => fault.description.sentence.clone(),
        false => format!("{}, as far as is known: nothing could be seen of it", fault.description.sentence),
    };
    lines.push(happened(fault.inject_ns, fault.injected_ns.filter(|_| fault.effective), &sentence));
    // The healing works from its beginning on, too: a client that was stopped runs again.
    if let Some(healed) = fault.healed_ns.filter(|healed| fault.heal_ns.unwrap_or(*healed) <= end) {
        lines.push(happened(fault.heal_ns.unwrap_or(healed), Some(healed), &fault.description.healing));
    }
}

#[cfg(test)]
mod tests;
