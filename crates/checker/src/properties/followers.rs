//! Followers of an election: what a client is answered that asks who leads. Every process leads under its own
//! number. Source: the operation `leader` of etcd's `Election` and of Kubernetes' leader election.
//!
//! - *Violation*, `never-led`: the answer names a process that had not campaigned before it came.
//! - *Violation*, `went-back`: a process asked, and asked again; the second answer names a leader whose
//!   leadership was certainly over before the first question, which named another.
//! - How old an answer was at most is a figure: no follower can know sooner than its messages come.

use super::checker::{Blame, Checker, FindingClass, NotJudged};
use crate::figures::figures;
use crate::prose::{lock, seconds};
use crate::run_index::{Operation, RunIndex};
use crate::verdict::{Finding, Verdict};
use fencepost_history::{Grant, LockKind, f};
use rustc_hash::FxHashMap;

figures! {
    /// Answers to the question who leads.
    FollowersFigures of "followers" {
        answers: u64,
        wrong: u64,
        /// The longest time for which an answer named a leader whose leadership was certainly over.
        late_ms: u64,
    }
}

const NEVER_LED: &str = "never-led";
const WENT_BACK: &str = "went-back";

pub(super) const FOLLOWERS: Checker = Checker {
    classes: &[
        FindingClass {
            name: NEVER_LED,
            meaning: "A client named a leader that had never campaigned.",
            advice: "Answer with the identity in the record that elects, which its candidate wrote.",
        },
        FindingClass {
            name: WENT_BACK,
            meaning: "A client named an earlier leader after it had named a later one.",
            advice: "Compare the terms of two answers, and keep the later one.",
        },
    ],
    claim: Some("exclusion"),
    blame: Blame::Library,
    kind: Some(LockKind::Election),
    ..Checker::of::<FollowersFigures>(
        "followers: a client that is asked for the leader names one that leads, and never goes back to an earlier one",
        check,
    )
};

fn check(checker: &Checker, run: &RunIndex) -> Result<Verdict, NotJudged> {
    let leaderships = Leaderships::of(run);
    let (mut answers, mut late_ns, mut findings) = (0, 0, Vec::new());
    let mut before: FxHashMap<(u64, &str), Answer> = FxHashMap::default();
    for answer in run.operations.iter().filter_map(Answer::of) {
        answers += 1;
        let over_ns = match leaderships.at(answer) {
            Leads::Maybe => None,
            Leads::OverSince(over_ns) => Some(over_ns),
            Leads::Never => {
                findings.push(never_led(answer));
                continue;
            }
        };
        if let Some(over_ns) = over_ns {
            late_ns = late_ns.max(answer.asked_ns - over_ns);
        }
        let asker = (answer.process, answer.key);
        let last = before.get(&asker).filter(|last| last.leader != answer.leader);
        match (last, over_ns) {
            (Some(last), Some(over_ns)) if over_ns < last.asked_ns => {
                findings.push(went_back(*last, answer, over_ns));
            }
            _ => {
                before.insert(asker, answer);
            }
        }
    }
    if answers == 0 {
        return Err(NotJudged::OTHER_WORKLOAD);
    }
    let figures = FollowersFigures { answers, wrong: findings.len() as u64, late_ms: late_ns / 1_000_000 };
    let late = match late_ns {
        0 => "none named a leader that had certainly gone".to_owned(),
        late_ns => format!("the oldest named a leader that had been gone for {}", seconds(late_ns)),
    };
    let summary = match findings.len() {
        0 => format!("of {answers} answers to who leads, {late}"),
        wrong => format!("{wrong} of {answers} answers to who leads were wrong"),
    };
    Ok(checker.judged(summary, &figures, findings))
}

/// An answer that names a leader.
#[derive(Clone, Copy)]
struct Answer<'a> {
    process: u64,
    key: &'a str,
    leader: u64,
    asked_ns: u64,
    answered_ns: u64,
    event: u64,
}

impl<'a> Answer<'a> {
    fn in_words(&self) -> String {
        let (process, leader, at) = (self.process, self.leader, seconds(self.answered_ns));
        format!("process {process} was answered at {at} that process {leader} leads {}", lock(self.key))
    }

