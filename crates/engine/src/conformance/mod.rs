//! Does a client keep the client protocol? Each rule is a short conversation with it, on servers that run.
//!
//! ```text
//! nodes ─► test_servers ─► session ─► beginning, operations, keys, together, grants, lease, prolong, load, outage ─► registry ─► run
//! ```
//! A lock is judged by a run; a client, by these rules.

mod beginning;
mod cancel;
mod check_result;
mod grants;
mod keys;
mod leader;
mod lease;
mod load;
mod nodes;
mod operations;
mod outage;
mod prolong;
mod registry;
mod run;
mod session;
mod test_servers;
#[cfg(test)]
mod tests;
mod together;
mod transcript;

pub use check_result::{RuleOutcome, RuleSubject};
pub use nodes::{ConformanceObserver, check_conformance, conformance_spec};
pub use run::RuleResult;
