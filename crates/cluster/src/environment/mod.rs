//! A user's folder of programs: its content, and the commands that make it ready.
//!
//! ```text
//! definition.rs ─► content.rs (list, hash, copy) ─► stage.rs (copied and built) ─► the drivers: `setup`, where it runs
//! ```

mod commands;
mod content;
mod definition;
mod sources;
mod stage;
mod variables;

pub(crate) use commands::{Commands, Place, Plan};
pub(crate) use content::Content;
pub use definition::Environment;
pub(crate) use definition::PLACE;
pub(crate) use sources::{environments, note_source, source_is_gone, source_name};
pub(crate) use stage::{Stage, remove_abandoned};
pub(crate) use variables::{USUAL_PATH, certificates, variables_in_an_image};
