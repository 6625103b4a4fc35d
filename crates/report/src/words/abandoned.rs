//! Sections that Fencepost gave up, since their lease was over before they could go on.

use fencepost_checker::RunIndex;
use fencepost_checker::run_index::Hold;

/// How many sections of a run were abandoned, why, and what to do about it; none where all went on.
pub(super) fn abandoned(run: &RunIndex) -> Option<String> {
    let holds = run.holds.iter().filter(|hold| hold.ends.abandoned_ns.is_some());
    let count = holds.clone().count();
    if count == 0 {
        return None;
    }
    let waited = holds.filter(|hold| was_half_over(hold)).count();
    let why = match 2 * waited >= count {
        true => format!(
            "In {waited} of them half of the lease or more was over when the lock was granted, by the validity that the client reports: so \
             it is where the library itself waits for the lock. Let the client repeat attempts that do not block (env.poll of the kits), so \
             that the lease counts from the attempt that was granted."
        ),
        false => "Their processes came too late to go on: the machine was too slow for this TTL. Take a longer --ttl, or run less beside the \
                  test."
            .to_owned(),
    };
    Some(format!(
        "Fencepost abandoned {count} of {} critical sections, since their lease was over, or nearly. Such a section releases nothing, so its \
         lock stays taken until the lease ends; where it does not end, a lock that is stuck is Fencepost's doing, and progress is not known. {why}",
        run.holds.len()
    ))
}

/// Whether half of the lease or more had passed when the grant came.
fn was_half_over(hold: &Hold) -> bool {
    let (Some(ms), Some(ttl_ns)) = (hold.validity_ms, hold.ttl_ns) else { return false };
    ms * 1e6 <= ttl_ns as f64 / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_history::{Event, SECTION_ABANDONED};
    use serde_json::{Value, json};

    fn run_with(validity_ms: u64) -> Vec<Event> {
        let line = |index: u64, process: Value, kind: &str, f: &str, value: Value| {
            let event = json!({"index": index, "time": index, "process": process, "type": kind, "f": f, "key": "a", "value": value});
            serde_json::from_value::<Event>(event).unwrap()
        };
        let gave_up = json!({"process": 1, "key": "a", "late_ms": 5});
        vec![
            line(0, json!(1), "invoke", "acquire", json!({"ttl_ms": 2000})),
            line(1, json!(1), "ok", "acquire", json!({"validity_ms": validity_ms})),
            line(2, json!("nemesis"), "info", SECTION_ABANDONED, gave_up),
        ]
    }

    fn said(events: &[Event]) -> Option<String> {
        abandoned(&RunIndex::new(events).unwrap())
    }

    #[test]
    fn says_how_many_sections_were_abandoned_and_why() {
        let waited = said(&run_with(1000)).unwrap();
        assert!(waited.starts_with("Fencepost abandoned 1 of 1 critical sections"), "{waited}");
        assert!(waited.contains("In 1 of them half of the lease") && waited.contains("env.poll"), "{waited}");
        let slow = said(&run_with(1001)).unwrap();
        assert!(slow.contains("the machine was too slow") && !slow.contains("env.poll"), "{slow}");
        assert_eq!(said(&run_with(1000)[..2]), None);
    }
}
