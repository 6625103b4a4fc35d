//! Faults of processes and their threads.

pub(crate) mod by_hook;
pub(crate) mod by_pid;
pub(crate) mod command;
pub(crate) mod cpu;
pub(crate) mod kill;
pub(crate) mod pause;
pub(crate) mod strobe;
pub(crate) mod supervisor;
pub(crate) mod terminate;
pub(crate) mod thread_pause;
pub(crate) mod threads_tool;
