//! A hunt: plays schedules, several at a time, learns from each, and keeps what it finds.

mod corpus;
#[cfg(test)]
mod earned_tests;
mod effects;
mod finding_queue;
mod first_check;
mod fit;
mod folder;
mod known;
mod limited;
mod merge;
mod observer;
mod part;
mod progress;
mod reference;
mod request;
mod room;
mod run;
mod seen_violation;
mod state;
#[cfg(test)]
mod tests;
mod whole_seconds;

pub use corpus::kept_in;
pub use fit::{NotApplicable, every_nemesis, fitting};
pub use folder::{HuntFolder, HuntState};
pub use known::known_findings;
pub use limited::Limited;
pub use merge::{merge, write_merged};
pub use observer::{HuntObserver, Status};
pub use request::HuntRequest;
pub use run::{HuntEnd, new_file};
pub use state::{Hunt, HuntParts};
