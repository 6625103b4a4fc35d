//! Operations, events and history files. A *history* is the list of everything that was seen in a run, in the
//! order in which it was seen: invocations, completions, and faults as they were injected, observed and
//! healed. It is kept as JSON lines with the field names of Jepsen, so that other tools can read it.

// All other crates wait for this one: this is the only error that a build elsewhere ends with.
#[cfg(any(not(target_os = "linux"), elsewhere))]
compile_error!(
    "Fencepost builds and runs on Linux: on a Mac run its image, on Windows WSL 2 (docs/installing.md)"
);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("Fencepost builds for x86-64 and ARM64: the clocks of other processors cannot be moved");

#[macro_use]
mod worded;

mod address;
mod completion;
mod deserializer;
mod error;
mod event;
pub mod fault;
mod fields;
mod files;
mod inline_toml;
mod lock_facts;
mod lock_kind;
pub mod mistake;
mod name;
mod once;
mod printable;
pub mod prose;
mod refusal;
pub mod run;
mod seed;
mod shard;
mod shared_data;
mod shell;
mod storage_access;
mod time_span;
mod values;

pub use address::without_secrets;
pub use completion::Completion;
pub use deserializer::read_fields;
pub use error::{ErrorCode, ErrorKind, OperationError};
pub use event::{
    CUT_OFF, Event, Kind, Process, SCRIPTS_CUT_SHORT, SECTION_ABANDONED, SectionAbandoned, UnfinishedScript,
    f,
};
pub use fault::{FaultDescription, FaultEffect, FaultEvent, FaultStage, ServerEnded};
pub use fields::{changed_fields, fields};
pub use files::bounded::{
    BASELINE_BYTES_MAX, FILE_BYTES_MAX, LINE_BYTES_MAX, SETTINGS_BYTES_MAX, is_too_long, read_line, too_long,
};
pub use files::compressed::{compress, decompressed};
pub use files::file::{HistoryError, Writer};
pub use files::stored::{Events, KEY_BYTES_MAX, compressed_name, find_history, read_history};
pub use inline_toml::inline_toml;
pub use lock_facts::{LOCK, Lease, LockFacts};
pub use lock_kind::LockKind;
pub use name::Name;
pub use once::{once, sorted_once};
pub use printable::{is_steering, printable};
pub use refusal::Refusal;
pub use run::run_nodes::{
    NEMESES, NODES, NodeKind, RunNodes, SERVERS, STALLED, STORAGE_NODE, Stalled, is_storage,
};
pub use run::run_phase::{PHASE, RunPhase};
pub use seed::{Seed, Stream};
pub use shard::Shard;
pub use shared_data::{Balance, LogEntry, Pair, ResourceUse, Tick, is_set, users};
pub use shell::{shell_path, shell_word};
pub use storage_access::{STORAGE, STORAGE_IS_REGISTER, STORAGE_LOG, StorageAccess};
pub use time_span::TimeSpan;
pub use values::{AcquireArguments, Grant, Millis, Mode, NoticeValue, ObservedTarget, Released};
