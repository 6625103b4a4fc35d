//! Fields of an event, as all formats write them.

use anyhow::Result;
use fencepost_history::Event;

/// Events, one by one: however long a history is, little of it is in memory.
pub type EventSource<'a> = &'a mut dyn Iterator<Item = Result<Event>>;

/// A value as JSON text; none for null, so that a table has an empty cell there.
pub fn value_text(event: &Event) -> Option<String> {
    (!event.value.is_null()).then(|| event.value.to_string())
}
