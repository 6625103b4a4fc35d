//! The language in which people write a fault: a `[[fault]]` of a plan or of a scenario. `docs/nemeses.md`
//! describes it; the forms of earlier versions (`at_ms`, `for_ms`, groups as lists, events as tables) are
//! read as well.
//!
//! `read` reads a fault, with the help of `event`; `write` writes one.

mod event;
mod read;
mod write;

pub use event::AwaitedEvent;
pub use read::{FAULT_KEYS, FaultEntry};
pub use write::fault_text;
