//! A mutex whose holds can also end by themselves: the `exclusion` checker on a history file, key by key. No
//! model of a state, as no history shows when a lease ends. It shows when a process certainly believed that
//! it held the lock (see [`Hold`](crate::run_index::Hold)), and two such beliefs must not meet.

use crate::evidence::{Evidence, ShownOperation};
use crate::judge::{CheckOptions, KeyVerdict, NOTHING_SUCCEEDED};
use crate::properties::{Overlap, exclusion_sentence, overlaps};
use crate::read::{Line, Lines, ReadError, ReadOptions, malformed, split};
use crate::run_index::{Operation, RunIndex};
use crate::verdict::Outcome;
use fencepost_history::{Event, Kind, Process, Released, f, sorted_once};
use serde_json::Value;
use std::sync::Arc;

pub(crate) fn check(
    lines: &mut dyn Lines,
    reading: &ReadOptions,
    options: &CheckOptions,
) -> Result<Vec<KeyVerdict>, ReadError> {
    let mut events = Vec::new();
    let mut origins = Vec::new();
    let mut timed = false;
    while let Some(line) = lines.next_line()? {
        let Some(line) = reading.apply(line) else { continue };
        let mut event = event(&line, events.len() as u64)?;
        if reading.independent {
            let (key, value) = split(&line)?;
            event.key = Some(key.into());
            event.value = json(&value, line.number)?.into();
        }
        check_value(&event, line.number)?;
        timed |= line.time_ns.is_some();
        origins.push((line.number, line.index.unwrap_or(line.number - 1)));
        events.push(event);
    }
    believe_in_releases(&mut events);
    let run = match RunIndex::new(&events) {
        Ok(run) => run,
        Err(error) => return malformed(origins[error.index as usize].0, error.reason),
    };
    Ok(judge(&run, &origins, timed, options))
}

/// In histories of other tools no release says whether its process believed in the lock (`believed`). Who
/// releases a lock thinks to hold it: so each release that was not refused is taken to say so.
fn believe_in_releases(events: &mut [Event]) {
    let is_release = |event: &Event| event.f == f::RELEASE && event.kind != Kind::Invoke;
    if events.iter().any(|event| is_release(event) && Released::of(&event.value).believed.is_some()) {
        return;
    }
    for event in events.iter_mut().filter(|event| is_release(event) && event.kind == Kind::Ok) {
        event.value = Arc::new(Released { believed: Some(true), ..Released::default() }.into());
    }
}

fn event(line: &Line, index: u64) -> Result<Event, ReadError> {
    Ok(Event {
        index,
        time: line.time_ns.unwrap_or(index),
        process: line.process.map_or(Process::Nemesis, Process::Client),
        kind: line.kind,
        f: (&*line.f).into(),
        key: line.key.as_deref().map(Into::into),
        value: json(&line.value, line.number)?.into(),
        error: line.error.as_deref().map(Into::into),
    })
}

fn json(text: &str, line: u64) -> Result<Value, ReadError> {
    serde_json::from_str(text).or_else(|error| malformed(line, format!("the value is no JSON: {error}")))
}

fn check_value(event: &Event, line: u64) -> Result<(), ReadError> {
    let wants =
        |what: &str| malformed(line, format!("{:?} wants {what}, and the value is {}", event.f, event.value));
    match (&*event.f, event.kind) {
        ("acquire", Kind::Invoke) => {
            let ttl = event.value.get("ttl_ms");
            match ttl.is_none_or(|ttl| ttl.as_f64().is_some_and(|ttl| ttl > 0.0)) {
                true => Ok(()),
                false => wants("{\"ttl_ms\": n} with n above 0"),
            }
        }
        ("holds", Kind::Ok) if !event.value.is_boolean() => wants("true or false"),
        (
            "acquire" | "prolong" | "reenter" | "leave" | "release" | "holds" | "read" | "write" | "leader",
            _,
        ) => Ok(()),
        (notice, Kind::Info) if fencepost_history::f::is_notice(notice) => Ok(()),
        _ => malformed(
            line,
            format!(
                "the model knows acquire, prolong, reenter, leave, release, holds, read and write, not {:?} (--skip leaves it out)",
                event.f
            ),
        ),
    }
}

