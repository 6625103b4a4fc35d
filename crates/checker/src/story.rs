//! What happened around a finding, in words with times.

use crate::properties::{Overlap, overlap_reason, overlaps};
use crate::prose::seconds;
use crate::run_index::{Fault, Hold, HoldEnd, RunIndex};
use crate::verdict::Finding;
use fencepost_history::prose::and;
use fencepost_history::{Kind, Process, f};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line of a story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoryLine {
    pub time_ns: u64,
    pub text: String,
}

/// How many lines a story has at most between its first and its last.
const LINES_MAX: usize = 40;

/// Tells how a finding came about, for somebody who has never seen the run: who held what from when on, which
/// faults were in force, who else was let in, what each wrote, and whose fault it was. In order of time.
///
/// Empty for findings in which no two holds meet.
pub fn story(run: &RunIndex, finding: &Finding) -> Vec<StoryLine> {
    match overlap_of(run, finding) {
        Some(overlap) => lines_of(run, &overlap),
        None => Vec::new(),
    }
}

/// The overlap of two holds that a finding is about: for `exclusion` the one that it names, for others the first
/// between the processes whose events it cites.
fn overlap_of(run: &RunIndex, finding: &Finding) -> Option<Overlap> {
    let cited: Vec<u64> = finding
        .events
        .iter()
        .filter_map(|&index| match run.event(index)?.process {
            Process::Client(process) => Some(process),
            Process::Nemesis => None,
        })
        .collect();
    let named = |overlap: &Overlap| {
        let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
        finding.events.starts_with(&[a.from, b.from])
    };
    let near = |overlap: &Overlap| {
        let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
        let both = cited.contains(&a.process) && cited.contains(&b.process);
        let (first, last) = (finding.events.iter().min(), finding.events.iter().max());
        both && b.key == finding.key
            && last.is_some_and(|&last| b.from <= last)
            && first.is_some_and(|&first| a.from <= first && a.end_ns.max(b.end_ns) >= event_ns(run, first))
    };
    let all = overlaps(run);
    all.iter()
        .find(|overlap| named(overlap))
        .or_else(|| all.iter().rev().find(|overlap| near(overlap)))
        .copied()
}

fn event_ns(run: &RunIndex, index: u64) -> u64 {
    run.event(index).map_or(0, |event| event.time)
}

fn lines_of(run: &RunIndex, overlap: &Overlap) -> Vec<StoryLine> {
    let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
    let begin = a.invoke_ns;
    let end = a.until_ns.max(b.until_ns).max(b.from_ns);
    let mut lines = Vec::new();
    lines.push(line(a.from_ns, acquired(a, "")));
    let while_held = format!(", while process {} still held it", a.process);
    lines.push(line(b.from_ns, acquired(b, &while_held)));
    for fault in &run.faults {
        tell_fault(fault, begin, end, &mut lines);
    }
    let ended = run.servers_ended.iter().filter(|(time_ns, _)| (begin..=end).contains(time_ns));
    lines.extend(ended.map(|(time_ns, ended)| line(*time_ns, ended.sentence())));
    for (hold, earlier) in [(a, true), (b, false)] {
        tell_hold(run, hold, earlier, (begin, end), &mut lines);
    }
    tell_releases(run, overlap, &mut lines);
    lines.sort_by_key(|line| line.time_ns);
    lines.dedup();
    if lines.len() > LINES_MAX {
        let left_out = lines.len() - LINES_MAX;
        let last = lines.split_off(lines.len() - LINES_MAX / 2);
        lines.truncate(LINES_MAX / 2);
        lines.push(line(last[0].time_ns, format!("({left_out} lines are left out before this one)")));
        lines.extend(last);
    }
    lines.push(line(end, format!("{}: {}", overlap.class.in_words(), overlap_reason(a, b))));
    lines
}

fn line(time_ns: u64, text: String) -> StoryLine {
    StoryLine { time_ns, text }
}