    fn of(operation: &Operation<'a>) -> Option<Answer<'a>> {
        let answer = operation.ok().filter(|_| operation.f() == f::LEADER)?;
        Some(Answer {
            process: operation.process,
            key: operation.key,
            leader: answer.value.as_u64()?,
            asked_ns: operation.invoke.time,
            answered_ns: answer.time,
            event: answer.index,
        })
    }
}

enum Leads {
    /// It may have led while the question was under way.
    Maybe,
    OverSince(u64),
    Never,
}

/// When each process may have led: from where it asked for it to where it certainly no longer did.
struct Leaderships<'a>(FxHashMap<(u64, &'a str), Vec<(u64, u64)>>);

impl<'a> Leaderships<'a> {
    fn of(run: &RunIndex<'a>) -> Leaderships<'a> {
        let later_terms = LaterTerms::of(run);
        let mut of_process: FxHashMap<_, Vec<(u64, u64)>> = FxHashMap::default();
        for operation in &run.operations {
            let leads = of_process.entry((operation.process, operation.key));
            match (operation.f(), operation.completion) {
                // It may have been elected before it gave up.
                (f::ACQUIRE, Some(gave_up)) if operation.did_not_happen() => {
                    leads.or_default().push((operation.invoke.time, gave_up.time));
                }
                (f::ACQUIRE, _) => {
                    let term = operation.ok().and_then(|granted| Grant::of(&granted.value).token);
                    let until_ns = term.and_then(|term| later_terms.elected_after(operation.key, term));
                    leads.or_default().push((operation.invoke.time, until_ns.unwrap_or(u64::MAX)));
                }
                (f::RELEASE, Some(resigned)) if operation.ok().is_some() => {
                    for (_, until_ns) in leads.or_default().iter_mut() {
                        *until_ns = (*until_ns).min(resigned.time);
                    }
                }
                _ => {}
            }
        }
        Leaderships(of_process)
    }

    fn at(&self, answer: Answer) -> Leads {
        let all = self.0.get(&(answer.leader, answer.key));
        let began = all.into_iter().flatten().filter(|(from_ns, _)| *from_ns < answer.answered_ns);
        match began.map(|(_, until_ns)| *until_ns).max() {
            None => Leads::Never,
            Some(until_ns) if until_ns < answer.asked_ns => Leads::OverSince(until_ns),
            Some(_) => Leads::Maybe,
        }
    }
}

/// Of each key its terms in order, each with the first moment by which it, or a later one, had begun.
struct LaterTerms<'a>(FxHashMap<&'a str, Vec<(i64, u64)>>);

