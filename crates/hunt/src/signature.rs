use fencepost_checker::run_index::{Fault, Hold};
use fencepost_checker::{Finding, RunIndex, RunVerdict, Situation, TargetRole, Violation, situations_of};
use fencepost_history::{Event, Process, sorted_once};
use fencepost_report::findings::{FaultCause, Signature};
use serde_json::{Value, json};

/// What tells a finding from others: the first violation of this kind in a run, and its signature.
pub fn signature(
    history: &[Event],
    verdict: &RunVerdict,
    violation: &Violation,
) -> Option<(Signature, Finding)> {
    let run = RunIndex::new(history).ok()?;
    let of_class = |finding: &&Finding| finding.is_of_class(&violation.class);
    let findings = &verdict.of_checker(&violation.checker)?.findings;
    let finding = findings.iter().filter(of_class).min_by_key(|finding| finding.time)?;
    let behind: Vec<u64> = behind(&run, finding).into_iter().map(|fault| fault.id).collect();
    let met = situations_of(&run).into_iter().filter(|(fault, _)| behind.contains(fault));
    let causes = sorted_once(met.filter_map(|(_, situations)| cause(&situations)));
    let Violation { checker, class } = violation.clone();
    Some((Signature { checker, class, causes }, finding.clone()))
}

/// The faults behind a finding: in force since its first acquire, else the last before; seen ones first.
fn behind<'r, 'a>(run: &'r RunIndex<'a>, finding: &Finding) -> Vec<&'r Fault<'a>> {
    let began = began_ns(run, finding);
    let worked = |fault: &&Fault| run.may_have_worked(fault) && fault.inject_ns <= finding.time;
    let effective = || run.faults.iter().filter(worked);
    let in_force = |fault: &&Fault| fault.healed_ns.is_none_or(|healed| healed >= began);
    let mut behind: Vec<&Fault> = effective().filter(in_force).collect();
    if behind.iter().any(|fault| fault.effective) {
        behind.retain(|fault| fault.effective);
    }
    if behind.is_empty() { effective().next_back().into_iter().collect() } else { behind }
}

/// When the first proof of a finding began: under a hold, the acquire, as what came after it did harm.
fn began_ns(run: &RunIndex, finding: &Finding) -> u64 {
    let times = finding.events.iter().filter_map(|&index| {
        let event = run.event(index)?;
        let is_under = |hold: &&Hold| {
            event.process == Process::Client(hold.process)
                && event.key.as_deref() == Some(hold.key)
                && hold.from <= index
                && event.time <= hold.ends.let_go_ns
        };
        let hold = run.holds.iter().filter(is_under).max_by_key(|hold| hold.from);
        Some(hold.map_or(event.time, |hold| hold.invoke_ns))
    });
    times.min().unwrap_or(0)
}

