//! What the processes of a test do. One file a workload; [`registry`] names them all.

mod herd;
mod increment;
mod lock;
mod section;
mod set;
mod workload;

pub use workload::{Op, Script, Settings, Step, Workload, key_name};

/// Every workload.
pub fn registry() -> &'static [&'static dyn Workload] {
    &[&increment::Increment, &lock::Lock, &set::Set, &herd::Herd]
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
        let (hold, pause) = (Duration::from_millis(30), Duration::from_millis(10));
        let workload = registry().iter().find(|workload| workload.name() == name).unwrap();
        workload.script(&Settings { keys, hold, pause, reader }, 7, Seed(1).stream("process-7"))
    }

    /// Follows a script, skipping its waits, with these answers; gives the names and values of what it did.
    fn follow(script: &mut dyn Script, answers: &[Completion], closing_after: usize) -> Vec<String> {
        let mut done = Vec::new();
        let mut last = None;
        let mut answers = answers.iter();
        loop {
            match script.next(last.take(), done.len() >= closing_after) {
                Step::Done => return done,
                Step::Wait(_) => {}
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
    fn herd_comes_back_at_once() {
        let mut herd = script("herd", 1);
        assert!(
            matches!(herd.next(None, false), Step::Do(op) if op.f == f::ACQUIRE && op.value["queue"] == true)
        );
        assert!(matches!(herd.next(Some(&ok(json!({}))), false), Step::Wait(_)));
        assert!(matches!(herd.next(None, false), Step::Do(op) if op.f == f::RELEASE));
        assert!(matches!(herd.next(Some(&ok(json!({}))), false), Step::Do(op) if op.f == f::ACQUIRE));
    }

    #[test]
    fn lock_checks_and_gives_up_when_it_no_longer_believes() {
        let answers = [ok(json!({})), ok(json!(true)), ok(json!(true)), ok(json!(true))];
        let done = follow(&mut *script("lock", 1), &answers, 99);
        assert_eq!(done, ["acquire null", "holds null", "holds null", "holds null", "release null"]);
        let done = follow(&mut *script("lock", 1), &[ok(json!({})), ok(json!(false))], 99);
        assert_eq!(done, ["acquire null", "holds null", "release null"]);
    }

    #[test]
    fn every_workload_draws_among_all_keys_and_names_known_operations() {
        for workload in registry() {
            let mut script = script(workload.name(), 4);
            let mut keys = std::collections::BTreeSet::new();
            for _ in 0..200 {
                if let Step::Do(op) = script.next(Some(&Completion::Fail("taken".into())), false) {
                    assert!([f::ACQUIRE, f::RELEASE, f::HOLDS, f::READ, f::WRITE].contains(&op.f));
                    keys.insert(op.key.into_owned());
                }
            }
            assert_eq!(keys.len(), 4, "{}", workload.name());
        }
    }
}
