//! What a user's programs may use of a node: memory, and programs and threads.
//!
//! The kernel enforces the limits ([`control_groups`](crate::confinement::control_groups), sizes of file
//! systems). The agent looks ten times a second at what it can see anywhere, ends all programs of a node that
//! use more, and says what it was. Limits of the kernel for one program would not do for memory: one of
//! address space breaks programs that reserve much and use little (Java, Node.js, Go).

use super::children::processes;
use super::memory_use::{machine_has, uses_more};
use super::output::Out;
use crate::protocol::{FromAgent, NodeLimits, TASKS_MAX};
use nix::sys::signal::Signal;
use std::time::Duration;

/// A program that takes memory as fast as it can takes some hundred megabytes meanwhile.
const LOOK: Duration = Duration::from_millis(100);

/// Where the kernel counts no memory of a node, its programs end while only this part is left.
const LEFT: u64 = 25;

/// How long programs stand still before a kill, so that the reason leaves before their streams close.
const NOTE: Duration = Duration::from_millis(100);

pub(super) async fn keep(limits: NodeLimits, counted: bool, out: Out) {
    // Elsewhere than in a node of its own the agent would end programs that are none of its business.
    if std::process::id() != 1 {
        return;
    }
    let end = move |sentence: String| {
        signal_all(Signal::SIGSTOP);
        let line = format!("{}{sentence}", crate::LIMIT_NOTE);
        out.report(FromAgent::Log { service: "agent".to_owned(), line });
        std::thread::sleep(NOTE);
        signal_all(Signal::SIGKILL);
    };
    let of_tasks = end.clone();
    // Programs that fork without end multiply while memory is added up: another thread counts them.
    std::thread::spawn(move || watch_tasks(&of_tasks));
    watch_memory(limits, counted, &end).await;
}

fn watch_tasks(end: &impl Fn(String)) {
    loop {
        std::thread::sleep(LOOK);
        if others().count() as u64 > TASKS_MAX || sum(tasks) > TASKS_MAX {
            end(format!("started more than {TASKS_MAX} programs and threads"));
        }
    }
}

async fn watch_memory(limits: NodeLimits, counted: bool, end: &(impl Fn(String) + Clone + Send + 'static)) {
    loop {
        tokio::time::sleep(LOOK).await;
        let end = end.clone();
        let looked = tokio::task::spawn_blocking(move || {
            let programs: Vec<i32> = others().collect();
            if uses_more(&programs, limits.memory_bytes) {
                end(limits.too_much_memory());
            } else if !counted && machine_has().is_some_and(|(available, total)| available < total / LEFT) {
                end(format!("ran while the machine's memory ran out: less than 1/{LEFT} was left"));
            }
        });
        let _ = looked.await;
    }
}

pub(super) fn others() -> impl Iterator<Item = i32> {
    processes().filter(|pid| *pid != 1)
}

fn sum(of: fn(i32) -> Option<u64>) -> u64 {
    others().filter_map(of).sum()
}

fn tasks(pid: i32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything.
    text.rsplit_once(") ")?.1.split(' ').nth(17)?.parse().ok()
}

pub(super) fn end_all() {
    if std::process::id() == 1 {
        signal_all(Signal::SIGKILL);
    }
}

/// To process 1, "all" are those of its node but itself: at once, so that none starts another meanwhile.
fn signal_all(signal: Signal) {
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(tasks(me).unwrap() >= 2, "the test has a thread of its own");
    }
}
