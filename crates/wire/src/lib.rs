//! Connections between our own programs: one that is replaced when it breaks.

mod reconnecting;

pub use reconnecting::{Connected, Reconnecting};