/// "process 3 acquired a on n1, n2 and n4 for 2.000 s (valid for 1.961 s), token 33".
fn acquired(hold: &Hold, tail: &str) -> String {
    let mut text = format!("process {} acquired {}", hold.process, lock(hold.key));
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

fn lock(key: &str) -> &str {
    if key.is_empty() { "the lock" } else { key }
}

/// What the process of a hold did under it, and how it ended.
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
        match (operation.f(), completion.kind) {
            (f::READ, Kind::Ok) => {
                lines.push(line(completion.time, format!("process {process} read {}", completion.value)))
            }
            (f::WRITE, Kind::Ok) => {
                let twin = written_by_another(run, process, hold.key, what, begin, completion.time);
                let tail = twin.map_or(String::new(), |other| format!(": the same value as process {other}"));
                lines.push(line(completion.time, format!("process {process} wrote {what}{tail}")));
            }
            (f::WRITE, Kind::Fail) => {
                let error = completion.error.as_deref().unwrap_or("no reason given");
                lines.push(line(
                    completion.time,
                    format!("process {process} could not write {what}: {error}"),
                ));
            }
            (f::WRITE, _) => {
                let text = format!("process {process} wrote {what}, and it is not known whether it was done");
                lines.push(line(completion.time, text));
            }
            _ => {}
        }
        // The later holder certainly believed.
        if earlier && operation.invoke.index == hold.until {
            lines.push(line(hold.until_ns, last_belief(hold, operation.f())));
        }
    }
    for &(_, time) in hold.renewals.iter().filter(|(_, time)| *time <= end).rev().take(1) {
        lines.push(line(time, format!("the lease of process {process} was last prolonged")));
    }
    if hold.end == HoldEnd::Lost && hold.end_ns <= end {
        lines.push(line(hold.end_ns, format!("process {process} was notified that it had lost the lock")));
    }
}