fn judge(run: &RunIndex, origins: &[(u64, u64)], timed: bool, options: &CheckOptions) -> Vec<KeyVerdict> {
    let mut verdicts: Vec<KeyVerdict> = Vec::new();
    let found = overlaps(run);
    let mut places = rustc_hash::FxHashMap::default();
    for operation in &run.operations {
        let place = *places.entry(operation.key).or_insert_with(|| {
            verdicts.push(KeyVerdict {
                key: operation.invoke.key.as_deref().map(str::to_owned),
                outcome: Outcome::Valid,
                operations: 0,
                reason: None,
                evidence: None,
                witness: None,
            });
            verdicts.len() - 1
        });
        verdicts[place].operations += 1;
    }
    let ok = run.operations.iter().filter(|operation| operation.ok().is_some());
    let succeeded: rustc_hash::FxHashSet<&str> = ok.map(|operation| operation.key).collect();
    for (_, &place) in places.iter().filter(|(key, _)| !succeeded.contains(*key)) {
        verdicts[place].outcome = Outcome::Vacuous;
        verdicts[place].reason = Some(NOTHING_SUCCEEDED.to_owned());
    }
    for overlap in &found {
        let verdict = &mut verdicts[places[run.holds[overlap.second].key]];
        if verdict.outcome == Outcome::Valid {
            verdict.outcome = Outcome::Violation;
            let sentence = exclusion_sentence(run, overlap);
            verdict.evidence =
                options.evidence.then(|| evidence(run, overlap, origins, timed, sentence.clone()));
            verdict.reason = Some(sentence);
        }
    }
    verdicts
}

