//! Judges of lock histories: did every property hold, and if not, what exactly went wrong?
//!
//! # Two questions
//!
//! *Did the lock have its properties in this run?* A run of Fencepost records what every process did and saw
//! and what was done to the cluster. [`check_run`] gives a [`RunVerdict`] of it: one verdict a property
//! (mutual exclusion, no lost update, growing fencing tokens, …), each with findings that cite the events
//! that prove them. [`story()`] tells a finding in words, [`Watch`] counts violations while the run goes on.
//!
//! *Is this history linearizable?* It is if every operation can be given one moment between its invocation
//! and its completion, so that the operations in this order do what the object's specification says (M.
//! Herlihy and J. Wing, "Linearizability", ACM TOPLAS 12(3), 1990). An operation of unknown end may have
//! happened at any moment after its invocation, or never.
//!
//! # Models
//!
//! A specification is a [`Model`]: a state, and a pure step. [`models`] has those that locks are made of; any
//! type that implements [`Model`] can be checked.
//!
//! | model | operations | fast path | exact when |
//! |---|---|---|---|
//! | [`Mutex`](models::Mutex) | acquire; any process may release | lazy, earliest deadline first; O(n) | always |
//! | [`OwnerMutex`](models::OwnerMutex) | release only by the holder | certain holds are disjoint; O(n) | no process goes on after an indeterminate operation |
//! | [`FencedMutex`](models::FencedMutex) | and growing tokens | the same | the same |
//! | [`ReentrantMutex`](models::ReentrantMutex) | its holder acquires it again, and releases as often | as `OwnerMutex`, with a count; O(n) | the same |
//! | [`SharedLock`](models::SharedLock) | readers together, or one for each permit | certain holds fit together; O(n) | as `OwnerMutex` |
//! | [`Register`](models::Register) | read, write, cas | zones of values (Gibbons and Korach); O(n) | values are written once, no cas |
//!
//! The argument for each algorithm stands in its module. Elsewhere [`search()`] (see [the
//! module](mod@search)) decides any model, within a [`Budget`] of time and memory: past it the answer is
//! "unknown", never a guess.
//!
//! # Guarantees
//!
//! - A verdict is a pure function of the history. [`Budget`] looks at a clock, and can only make it
//!   "unknown".
//! - Tests hold every fast path and the search against each other and against a brute force on hundreds of
//!   thousands of small histories, indeterminate operations included; every order is replayed.
//! - The core of a violation proves it: operations are left out only where any order of the whole history
//!   would be one of the core.
//!
//! # From a file to an explanation
//!
//! ```
//! use fencepost_checker::read::{JsonLines, ReadOptions};
//! use fencepost_checker::{Algorithm, Budget, ModelName, Outcome, CheckOptions, check_lines};
//! use std::time::Duration;
//!
//! let history = r#"
//!     {"process": 1, "type": "invoke", "f": "acquire"}
//!     {"process": 1, "type": "ok",     "f": "acquire"}
//!     {"process": 2, "type": "invoke", "f": "acquire"}
//!     {"process": 2, "type": "ok",     "f": "acquire"}"#;
//! let options = CheckOptions {
//!     algorithm: Algorithm::Auto,
//!     budget: Budget::new(Duration::from_secs(10), 1 << 30),
//!     evidence: true,
//!     witness: false,
//! };
//! let mut lines = JsonLines::new(history.as_bytes());
//! let verdicts = check_lines(ModelName::OwnerMutex, &mut lines, &ReadOptions::default(), &options)?;
//! assert_eq!(verdicts[0].outcome, Outcome::Violation);
//! println!("{}", verdicts[0].evidence.as_ref().unwrap());
//! # Ok::<(), fencepost_checker::read::ReadError>(())
//! ```

// What tests, benchmarks and an example share names the crate as they do.
#[cfg(test)]
extern crate self as fencepost_checker;

#[cfg(test)]
mod agreement;
mod belief;
mod budget;
mod by_name;
mod check_run;
mod claim;
mod coverage;
mod distance;
mod evidence;
mod figures;
#[cfg(test)]
#[path = "../tests/generate/mod.rs"]
mod generate;
mod judge;
mod leaderless;
mod ledger;
mod metrics;
pub mod model;
pub mod models;
pub mod operations;
mod properties;
mod prose;
pub mod read;
pub mod run_index;
mod say_whose;
pub mod search;
mod shrink;
mod slowness;
mod spans;
mod stalls;
mod storage_order;
mod story;
#[cfg(test)]
mod testing;
pub mod tracker;
mod verdict;
mod violation;
mod wants;
mod watch;
mod whose;

pub use belief::is_notice;
pub use budget::Budget;
pub use by_name::{ModelName, check_lines};
pub use check_run::{METRICS, check_index, check_run};
pub use claim::Claim;
pub use coverage::{Coverage, LockPhase, Reached, Situation, TargetRole, situations_of};
pub use distance::{Handover, MissEvent, MissKind, NearMiss, handovers, nearest_miss};
pub use evidence::{Evidence, LeftOut, ShownOperation, explain};
pub use figures::Figures;
pub use judge::{Algorithm, AlgorithmAnswer, CheckOptions, KeyVerdict, Step, decide, judge};
pub use ledger::{Bound, Cause, Class, End, Ends, Interval, Reason, ledger_table};
pub use metrics::loss_notice::{LONGEST as LOSS_NOTICE_LONGEST, NEVER as LOSS_NOTICE_NEVER};
pub use metrics::{Costs, Metric, quantile, rate_bound, wilson};
pub use model::{Conflict, Decision, Effect, FastPath, History, Model};
pub use operations::{Builder, Operation, Operations};
pub use properties::{
    AvailabilityFigures, BalancesFigures, Blame, Checker, ErrorsFigures, ExclusionFigures, FairnessFigures,
    FencingFigures, FindingClass, LeadershipFigures, LinearizableFigures, LostAdditionsFigures,
    LostUpdatesFigures, NotJudged, Overlap, OwnershipFigures, ProgressFigures, ReentryFigures,
    RenewalFigures, SetsFigures, StaleWritesFigures, TermsFigures, TicksFigures, TimeOutsFigures,
    TornReadsFigures, UsersFigures, VacuousFigures, ValidityFigures, claimable, classes, find_class,
    overlaps, registry, too_many,
};
pub use prose::{lock, milliseconds, seconds, times};
pub use run_index::{Malformed, RunIndex};
pub use search::{Exhausted, SearchOutcome, Stuck, search};
pub use shrink::shrink;
pub use story::{StoryLine, story};
pub use verdict::{FINDINGS_MAX, Finding, Outcome, RunVerdict, Unjudged, Verdict};
pub use violation::Violation;
pub use watch::Watch;
pub use whose::{Attribution, Harm, OtherCause, Whose};
