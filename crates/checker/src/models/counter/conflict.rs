//! The core of a violation.
//!
//! Let an earlier read that saw v be complete before a later one begins. All additions that began and ended
//! between them are in what the later one sees, so it cannot have seen less than v plus their sum; and only those
//! that were open at some moment from the beginning of the earlier to the end of the later read can have been
//! added. The nearest earlier read against which the later one is wrong (or the beginning, when the counter was
//! 0) and these additions are the core.

use super::operation::{CounterHistory, CounterOp};
use crate::model::Conflict;

/// Finds the nearest earlier read against which this one is wrong; see the top of the file.
pub(super) fn conflict(history: &CounterHistory, stuck: u32) -> Conflict {
    let later = &history.list[stuck as usize];
    let saw = later.ret.flatten().unwrap_or(0);
    let by = |at: u32| match history.list[at as usize].op {
        CounterOp::Add(by) => by,
        CounterOp::Read => 0,
    };
    // Walking back from the later read: additions that began and ended in between, and those that only overlap.
    let (mut within, mut sum_within) = (Vec::new(), 0_i64);
    let (mut maybe, mut sum_maybe) = (Vec::new(), 0_i64);
    for &event in &history.order[later.invoke as usize..later.complete as usize] {
        if event & 1 == 0 {
            maybe.push(event >> 1);
        }
    }
    for &event in &history.order[..later.invoke as usize] {
        if event & 1 == 0 && history.list[(event >> 1) as usize].complete > later.invoke {
            maybe.push(event >> 1);
        }
    }
    maybe.retain(|&at| by(at) != 0);
    sum_maybe += maybe.iter().map(|&at| by(at)).sum::<i64>();
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
    let sentence = format!(
        "process {} read {saw} by {}, which is no sum of additions",
        history.process(stuck),
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