impl<'a> LaterTerms<'a> {
    fn of(run: &RunIndex<'a>) -> LaterTerms<'a> {
        let mut terms: FxHashMap<&str, Vec<(i64, u64)>> = FxHashMap::default();
        for hold in &run.holds {
            if let Some(term) = hold.token {
                terms.entry(hold.key).or_default().push((term, hold.from_ns));
            }
        }
        for terms in terms.values_mut() {
            terms.sort_unstable();
            let mut first_ns = u64::MAX;
            for (_, from_ns) in terms.iter_mut().rev() {
                first_ns = first_ns.min(*from_ns);
                *from_ns = first_ns;
            }
        }
        LaterTerms(terms)
    }

    fn elected_after(&self, key: &str, term: i64) -> Option<u64> {
        let terms = self.0.get(key)?;
        let later = terms.partition_point(|(other, _)| *other <= term);
        terms.get(later).map(|(_, from_ns)| *from_ns)
    }
}

fn never_led(answer: Answer) -> Finding {
    let sentence = format!("{}, which had not campaigned", answer.in_words());
    finding(NEVER_LED, answer, vec![answer.event], sentence)
}

fn went_back(first: Answer, second: Answer, over_ns: u64) -> Finding {
    let [again, over] = [second.answered_ns, over_ns].map(seconds);
    let sentence = format!(
        "{}, and at {again} that process {} does, whose leadership had ended at {over}",
        first.in_words(),
        second.leader,
    );
    finding(WENT_BACK, second, vec![first.event, second.event], sentence)
}

fn finding(class: &str, answer: Answer, events: Vec<u64>, sentence: String) -> Finding {
    Finding::new(class, answer.key, answer.answered_ns, events, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::literal::{maybe_verdict, verdict};
    use crate::verdict::Outcome;

    /// Process 1 leads and resigns, and then process 2 leads; process 3 asks.
    fn asked(answers: &str) -> String {
        format!(
            "0 nemesis info lock - {{name:\"x\",kind:\"election\"}}
             10 1 invoke acquire a\n20 1 ok acquire a\n30 1 invoke release a\n40 1 ok release a {{believed:true}}
             50 2 invoke acquire a\n60 2 ok acquire a\n{answers}"
        )
    }

    #[test]
    fn rejects_a_leader_that_was_never_elected() {
        let verdict = verdict(&FOLLOWERS, &asked("70 3 invoke leader a\n80 3 ok leader a 5"));
        assert_eq!((verdict.outcome, &*verdict.findings[0].class), (Outcome::Violation, NEVER_LED));
        assert_eq!(
            verdict.findings[0].sentence,
            "process 3 was answered at 0.080 s that process 5 leads a, which had not campaigned"
        );
    }

    #[test]
    fn a_candidate_that_gave_up_may_have_been_elected_before() {
        let gave_up =
            "62 5 invoke acquire a\n72 5 fail acquire a null taken\n71 3 invoke leader a\n80 3 ok leader a 5";
        let mut lines: Vec<&str> = gave_up.lines().collect();
        lines.swap(1, 2);
        assert_eq!(verdict(&FOLLOWERS, &asked(&lines.join("\n"))).outcome, Outcome::Valid);
    }

    const BACK: &str = "70 3 invoke leader a\n80 3 ok leader a 2\n90 3 invoke leader a\n95 3 ok leader a 1";

    #[test]
    fn rejects_an_answer_that_goes_back() {
        let verdict = verdict(&FOLLOWERS, &asked(BACK));
        assert_eq!((verdict.outcome, &*verdict.findings[0].class), (Outcome::Violation, WENT_BACK));
        assert_eq!(
            verdict.findings[0].sentence,
            "process 3 was answered at 0.080 s that process 2 leads a, and at 0.095 s that process 1 does, whose leadership had \
             ended at 0.040 s"
        );
    }

    #[test]
    fn a_later_term_ends_a_leadership_that_was_not_resigned() {
        let killed = asked(BACK)
            .replace("30 1 invoke release a\n40 1 ok release a {believed:true}", "")
            .replace("20 1 ok acquire a", "20 1 ok acquire a {token:7}")
            .replace("60 2 ok acquire a", "60 2 ok acquire a {token:9}");
        assert_eq!(verdict(&FOLLOWERS, &killed).findings[0].class, WENT_BACK);
        let without_terms = killed.replace("{token:7}", "").replace("{token:9}", "");
        assert_eq!(verdict(&FOLLOWERS, &without_terms).outcome, Outcome::Valid, "it may lead again");
    }

    #[test]
    fn accepts_late_answers_and_counts_how_late() {
        let late = verdict(
            &FOLLOWERS,
            &asked("70 3 invoke leader a\n80 3 ok leader a 1\n90 3 invoke leader a\n95 3 ok leader a 2"),
        );
        assert_eq!(late.outcome, Outcome::Valid);
        assert_eq!(
            late.summary,
            "of 2 answers to who leads, the oldest named a leader that had been gone for 0.030 s"
        );
        let again = format!("62 1 invoke acquire a\n{BACK}\n99 1 ok acquire a");
        assert_eq!(verdict(&FOLLOWERS, &asked(&again)).outcome, Outcome::Valid, "it was elected once more");
        let none = verdict(
            &FOLLOWERS,
            &asked("35 3 invoke leader a\n36 3 ok leader a 1\n45 3 invoke leader a\n46 3 ok leader a null"),
        );
        assert_eq!(none.summary, "of 1 answers to who leads, none named a leader that had certainly gone");
    }

    #[test]
    fn has_nothing_to_say_where_no_process_asked() {
        assert_eq!(
            maybe_verdict(&FOLLOWERS, &asked("70 2 invoke release a\n71 2 ok release a {believed:true}")),
            None
        );
    }
}
