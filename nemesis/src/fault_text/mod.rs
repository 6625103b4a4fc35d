//! The language of a `[[fault]]` of a plan or a scenario, see `docs/nemeses.md`; earlier forms (`at_ms`,
//! `for_ms`, groups as lists, events as tables) are read as well. `read` reads a fault, with `event`; `write`
//! writes one.

mod event;
mod read;
mod write;

pub use event::AwaitedEvent;
pub use read::{FAULT_KEYS, FaultEntry, fault_of_json};
pub use write::fault_text;
