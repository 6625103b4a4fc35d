//! A user's folder of programs: its content, and the commands that make it ready.
//!
//! ```text
//! definition.rs ─► content.rs (list, hash, copy) ─► work_folder.rs (copied and built) ─► the drivers: `setup`, where it runs
//! ```

mod commands;
mod content;
mod definition;
mod sources;
mod variables;
mod work_folder;

pub(crate) use commands::{CommandRoot, Commands, SetupPlan};
pub(crate) use content::FolderContent;
pub use content::check_file;
pub use definition::Environment;
pub(crate) use definition::PLACE;
pub(crate) use sources::{environments, note_source, source_is_gone, source_name};
pub(crate) use variables::{USUAL_PATH, certificates, variables_in_an_image};
pub(crate) use work_folder::{WorkFolder, remove_abandoned};
