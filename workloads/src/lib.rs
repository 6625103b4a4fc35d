//! What the processes of a test do. One file a workload; [`registry`] names them all.

mod election;
mod herd;
mod increment;
mod lateness;
mod length;
mod lock;
mod prolong;
mod read_write;
mod reentrant;
mod section;
mod semaphore;
mod set;
mod several;
mod tick;
mod workload;

pub use length::{Drawn, Length};
pub use workload::{Now, Op, Script, Settings, Step, Workload, key_name};

pub fn registry() -> &'static [&'static Workload] {
    &[
        &increment::INCREMENT,
        &lock::LOCK,
        &set::SET,
        &herd::HERD,
        &read_write::READ_WRITE,
        &semaphore::SEMAPHORE,
        &prolong::PROLONG,
        &election::ELECTION,
        &reentrant::REENTRANT,
        &several::SEVERAL,
        &tick::TICKS,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_history::{Completion, Seed, f};
    use serde_json::{Value, json};
    use std::time::Duration;

    fn script(name: &str, keys: usize) -> Box<dyn Script> {
        script_of(name, keys, false)
    }

    fn script_of(name: &str, keys: usize, reader: bool) -> Box<dyn Script> {
        with_length(name, Length::Fixed(Duration::from_millis(30)), keys, reader, 1)
    }

    fn with_length(name: &str, length: Length, keys: usize, reader: bool, seed: u64) -> Box<dyn Script> {
        let workload = registry().iter().find(|workload| workload.name == name).unwrap();
        let pause = Duration::from_millis(10);
        (workload.script)(&Settings { keys, length, pause, reader }, 7, Seed(seed).stream("process-7"))
    }

    fn drawn(outlasts: bool, undelayed: bool) -> Length {
        Length::Drawn(Drawn { ttl: Duration::from_secs(2), outlasts, undelayed })
    }

    fn at(time: Duration) -> Now {
        Now { time, closing: false }
    }

    /// Follows a script with these answers, each of which comes at once; gives the names and values of what
    /// it did.
    fn follow(script: &mut dyn Script, answers: &[Completion], closing_after: usize) -> Vec<String> {
        let mut done = Vec::new();
        let mut last = None;
        let mut answers = answers.iter();
        let mut time = Duration::ZERO;
        loop {
            match script.next(last.take(), Now { time, closing: done.len() >= closing_after }) {
                Step::Done | Step::Abandon { .. } => return done,
                Step::Wait(wait) => time += wait,
                Step::Do(op) => {
                    done.push(format!("{} {}", op.f, op.value));
                    last = answers.next();
                    if last.is_none() {
                        return done;
                    }
                }
            }
        }
    }

    fn ok(value: Value) -> Completion {
        Completion::Ok(value)
    }

    #[test]
    fn increment_reads_and_writes_back_one_more() {
        let answers =
            [ok(json!({})), ok(json!(7)), ok(json!(8)), ok(json!({})), Completion::Fail("taken".into())];
        let done = follow(&mut *script("increment", 1), &answers, 99);
        assert_eq!(
            done,
            ["acquire null", "read null", "write 8", "release null", "acquire null", "acquire null"]
        );
    }

    #[test]
    fn increment_releases_without_writing_what_it_could_not_read() {
        let answers = [ok(json!({})), Completion::Fail("refused".into())];
        let done = follow(&mut *script("increment", 1), &answers, 99);
        assert_eq!(done, ["acquire null", "read null", "release null"]);
    }

    #[test]
    fn closing_ends_a_section_and_begins_none() {
        let answers = [ok(json!({})), ok(json!(0)), ok(json!(1)), ok(json!({})), ok(json!({}))];
        let done = follow(&mut *script("increment", 1), &answers, 1);
        assert_eq!(done, ["acquire null", "read null", "write 1", "release null"]);
        assert_eq!(follow(&mut *script("increment", 1), &answers, 0), Vec::<String>::new());
    }

    #[test]
    fn a_reader_takes_the_lock_shared_and_writes_nothing() {
        let answers = [ok(json!({})), ok(json!(7)), ok(json!({}))];
        let done = follow(&mut *script_of("increment", 1, true), &answers, 99);
        assert_eq!(done[..3], [r#"acquire {"mode":"shared"}"#, "read null", "release null"]);
    }

    #[test]
    fn set_adds_values_that_no_other_process_adds() {
        // What was never written reads as 0.
        let answers = [ok(json!({})), ok(json!(0)), ok(json!(1)), ok(json!({}))];
        let done = follow(&mut *script("set", 1), &answers, 99);
        assert_eq!(done[..4], ["acquire null", "read null", "write [7000000]", "release null"]);
        let answers = [ok(json!({})), ok(json!([3, 5])), Completion::Fail("stale".into()), ok(json!({}))];
        let mut set = script("set", 1);
        let done = follow(&mut *set, &answers, 99);
        assert_eq!(done[2..4], ["write [3,5,7000000]", "release null"]);
        let again = [ok(json!({})), ok(json!([3, 5]))];
        let done = follow(&mut *set, &again, 99);
        assert_eq!(done.last().map(String::as_str), Some("write [3,5,7000001]"), "each value is tried once");
    }

    #[test]
    fn a_leader_writes_its_term_and_campaigns_again() {
        let entry = json!(["entry", 3, 31, 3_000_003]);
        let term = [ok(json!(true)), ok(entry), ok(json!(4))];
        let led = [vec![ok(json!({"token": 33}))], [term.clone(), term.clone(), term].concat()].concat();
        let answers = [led, vec![ok(json!({})), Completion::Fail("taken".into())]].concat();
        let done = follow(&mut *script("election", 1), &answers, 99);
        assert_eq!(done[..4], ["acquire null", "holds null", "read null", r#"write ["entry",7,33,7000003]"#]);
        assert_eq!(done[9], r#"write ["entry",7,33,7000005]"#);
        assert_eq!(done[10..], ["release null", "acquire null", "acquire null"], "at once");
    }

    #[test]
    fn who_no_longer_leads_resigns_and_writes_nothing() {
        for answers in [
            vec![ok(json!({})), ok(json!(false))],
            vec![ok(json!({})), ok(json!(true)), Completion::Fail("refused".into())],
        ] {
            let done = follow(&mut *script("election", 1), &[answers, vec![ok(json!({}))]].concat(), 99);
            let [.., last, _] = &done[..] else { panic!("{done:?}") };
            assert_eq!(last, "release null");
        }
    }

    /// A scheduler whose lock is kept for 30 ms, so that ticks come every 60 ms, and the moment of its first.
    fn scheduler() -> (Box<dyn Script>, Duration) {
        let mut script = script("tick", 1);
        let Step::Wait(due) = script.next(None, at(Duration::ZERO)) else { panic!("it waits for a tick") };
        assert!(
            (60..=68).contains(&due.as_millis()),
            "its clock is behind by a quarter of 30 ms at most: {due:?}"
        );
        (script, due)
    }

    #[test]
    fn a_job_runs_at_its_tick_and_keeps_the_lock() {
        let (mut script, due) = scheduler();
        let Step::Do(acquire) = script.next(None, at(due)) else { panic!("it acquires") };
        assert_eq!(
            (acquire.f, &acquire.note["tick"], &acquire.note["hold_ms"]),
            (f::ACQUIRE, &json!(1), &json!(30))
        );
        let Step::Do(write) = script.next(Some(&ok(json!({}))), at(due)) else { panic!("it writes") };
        assert_eq!((write.f, write.value), (f::WRITE, json!(["tick", 1, 7])));
        let held = Duration::from_millis(30);
        assert_eq!(script.next(Some(&ok(json!(3))), at(due)), Step::Wait(held), "the job was done at once");
        assert!(matches!(script.next(None, at(due + held)), Step::Do(op) if op.f == f::RELEASE));
        assert_eq!(
            script.next(Some(&ok(json!({}))), at(due + held)),
            Step::Wait(held),
            "until the next tick"
        );
    }

    #[test]
    fn a_job_does_not_run_late_nor_without_the_lock() {
        let late = Duration::from_millis(16);
        let (mut granted_late, due) = scheduler();
        granted_late.next(None, at(due));
        let step = granted_late.next(Some(&ok(json!({}))), at(due + late));
        assert!(matches!(step, Step::Do(op) if op.f == f::RELEASE), "it writes nothing");
        let (mut woke_late, due) = scheduler();
        assert!(
            matches!(woke_late.next(None, at(due + late)), Step::Wait(_)),
            "it leaves the tick to others"
        );
        let (mut refused, due) = scheduler();
        refused.next(None, at(due));
        assert!(matches!(refused.next(Some(&Completion::Fail("taken".into())), at(due)), Step::Wait(_)));
        let (mut closing, due) = scheduler();
        closing.next(None, at(due));
        let step = closing.next(Some(&ok(json!({}))), Now { time: due, closing: true });
        assert!(matches!(step, Step::Do(op) if op.f == f::RELEASE), "the others keep the lock no longer");
    }

    #[test]
    fn herd_comes_back_at_once() {
        let (mut herd, begin) = (script("herd", 1), at(Duration::ZERO));
        assert!(
            matches!(herd.next(None, begin), Step::Do(op) if op.f == f::ACQUIRE && op.value["queue"] == true)
        );
        let wait = Duration::from_millis(30);
        assert_eq!(herd.next(Some(&ok(json!({}))), begin), Step::Wait(wait));
        assert!(matches!(herd.next(None, at(wait)), Step::Do(op) if op.f == f::RELEASE));
        assert!(matches!(herd.next(Some(&ok(json!({}))), at(wait)), Step::Do(op) if op.f == f::ACQUIRE));
    }

    #[test]
    fn lock_checks_and_gives_up_when_it_no_longer_believes() {
        let answers = [ok(json!({})), ok(json!(true)), ok(json!(true)), ok(json!(true))];
        let done = follow(&mut *script("lock", 1), &answers, 99);
        assert_eq!(done, ["acquire null", "holds null", "holds null", "holds null", "release null"]);
        let done = follow(&mut *script("lock", 1), &[ok(json!({})), ok(json!(false))], 99);
        assert_eq!(done, ["acquire null", "holds null", "release null"]);
    }

    /// The first long section of a script: what its acquire notes, in milliseconds, and when it wrote and
    /// released.
    fn long_section(name: &str, seed: u64) -> (u64, u64, u64, u64) {
        let mut script = with_length(name, drawn(false, false), 1, false, seed);
        let (mut time, mut answer) = (Duration::ZERO, None);
        let (mut granted, mut note, mut wrote) = (Duration::ZERO, Value::Null, 0);
        let since = |granted: Duration, time: Duration| (time - granted).as_millis() as u64;
        loop {
            match script.next(answer.take().as_ref(), at(time)) {
                Step::Wait(wait) => time += wait,
                Step::Do(op) => {
                    answer = Some(ok(json!(0)));
                    match op.f {
                        f::ACQUIRE => (granted, note) = (time, op.note),
                        f::WRITE => wrote = since(granted, time),
                        f::RELEASE if note["hold_ms"].as_u64() > Some(1000) => {
                            let planned = |name: &str| note[name].as_u64().unwrap();
                            return (planned("hold_ms"), planned("write_at_ms"), since(granted, time), wrote);
                        }
                        _ => {}
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_drawn_section_reads_writes_and_ends_as_its_acquire_notes() {
        for (name, seed) in [("increment", 1), ("increment", 2), ("set", 3)] {
            let (hold_ms, write_at_ms, released, wrote) = long_section(name, seed);
            assert_eq!((hold_ms, write_at_ms), (released, wrote), "{name}");
            assert!((1000..=1600).contains(&hold_ms) && write_at_ms <= hold_ms);
            assert_eq!(long_section(name, seed), (hold_ms, write_at_ms, released, wrote), "the seed decides");
        }
        assert_ne!(long_section("increment", 1), long_section("increment", 2));
    }

    #[test]
    fn the_plan_of_a_section_is_noted_and_not_sent() {
        let first = |name: &str, length: Length| match with_length(name, length, 1, false, 1)
            .next(None, at(Duration::ZERO))
        {
            Step::Do(op) => (op.value, op.note),
            other => panic!("{other:?}"),
        };
        let (sent, note) = first("increment", drawn(true, true));
        assert!(sent.is_null() && note["hold_ms"].is_u64() && note["write_at_ms"].is_u64(), "{note}");
        let (sent, note) = first("lock", drawn(true, true));
        assert!(sent.is_null() && note["hold_ms"].is_u64() && note.get("write_at_ms").is_none(), "{note}");
        let fixed = first("increment", Length::Fixed(Duration::from_millis(30)));
        assert_eq!(fixed, (Value::Null, json!({"hold_ms": 30, "write_at_ms": 30})));
        // A twentieth of the TTL each.
        assert_eq!(first("herd", drawn(true, true)), (json!({"queue": true}), json!({"hold_ms": 100})));
    }

    #[test]
    fn only_a_process_that_no_fault_can_have_made_late_abandons_its_section() {
        // A section that reads at its beginning, as most do.
        let seed = (1..).find(|seed| {
            let begun =
                with_length("increment", drawn(false, true), 1, false, *seed).next(None, at(Duration::ZERO));
            matches!(begun, Step::Do(op) if op.note.get("read_at_ms").is_none())
        });
        let after_a_late_read = |undelayed: bool| {
            let mut script =
                with_length("increment", drawn(false, undelayed), 1, false, seed.expect("most do"));
            script.next(None, at(Duration::ZERO));
            script.next(Some(&ok(json!({}))), at(Duration::ZERO));
            script.next(Some(&ok(json!(7))), at(Duration::from_secs(3)))
        };
        let late = Duration::from_millis(1200);
        assert_eq!(after_a_late_read(true), Step::Abandon { key: "k0".into(), late });
        assert!(matches!(after_a_late_read(false), Step::Do(op) if op.f == f::WRITE));
    }

    #[test]
    fn a_holder_whose_write_failed_releases_at_once() {
        let length = Length::Drawn(Drawn { ttl: Duration::from_secs(2), outlasts: true, undelayed: false });
        for (name, seed) in [("increment", 1), ("increment", 2), ("set", 3)] {
            let answers =
                [ok(json!({})), ok(json!(7)), Completion::Fail("rejected: stale-token: 3 < 4".into())];
            let mut script = with_length(name, length, 1, false, seed);
            follow(&mut *script, &answers[..2], 99);
            let next = script.next(Some(&answers[2]), at(Duration::ZERO));
            assert!(matches!(next, Step::Do(op) if op.f == f::RELEASE), "{name}");
        }
    }

    #[test]
    fn a_holder_prolongs_its_lock_until_it_is_refused() {
        let done = |answers: &[Completion]| follow(&mut *script("prolong", 1), answers, 1);
        let (granted, no) = (ok(json!({})), Completion::Fail("not-held: gone".into()));
        let goes_on = done(&[
            granted.clone(),
            ok(json!(null)),
            ok(json!(true)),
            ok(json!(null)),
            ok(json!(true)),
            ok(json!(null)),
            ok(json!(true)),
        ]);
        assert_eq!(
            goes_on[1..7].join(", "),
            "prolong null, holds null, prolong null, holds null, prolong null, holds null"
        );
        assert_eq!(goes_on[7], "release null");
        assert_eq!(done(&[granted, no])[1..], ["prolong null", "release null"]);
    }

    #[test]
    fn a_holder_acquires_again_and_releases_as_often_before_it_writes() {
        let (yes, no) = (ok(json!(null)), Completion::Fail("not-held: gone".into()));
        let done = |answers: &[Completion]| follow(&mut *script("reentrant", 1), answers, 99);
        // Process 7 acquires again twice in its first section.
        let nested = [&[ok(json!({})), ok(json!(7))][..], &vec![yes.clone(); 6], &[no.clone()]].concat();
        assert_eq!(
            done(&nested)[..8],
            [
                "acquire null",
                "read null",
                "reenter null",
                "reenter null",
                "leave null",
                "leave null",
                "write 8",
                "release null"
            ]
        );
        let refused = [ok(json!({})), ok(json!(7)), yes, no.clone(), no];
        assert_eq!(done(&refused)[3..], ["reenter null", "leave null", "release null"]);
    }

    #[test]
    fn a_transfer_takes_two_accounts_and_changes_both() {
        let mut several = script("several", 3);
        let mut done = Vec::new();
        let answers = [json!({}), json!(0), json!(["balance", 5]), json!(1), json!(1), json!({})].map(ok);
        let (mut time, mut last) = (Duration::ZERO, None);
        let mut answers = answers.iter();
        while done.len() < 6 {
            match several.next(last.take(), at(time)) {
                Step::Wait(wait) => time += wait,
                Step::Do(op) => {
                    last = answers.next();
                    done.push((op.f, op.key, op.value));
                }
                step => panic!("{step:?}"),
            }
        }
        let (first, other) = (done[0].1.clone(), done[2].1.clone());
        assert_ne!(first, other);
        let names = json!({"also": [&other]});
        for (at, (f, key, value)) in [
            (f::ACQUIRE, &first, names.clone()),
            (f::READ, &first, Value::Null),
            (f::READ, &other, Value::Null),
            (f::WRITE, &first, json!(["balance", -1])),
            (f::WRITE, &other, json!(["balance", 6])),
            (f::RELEASE, &first, names),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!((done[at].0, &done[at].1, &done[at].2), (f, key, &value));
        }
    }

    #[test]
    fn a_follower_asks_who_leads_again_and_again() {
        let answers = [ok(json!(7)), ok(Value::Null), Completion::Fail("unreachable".into())];
        let done = follow(&mut *script_of("election", 1, true), &answers, 99);
        assert_eq!(done, ["leader null"; 4]);
    }

    #[test]
    fn every_workload_draws_among_all_keys_and_names_known_operations() {
        for workload in registry() {
            let mut script = script(workload.name, 4);
            let mut keys = std::collections::BTreeSet::new();
            let mut time = Duration::ZERO;
            for _ in 0..200 {
                match script.next(Some(&Completion::Fail("taken".into())), at(time)) {
                    Step::Do(op) => {
                        assert!(f::OPERATIONS.contains(&op.f));
                        keys.insert(op.key.into_owned());
                    }
                    Step::Wait(wait) => time += wait,
                    _ => {}
                }
            }
            assert_eq!(keys.len(), 4, "{}", workload.name);
        }
    }
}