/// What a fault met, as one cause: the target that matters most, so that plays of one plan agree.
fn cause(situations: &[Situation]) -> Option<FaultCause> {
    let weight = |situation: &&Situation| match situation.role {
        TargetRole::Holder => 0,
        TargetRole::Granting => 1,
        TargetRole::Leader => 2,
        TargetRole::Storage => 3,
        TargetRole::Waiter => 4,
        TargetRole::Server => 5,
        TargetRole::Follower | TargetRole::OtherServer => 6,
        TargetRole::Idle => 7,
    };
    let Situation { fault, role, phase } = situations.iter().min_by_key(weight)?;
    let name = |of: Value| of.as_str().unwrap_or_default().to_owned();
    Some(FaultCause { fault: fault.clone(), role: name(json!(role)), phase: name(json!(phase)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_checker::check_run;
    use fencepost_history::Kind;

    fn event(index: u64, process: Process, kind: Kind, f: &str, value: Value) -> Event {
        let key = matches!(process, Process::Client(_)).then(|| "k0".into());
        Event {
            index,
            time: index * 10_000_000,
            process,
            kind,
            f: f.into(),
            key,
            value: value.into(),
            error: None,
        }
    }

    /// Two processes hold k0 at once; one clock jumped long before, another while the first held it.
    fn history() -> Vec<Event> {
        use Kind::{Info, Invoke, Ok};
        let (one, two, nemesis) = (Process::Client(0), Process::Client(1), Process::Nemesis);
        let jump = |id: u64, stage: &str, on: &str| json!({"id": id, "stage": stage, "targets": [on], "effective": true});
        let acquire = json!({"ttl_ms": 2000});
        let events = [
            (nemesis, Info, "servers", json!(["n1", "n2", "n3"])),
            (nemesis, Invoke, "clock-jump", jump(0, "inject", "n2")),
            (nemesis, Ok, "clock-jump", jump(0, "inject", "n2")),
            (nemesis, Invoke, "clock-jump", jump(0, "heal", "n2")),
            (nemesis, Ok, "clock-jump", jump(0, "heal", "n2")),
            (one, Invoke, "acquire", acquire.clone()),
            (one, Ok, "acquire", json!({"granted_by": ["n1", "n3"]})),
            (nemesis, Invoke, "clock-jump", jump(1, "inject", "n3")),
            (nemesis, Ok, "clock-jump", jump(1, "inject", "n3")),
            (two, Invoke, "acquire", acquire),
            (two, Ok, "acquire", json!({"granted_by": ["n2", "n3"]})),
            (one, Invoke, "release", Value::Null),
            (one, Ok, "release", json!({"believed": true})),
        ];
        let numbered = (0..).zip(events);
        numbered.map(|(index, (process, kind, f, value))| event(index, process, kind, f, value)).collect()
    }

    #[test]
    fn the_faults_in_force_are_the_cause_with_their_role_and_phase() {
        let history = history();
        let verdict = check_run(&history);
        let violation = Violation::all(&verdict).remove(0);
        let (signature, finding) = signature(&history, &verdict, &violation).unwrap();
        assert_eq!(signature.name(), "granted-twice-clock-jump-granting");
        let words = "granted twice (exclusion): clock-jump on granting server (lock held)";
        assert_eq!((signature.to_string().as_str(), finding.class.as_str()), (words, "granted-twice"));
        let other = Violation { class: "overstayed".to_owned(), ..violation };
        assert!(super::signature(&history, &verdict, &other).is_none());
    }

    #[test]
    fn a_fault_that_was_not_seen_to_take_effect_is_no_cause_beside_one_that_was() {
        let mut history = history();
        // The injection of another fault fails while the lock is held.
        let failed = json!({"id": 2, "stage": "inject", "targets": ["n1"], "effective": false});
        let of_fault = |kind| event(0, Process::Nemesis, kind, "disk-slow", failed.clone());
        history.splice(7..7, [of_fault(Kind::Invoke), of_fault(Kind::Info)]);
        for (index, event) in (0..).zip(&mut history) {
            (event.index, event.time) = (index, index * 10_000_000);
        }
        let failing = history.iter_mut().find(|event| event.f == "disk-slow" && event.kind == Kind::Info);
        failing.unwrap().error = Some("failed: no such disk".into());
        let verdict = check_run(&history);
        let violation = Violation::all(&verdict).remove(0);
        let (signature, _) = signature(&history, &verdict, &violation).unwrap();
        assert_eq!(signature.name(), "granted-twice-clock-jump-granting");
    }

    #[test]
    fn a_fault_between_the_grant_and_a_write_is_behind_the_harm() {
        use Kind::{Invoke, Ok};
        let (one, nemesis) = (Process::Client(0), Process::Nemesis);
        let cut = |stage: &str| json!({"id": 0, "stage": stage, "targets": ["n1"], "effective": true});
        let events = [
            (one, Invoke, "acquire", json!({"ttl_ms": 2000})),
            (one, Ok, "acquire", json!({"granted_by": ["n1"]})),
            (nemesis, Invoke, "power-loss", cut("inject")),
            (nemesis, Ok, "power-loss", cut("inject")),
            (nemesis, Invoke, "power-loss", cut("heal")),
            (nemesis, Ok, "power-loss", cut("heal")),
            (one, Invoke, "write", json!(7)),
            (one, Ok, "write", json!(7)),
            (one, Invoke, "release", Value::Null),
            (one, Ok, "release", json!({"believed": true})),
        ];
        let numbered = (0..).zip(events);
        let history: Vec<Event> = numbered
            .map(|(index, (process, kind, f, value))| event(index, process, kind, f, value))
            .collect();
        let run = RunIndex::new(&history).unwrap();
        let lost = Finding { events: vec![7], time: history[7].time, ..Finding::default() };
        assert_eq!((began_ns(&run, &lost), behind(&run, &lost).len()), (0, 1));
    }

    #[test]
    fn without_any_fault_the_lock_is_broken_without_faults() {
        let mut history = history();
        history.retain(|event| event.f != "clock-jump");
        let verdict = check_run(&history);
        let violation = Violation::all(&verdict).remove(0);
        let (signature, _) = signature(&history, &verdict, &violation).unwrap();
        assert_eq!(signature.name(), "granted-twice-in-peace");
    }
}
