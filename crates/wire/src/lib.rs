//! How parts of Fencepost in different processes speak to each other: requests and answers as lines of JSON.
//! Each pair (of controller, client program, a node's agent, storage) has its own messages.
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
