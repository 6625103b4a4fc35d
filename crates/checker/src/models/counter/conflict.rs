//! The core of a violation.
//!
//! Let an earlier read that saw v be complete before a later one begins. All additions that began and ended
//! between them are in what the later one sees, so it cannot have seen less than v plus their sum; and only
//! those that were open at some moment from the beginning of the earlier to the end of the later read can
//! have been added. The nearest earlier read against which the later one is wrong (or the beginning, when the
//! counter was 0) and these additions are the core.

use super::operation::{CounterHistory, CounterOp};
use crate::model::Conflict;

/// Finds the nearest earlier read against which this one is wrong; see the top of the file.
pub(super) fn conflict(history: &CounterHistory, stuck: u32) -> Conflict {
    let later = &history.list[stuck as usize];
    let saw = saw(history, stuck);
    // Walking back from the later read: additions that began and ended in between, and those that only
    // overlap.
    let (mut within, mut sum_within) = (Vec::new(), 0_i64);
    let mut maybe = open_during(history, stuck);
    let mut sum_maybe: i64 = maybe.iter().map(|&at| amount(history, at)).sum();
    // The greatest lower bound so far seen for a read whose window reaches back beyond its own invocation.
    let mut open_reads: Vec<(u32, i64)> = Vec::new();
    for &event in history.order[..later.invoke as usize].iter().rev() {
        let at = event >> 1;
        let operation = &history.list[at as usize];
        let begins = event & 1 == 0;
        match (operation.op, operation.ret) {
            (CounterOp::Add(amount), _) if amount != 0 => {
                if begins && operation.complete < later.invoke {
                    within.push(at);
                    sum_within += amount;
                } else if !begins {
                    maybe.push(at);
                    sum_maybe += amount;
                }
            }
            (CounterOp::Read, Some(Some(value))) if !begins => {
                if value.saturating_add(sum_within) > saw {
                    return too_little(history, stuck, Some(at), within);
                }
                open_reads.push((at, value));
            }
            (CounterOp::Read, Some(Some(value))) => {
                let complete = open_reads.iter().any(|(read, _)| *read == at);
                open_reads.retain(|(read, _)| *read != at);
                if complete && value.saturating_add(sum_maybe) < saw {
                    return too_much(history, stuck, Some(at), maybe);
                }
            }
            _ => {}
        }
    }
    if sum_within > saw {
        return too_little(history, stuck, None, within);
    }
    if sum_maybe < saw {
        return too_much(history, stuck, None, maybe);
    }
    no_sum(history, stuck)
}

/// What an operation adds.
fn amount(history: &CounterHistory, at: u32) -> i64 {
    match history.list[at as usize].op {
        CounterOp::Add(amount) => amount,
        CounterOp::Read => 0,
    }
}

/// The additions that were under way at some moment of a read.
fn open_during(history: &CounterHistory, read: u32) -> Vec<u32> {
    let read = &history.list[read as usize];
    let (invoke, complete) = (read.invoke as usize, read.complete as usize);
    let during = begun(&history.order[invoke..complete]);
    let before = begun(&history.order[..invoke]);
    let still_open = before.filter(|&at| history.list[at as usize].complete > read.invoke);
    during.chain(still_open).filter(|&at| amount(history, at) != 0).collect()
}

/// The operations that begin with one of these events.
fn begun(events: &[u32]) -> impl Iterator<Item = u32> {
    events.iter().filter(|&event| event & 1 == 0).map(|event| event >> 1)
}

fn no_sum(history: &CounterHistory, stuck: u32) -> Conflict {
    let sentence = format!(
        "process {} read {} by {}, which is no sum of additions",
        history.process(stuck),
        saw(history, stuck),
        history.completed(stuck)
    );
    Conflict::new(vec![stuck], stuck, sentence)
}

fn too_little(history: &CounterHistory, stuck: u32, earlier: Option<u32>, within: Vec<u32>) -> Conflict {
    let added = match within.len() {
        0 => String::new(),
        count => format!(" and {} added to it", additions(count, "was", "were")),
    };
    let sentence = format!(
        "process {} read {} from {} on, although before that read began {}{added}",
        history.process(stuck),
        saw(history, stuck),
        history.invoked(stuck),
        since(history, earlier),
    );
    let focus = earlier.into_iter().collect();
    Conflict::new(within.into_iter().chain(earlier).chain([stuck]).collect(), stuck, sentence)
        .with_focus(focus)
}

fn too_much(history: &CounterHistory, stuck: u32, earlier: Option<u32>, maybe: Vec<u32>) -> Conflict {
    let sentence = format!(
        "process {} read {} by {}, although {} and only {} under way from then until that read ended",
        history.process(stuck),
        saw(history, stuck),
        history.completed(stuck),
        since(history, earlier),
        additions(maybe.len(), "was", "were"),
    );
    let focus = earlier.into_iter().collect();
    Conflict::new(maybe.into_iter().chain(earlier).chain([stuck]).collect(), stuck, sentence)
        .with_focus(focus)
}

fn saw(history: &CounterHistory, read: u32) -> i64 {
    history.list[read as usize].ret.flatten().unwrap_or(0)
}

fn since(history: &CounterHistory, earlier: Option<u32>) -> String {
    match earlier {
        Some(read) => format!(
            "process {} had read {} (from {} to {})",
            history.process(read),
            saw(history, read),
            history.invoked(read),
            history.completed(read)
        ),
        None => "the counter began as 0".to_owned(),
    }
}

fn additions(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 addition {one}") } else { format!("{count} additions {many}") }
}