fn last_belief(hold: &Hold, name: &str) -> String {
    let process = hold.process;
    match name {
        f::RELEASE => {
            format!("process {process} began to release: until here it believed that it held the lock")
        }
        f::WRITE => {
            format!("process {process} sent its last write: here it still believed that it held the lock")
        }
        _ => format!(
            "process {process} answered `holds` with true: here it still believed that it held the lock"
        ),
    }
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

/// Releases by other processes between the two grants: one that came too late may have removed the first holder's lock. One
/// that was still under way at the second grant counts if it says that it removed something.
fn tell_releases(run: &RunIndex, overlap: &Overlap, lines: &mut Vec<StoryLine>) {
    let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
    let count = run.operations.partition_point(|operation| operation.invoke.index < b.from);
    // Begun before the first grant, it was the release that let the first holder in.
    let between =
        run.operations[..count].iter().rev().take_while(|operation| operation.invoke.index > a.from);
    let others = between.filter(|operation| {
        operation.f() == f::RELEASE && operation.key == a.key && operation.process != a.process
    });
    for (release, done) in others.filter_map(|release| Some((release, release.ok()?))) {
        let (process, key) = (release.process, lock(a.key));
        let removed = done.value.get("removed") == Some(&Value::Bool(true))
            || done.value.get("removed_owner").and_then(Value::as_u64) == Some(a.process);
        let text = match removed {
            true => format!(
                "the release of {key} by process {process}, begun at {}, removed a lock",
                seconds(release.invoke.time)
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

fn tell_fault(fault: &Fault, begin: u64, end: u64, lines: &mut Vec<StoryLine>) {
    if fault.inject_ns > end || fault.healed_ns.is_some_and(|healed| healed < begin) || !fault.effective {
        return;
    }
    // At its beginning, since it works from then on; that it was seen to work is known a little later.
    let happened = |began_ns: u64, done_ns: Option<u64>, sentence: &str| {
        let seen = done_ns.filter(|done_ns| done_ns.saturating_sub(began_ns) >= LATER_NS);
        let later =
            seen.map_or(String::new(), |seen| format!(" (seen to have happened by {})", seconds(seen)));
        line(began_ns, format!("{sentence}{later}"))
    };
    lines.push(happened(fault.inject_ns, fault.injected_ns, &fault.description.sentence));
    if let Some(healed) = fault.healed_ns.filter(|healed| *healed <= end) {
        lines.push(happened(fault.heal_ns.unwrap_or(healed), Some(healed), &fault.description.healing));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check_run;
    use crate::literal::events;

    const JUMP: &str = "
        0    nemesis info phase - \"main\"
        100  3 invoke acquire a {ttl_ms:2000}
        110  3 ok     acquire a {token:33,validity_ms:1961,granted_by:[\"n1\",\"n2\",\"n3\"]}
        150  3 invoke read a
        160  3 ok     read a 41
        200  7 invoke acquire a {ttl_ms:2000}
        500  nemesis invoke clock-jump - {id:1,stage:\"inject\",targets:[\"n3\"],requested:{wall_ms:60000,monotonic_ms:60000}}
        510  nemesis ok clock-jump - {id:1,stage:\"inject\",targets:[\"n3\"],observed:{n3:{wall_ms:60001,monotonic_ms:60000}},effective:true,description:{sentence:\"the~clock~of~n3~jumped~forward~by~60.001~s\",healing:\"the~clock~of~n3~was~set~right\"}}
        810  7 ok     acquire a {token:34,granted_by:[\"n3\",\"n4\",\"n5\"]}
        820  7 invoke read a
        830  7 ok     read a 41
        840  7 invoke write a 42
        850  7 ok     write a 42
        900  3 invoke write a 42
        905  nemesis invoke clock-jump - {id:1,stage:\"heal\"}
        906  nemesis ok clock-jump - {id:1,stage:\"heal\"}
        910  3 ok     write a 42
        950  3 invoke release a
        960  3 ok     release a {believed:true}";

    fn story_of(text: &str, checker: &str) -> Vec<String> {
        let events = events(text);
        let verdict = check_run(&events);
        let run = RunIndex::new(&events).unwrap();
        let finding = &verdict.of_checker(checker).unwrap().findings[0];
        let lines = story(&run, finding);
        lines.iter().map(|line| format!("{} {}", seconds(line.time_ns), line.text)).collect()
    }

    #[test]
    fn tells_of_a_clock_that_jumped() {
        let expected = [
            "0.110 s process 3 acquired a on n1, n2 and n3 for 2.000 s (reported validity: 1.961 s), with token 33",
            "0.160 s process 3 read 41",
            "0.500 s the clock of n3 jumped forward by 60.001 s (seen to have happened by 0.510 s)",
            "0.810 s process 7 acquired a on n3, n4 and n5 for 2.000 s, with token 34, while process 3 still held it",
            "0.830 s process 7 read 41",
            "0.850 s process 7 wrote 42",
            "0.905 s the clock of n3 was set right",
            "0.910 s process 3 wrote 42: the same value as process 7",
            "0.950 s process 3 began to release: until here it believed that it held the lock",
            "0.950 s granted twice: process 7 got the lock while the TTL of process 3 (2.000 s) still had 1.251 s to run",
        ];
        assert_eq!(story_of(JUMP, "exclusion"), expected);
        // The lost update is the same story.
        assert_eq!(story_of(JUMP, "lost-updates"), expected);
    }

    #[test]
    fn tells_of_a_server_that_ended_meanwhile() {
        let ended = "\n        860  nemesis info server-ended - {node:\"n2\",log:[\"no~memory\",\"gave~up\"]}\n        900";
        let story = story_of(&JUMP.replacen("\n        900", ended, 1), "exclusion");
        let expected = "0.860 s n2 ended by itself; its log says: no memory / gave up";
        assert!(story.iter().any(|line| line == expected), "{story:?}");
    }

    #[test]
    fn tells_of_a_release_that_removed_the_lock() {
        let text = "
            0  1 invoke acquire a {ttl_ms:2000}
            5  1 ok     acquire a
            6  2 invoke acquire a {ttl_ms:2000}
            7  3 invoke release a
            8  2 ok     acquire a
            9  3 ok     release a {believed:false,removed:true}
            10 1 invoke holds   a
            11 1 ok     holds   a true";
        let removed = "0.009 s the release of a by process 3, begun at 0.007 s, removed a lock".to_owned();
        assert!(story_of(text, "exclusion").contains(&removed));
        let nothing = text.replace("removed:true", "removed:false");
        assert!(!story_of(&nothing, "exclusion").iter().any(|line| line.contains("release of a")));
    }

    #[test]
    fn tells_of_faults_that_it_does_not_know() {
        let described = JUMP.find(",description:").expect("the fault describes itself");
        let end = described + JUMP[described..].find("}}").expect("the description ends") + 1;
        let odd = format!("{}{}", &JUMP[..described], &JUMP[end..]).replace("clock-jump", "cosmic-ray");
        assert!(story_of(&odd, "exclusion").contains(
            &"0.500 s the fault cosmic-ray was injected on n3: {\"n3\":{\"monotonic_ms\":60000,\"wall_ms\":60001}} (seen to have happened by 0.510 s)".to_owned()
        ));
    }

    #[test]
    fn is_silent_where_no_holds_meet() {
        let text = "
            0 1 invoke acquire a
            1 1 ok     acquire a {token:5}
            2 1 invoke release a
            3 1 ok     release a {believed:true}
            4 2 invoke acquire a
            5 2 ok     acquire a {token:4}";
        assert_eq!(story_of(text, "fencing"), Vec::<String>::new());
    }
}
