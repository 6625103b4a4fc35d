//! What a panic says: one sentence to the reader, and the exit code of a failure.

use crate::exit::FAILED;
use crate::output::complain;
use std::any::Any;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};

/// Gives the exit code of `main`, or of a failure where it panics. `RUST_BACKTRACE=1` shows where.
pub fn caught(main: impl FnOnce() -> i32) -> i32 {
    let with_trace = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    let default = take_hook();
    set_hook(Box::new(move |panic| {
        complain!("fencepost: {}", sentence(&message(panic.payload()), &place(panic)));
        if with_trace {
            default(panic);
        }
    }));
    catch_unwind(AssertUnwindSafe(main)).unwrap_or(FAILED)
}

fn message(payload: &(dyn Any + Send)) -> String {
    let said = payload.downcast_ref::<String>().map(String::as_str);
    said.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no reason was given").to_owned()
}

fn place(panic: &PanicHookInfo<'_>) -> String {
    panic.location().map_or_else(|| "a place that is not known".to_owned(), ToString::to_string)
}

/// Libraries panic where a thread cannot be started, or random numbers are missing: the machine's refusal.
fn sentence(message: &str, place: &str) -> String {
    if message.contains("spawn") && message.contains("thread") || message.contains("ThreadPoolBuildError") {
        return format!(
            "the system starts no more threads ({message}): raise the limit of memory (ulimit -v), of processes (ulimit -u), or of \
             the control group (pids.max)"
        );
    }
    if ["ThreadRng", "random data"].iter().any(|words| message.contains(words)) {
        return format!(
            "the system gives no random numbers ({message}): /dev/random and /dev/urandom must be there and readable"
        );
    }
    format!(
        "a defect of Fencepost at {place}: {message}. Please report it with the command that showed it; with RUST_BACKTRACE=1 it \
         says more"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_threads_or_random_numbers_is_no_defect() {
        let refused =
            sentence("OS can't spawn worker thread: Resource temporarily unavailable", "runtime.rs:1:1");
        assert!(
            refused.starts_with("the system starts no more threads") && refused.contains("ulimit"),
            "{refused}"
        );
        let refused = sentence("could not initialize ThreadRng: No such file or directory", "thread.rs:1:1");
        assert!(
            refused.starts_with("the system gives no random numbers") && refused.contains("/dev/urandom"),
            "{refused}"
        );
        let defect = sentence("index out of bounds", "src/lib.rs:7:1");
        assert!(
            defect.starts_with("a defect of Fencepost at src/lib.rs:7:1: index out of bounds."),
            "{defect}"
        );
    }
}
