use crate::run_index::Operation;
use fencepost_history::Event;

/// Whether a slow machine explains the error: no answer or majority in time, a lost session, a late lease.
pub(crate) fn is_by_slowness(end: &Event) -> bool {
    end.error.as_ref().is_some_and(|error| error.code().kind().is_by_slowness())
}

/// Whether a slow machine explains how more than half of these attempts failed.
pub(crate) fn are_by_slowness(attempts: &[&Operation]) -> bool {
    let slow = attempts.iter().filter(|acquire| acquire.completion.is_some_and(is_by_slowness));
    2 * slow.count() > attempts.len()
}
