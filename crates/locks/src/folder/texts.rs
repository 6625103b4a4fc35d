//! Limits of texts in a `lock.toml`: they become words of commands, names of folders, lines on a terminal.

use fencepost_history::mistake::Mistake;
use fencepost_history::{Refusal, TimeSpan, is_steering};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// How long a client may take to answer the hello, where its `lock.toml` says nothing.
pub(super) const START_TIME: Duration = Duration::from_secs(20);

const START_TIME_MAX: Duration = Duration::from_secs(3600);

/// Refuses control characters but for breaks of lines and tabs, in all texts of a table.
pub(super) fn check(table: &DeTable<'_>) -> Result<(), Mistake> {
    table.values().try_for_each(check_value)
}

fn check_value(value: &Spanned<DeValue<'_>>) -> Result<(), Mistake> {
    match value.get_ref() {
        DeValue::String(text) if text.contains(is_control) => {
            Err(Mistake::new(value.span(), "a text with control characters; leave them out"))
        }
        DeValue::Array(values) => values.iter().try_for_each(check_value),
        DeValue::Table(table) => check(table),
        _ => Ok(()),
    }
}

fn is_control(c: char) -> bool {
    is_steering(c) && !matches!(c, '\n' | '\t')
}

/// Refuses the name of a folder that would be a bad name of a lock: runs, logs and images are called by it.
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    match name.contains(is_steering) {
        true => Err(format!("the folder's name {name:?} has control characters; give it another").into()),
        false => Ok(()),
    }
}

/// Refuses what is no name of a Debian package, such as an option of the program that downloads it.
pub(super) fn check_package(name: &str) -> Result<(), Refusal> {
    let is_of_names = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_of_names);
    // To apt a hyphen at the end means that the package is to go.
    match is_name && !name.ends_with('-') {
        true => Ok(()),
        false => Err(format!("{name:?} is no name of a Debian package").into()),
    }
}

pub(super) fn ttl_step(given: Option<TimeSpan>) -> Result<Option<TimeSpan>, Refusal> {
    match given {
        Some(TimeSpan(Duration::ZERO)) => {
            Err(Refusal::new("ttl-step is 0s: leave it out where any TTL can be asked for"))
        }
        step => Ok(step),
    }
}

pub(super) fn start_time(given: Option<TimeSpan>, usual: Duration) -> Result<Duration, Refusal> {
    match given.map_or(usual, |time| time.0) {
        Duration::ZERO => Err(Refusal::new("start-time is 0s: no program starts in no time")),
        time if time > START_TIME_MAX => {
            Err(format!("start-time is {} at most, not {}", TimeSpan(START_TIME_MAX), TimeSpan(time)).into())
        }
        time => Ok(time),
    }
}
