//! Fair order: a lock that keeps a queue grants in the order of arrival that its service recorded (a sequence
//! number, a create revision). It is looked at where the workload measures waiting, or the lock claims it.
//!
//! - *Violation*, `out-of-order`: a process was granted the lock certainly before another one, whose
//!   acquire was under way and whose place in the queue is the earlier one.
//! - *Not judged*: grants have no place in a queue.

use super::checker::{Checker, FindingClass, NotJudged};
use crate::figures::{Figures, figures};
use crate::prose::seconds;
use crate::run_index::{Hold, RunIndex};
use crate::verdict::{Finding, Verdict};
use rustc_hash::FxHashMap;

figures! {
    /// Grants of a queue.
    OrderFigures of "order" {
        grants: u64,
        out_of_order: u64,
    }
}

const OUT_OF_ORDER: &str = "out-of-order";

pub(super) const ORDER: Checker = Checker {
    classes: &[FindingClass {
        name: OUT_OF_ORDER,
        meaning: "A process got the lock although another one stood before it in the queue that the service keeps.",
        advice: "Let each waiter look whether it is the first of the queue whenever it is woken.",
    }],
    ..Checker::of::<OrderFigures>(
        "fair order: a lock with a queue is granted in the order of arrival that its service recorded",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let is_claimed = run.lock.properties.iter().flatten().any(|property| property == OrderFigures::CHECKER);
    let mut grants = 0;
    let mut last: FxHashMap<&str, (u64, &Hold)> = FxHashMap::default();
    let mut findings = Vec::new();
    for (_, hold) in run.excluding_holds() {
        let acquire = &run.operations[hold.acquire];
        let arrival = acquire.ok().and_then(|answer| answer.value.get("arrival")?.as_u64());
        let Some(arrival) = arrival.filter(|_| is_claimed || acquire.asked().queue == Some(true)) else {
            continue;
        };
        grants += 1;
        let (last_arrival, before) = *last.entry(hold.key).or_insert((arrival, hold));
        if last_arrival <= arrival {
            last.insert(hold.key, (arrival, hold));
        } else if acquire.invoke.index < before.from && before.excludes(hold) && hold.came_after(before) {
            findings.push(out_of_order((last_arrival, before), (arrival, hold)));
        }
    }
    if grants == 0 {
        return Err(NotJudged::OTHER_WORKLOAD);
    }
    let figures = OrderFigures { grants, out_of_order: findings.len() as u64 };
    let valid = format!("{grants} grants came in the order of arrival");
    Ok(checker.judged_by_first(valid, &figures, findings))
}

fn out_of_order((behind, first): (u64, &Hold), (ahead, second): (u64, &Hold)) -> Finding {
    let [asked, granted] = [second.invoke_ns, second.from_ns].map(seconds);
    let sentence = format!(
        "{} with place {behind} of the queue, before process {}, which had waited since {asked} with place {ahead} and was granted \
         it at {granted}",
        first.was_granted(),
        second.process,
    );
    Finding::new(OUT_OF_ORDER, second.key, second.from_ns, vec![first.from, second.from], sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

    /// Process 2 waits with this place while process 3 is granted the lock with place 12.
    fn queue(place: u64) -> String {
        format!(
            "0 nemesis info lock - {{name:\"x\",lease:\"session\"}}
             0  1 invoke acquire a {{queue:true}}
             1  1 ok     acquire a {{arrival:10}}
             2  2 invoke acquire a {{queue:true}}
             3  3 invoke acquire a {{queue:true}}
             10 1 invoke release a
             11 1 ok     release a {{believed:true}}
             12 3 ok     acquire a {{arrival:12}}
             20 3 invoke release a
             21 3 ok     release a {{believed:true}}
             22 2 ok     acquire a {{arrival:{place}}}"
        )
    }

    #[test]
    fn rejects_a_grant_to_one_that_stands_behind_another() {
        let judged = verdict(&ORDER, &queue(11));
        assert_eq!(judged.outcome, Outcome::Violation);
        assert_eq!(
            judged.findings[0].sentence,
            "process 3 was granted a at 0.012 s with place 12 of the queue, before process 2, which had waited since 0.002 s with \
             place 11 and was granted it at 0.022 s"
        );
    }

    #[test]
    fn accepts_grants_in_the_order_of_arrival() {
        assert_eq!(verdict(&ORDER, &queue(13)).outcome, Outcome::Valid);
    }

    #[test]
    fn an_acquire_that_began_later_was_in_no_earlier_place() {
        // The service lost its memory, and counts anew.
        let later = queue(11)
            .replace("2  2 invoke acquire a {queue:true}\n", "")
            .replace("22 2 ok ", "21 2 invoke acquire a {queue:true}\n22 2 ok ");
        assert_eq!(verdict(&ORDER, &later).outcome, Outcome::Valid);
    }

    #[test]
    fn an_answer_that_came_late_says_nothing_of_the_grant() {
        // Process 3 may have asked long before: its own grant may be the earlier one.
        let late = queue(11)
            .replace("12 3 ok     acquire a {arrival:12}\n", "")
            .replace("20 3 invoke release a\n             21 3 ok     release a {believed:true}\n", "");
        let late = late + "\n23 3 ok acquire a {arrival:12}";
        assert_eq!(verdict(&ORDER, &late).outcome, Outcome::Valid);
    }

    #[test]
    fn has_nothing_to_say_without_a_queue() {
        assert_eq!(maybe_verdict(&ORDER, &queue(11).replace("{queue:true}", "null")), None);
        let claimed =
            queue(11).replace("{queue:true}", "null").replace("name:", "properties:[\"order\"],name:");
        assert_eq!(verdict(&ORDER, &claimed).outcome, Outcome::Violation);
    }
}
