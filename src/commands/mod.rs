//! The subcommands: one file or folder each, with its arguments.

pub mod analyze;
pub mod check;
pub mod clean;
pub mod clock;
pub mod compare;
pub(crate) mod context;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod fault_of_process;
pub mod faults;
pub mod gc;
pub mod hunt;
pub mod images;
pub mod list;
pub mod lock;
pub mod manual;
pub mod merge;
pub mod replay;
mod replay_and_keep;
pub mod scenario;
pub mod serve;
pub mod shell;
pub mod shrink;
pub mod test;
pub mod up;
pub mod upload;
