//! How parts of Fencepost that run in different processes speak to each other: requests and answers as lines
//! of JSON.
//!
//! The controller and a client program, the controller and a node's agent, a client program and the storage:
//! each of these pairs has its own messages, and all use these parts.
//!
//! ```text
//! RequestClient ──► LineWriter ══ {"id":1,…} ══► LineReader ──► the other end
//!       ▲                                                         │
//!       └────────── LineReader ◄══ {"id":1,…} ══ LineWriter ◄─────┘
//! ```

mod lines;
mod reconnecting;
mod requests;
mod stdio;

pub use lines::{LineError, LineReader, LineWriter, beginning};
pub use reconnecting::{Connected, Reconnecting};
pub use requests::{NoAnswer, Received, RequestClient};
pub use stdio::{stdin, stdout};
