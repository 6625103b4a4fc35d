//! The language of a `[[fault]]` of plans and scenarios (`docs/nemeses.md`), earlier forms included.

mod event;
mod read;
mod write;

pub use event::AwaitedEvent;
pub use read::{FAULT_KEYS, FaultEntry, fault_of_json};
pub use write::fault_text;