fn evidence(
    run: &RunIndex,
    overlap: &Overlap,
    origins: &[(u64, u64)],
    timed: bool,
    sentence: String,
) -> Evidence {
    let (a, b) = (&run.holds[overlap.first], &run.holds[overlap.second]);
    let belief = run.operations.iter().position(|operation| operation.invoke.index == a.until);
    let mut earlier = overlap.beside.clone();
    earlier.push(overlap.first);
    earlier.sort_unstable();
    let acquires = earlier.iter().map(|&at| run.holds[at].acquire);
    let core = sorted_once(acquires.clone().chain([b.acquire]).chain(belief));
    let mut indices: Vec<u64> = Vec::new();
    for operation in core.iter().map(|&at| &run.operations[at]) {
        indices.push(operation.invoke.index);
        indices.extend(operation.completion.map(|event| event.index));
    }
    indices.sort_unstable();
    let place = |index: u64| indices.binary_search(&index).map_or(0, |place| place as u32);
    let shown = |operation: &Operation| ShownOperation {
        process: operation.process,
        text: operation.f().to_owned(),
        invoke_index: origins[operation.invoke.index as usize].1,
        complete_index: operation.completion.map(|event| origins[event.index as usize].1),
        invoke_ns: operation.invoke.time,
        complete_ns: operation.completion.map(|event| event.time),
        begin: place(operation.invoke.index),
        end: operation.completion.map(|event| place(event.index)),
    };
    Evidence {
        sentence,
        operations: core.iter().map(|&at| shown(&run.operations[at])).collect(),
        left_out: Vec::new(),
        start: "free".to_owned(),
        order: acquires.filter_map(|acquire| core.iter().position(|&at| at == acquire)).collect(),
        state: match &earlier[..] {
            [_] => format!("held by process {}", a.process),
            many => format!("held by {} processes", many.len()),
        },
        stuck: core.iter().position(|&at| at == b.acquire).unwrap_or(0),
        timed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::JsonLines;
    use crate::{Algorithm, Budget};

    fn verdicts(text: &str) -> Result<Vec<KeyVerdict>, String> {
        let options = CheckOptions {
            algorithm: Algorithm::Auto,
            budget: Budget::unlimited(),
            evidence: true,
            witness: false,
        };
        check(&mut JsonLines::new(text.as_bytes()), &ReadOptions::default(), &options)
            .map_err(|error| error.to_string())
    }

    const TWO_HOLDERS: &str = r#"
        {"time":0,"process":1,"type":"invoke","f":"acquire","key":"a","value":{"ttl_ms":2000}}
        {"time":1000000,"process":1,"type":"ok","f":"acquire","key":"a","value":null}
        {"time":2000000,"process":2,"type":"invoke","f":"acquire","key":"a","value":{"ttl_ms":2000}}
        {"time":3000000,"process":2,"type":"ok","f":"acquire","key":"a","value":null}
        {"time":4000000,"process":1,"type":"invoke","f":"holds","key":"a"}
        {"time":5000000,"process":1,"type":"ok","f":"holds","key":"a","value":true}"#;

    #[test]
    fn accepts_a_holder_that_knows_that_it_is_none() {
        let verdicts = verdicts(&TWO_HOLDERS.replace("true", "false")).unwrap();
        assert_eq!((verdicts.len(), verdicts[0].outcome, verdicts[0].operations), (1, Outcome::Valid, 3));
    }

    #[test]
    fn a_lease_lasts_for_some_time() {
        let none = TWO_HOLDERS.replacen("2000}", "0}", 1);
        let wants = "\"acquire\" wants {\"ttl_ms\": n} with n above 0";
        assert!(verdicts(&none).unwrap_err().contains(wants));
        assert!(verdicts(&TWO_HOLDERS.replacen("2000}", "1}", 1)).is_ok());
    }

    #[test]
    fn rejects_two_who_believe() {
        let verdicts = verdicts(TWO_HOLDERS).unwrap();
        assert_eq!(verdicts[0].outcome, Outcome::Violation);
        let evidence = verdicts[0].evidence.as_ref().unwrap();
        assert_eq!((evidence.operations.len(), evidence.stuck), (3, 1));
        assert!(evidence.sentence.contains("still had 1.997 s to run"), "{}", evidence.sentence);
    }

    #[test]
    fn rejects_more_than_a_semaphore_has_permits() {
        let semaphore = |permits: &str| {
            let third = r#"
        {"time":3500000,"process":3,"type":"invoke","f":"acquire","key":"a","value":{"ttl_ms":2000}}
        {"time":3600000,"process":3,"type":"ok","f":"acquire","key":"a","value":null}
        {"time":3700000,"process":2,"type":"invoke","f":"holds","key":"a"}
        {"time":3800000,"process":2,"type":"ok","f":"holds","key":"a","value":true}
        {"time":4000000"#;
            let text = TWO_HOLDERS.replacen("\n        {\"time\":4000000", third, 1);
            verdicts(&text.replace("2000}", &format!("2000,\"capacity\":{permits}}}"))).unwrap().remove(0)
        };
        assert_eq!(semaphore("3").outcome, Outcome::Valid);
        let rejected = semaphore("2");
        assert_eq!(rejected.outcome, Outcome::Violation);
        let evidence = rejected.evidence.unwrap();
        assert_eq!((&evidence.order[..], &*evidence.state), (&[0, 1][..], "held by 2 processes"));
    }

    #[test]
    fn refuses_what_is_no_history_of_leases() {
        let refused = |old: &str, new: &str| verdicts(&TWO_HOLDERS.replacen(old, new, 1)).unwrap_err();
        assert!(refused("2000}", "\"x\"}").starts_with("line 2: \"acquire\" wants {\"ttl_ms\": n}"));
        assert!(refused("true", "7").starts_with("line 7: \"holds\" wants true or false"));
        assert!(refused("\"holds\"", "\"held\"").starts_with("line 6: the model knows"));
        assert!(
            refused("\"process\":2,\"type\":\"ok\"", "\"process\":3,\"type\":\"ok\"").starts_with("line 5: ")
        );
    }
}
