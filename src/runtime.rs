//! Runtimes for commands that wait for servers, and Ctrl-C.

use crate::exit::FAILED;
use fencepost_engine::{Reason, Stop};
use std::io;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};

/// For a command.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

/// For programs inside nodes: many of them share a few cores.
pub fn small_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The first Ctrl-C ends the run in order; the second ends the program at once, and the kernel and the next run clean
/// up after it.
pub async fn listen_for_signals(stop: Arc<Stop>) {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if matches!(stop.reason(), Some(Reason::Interrupted)) {
            std::process::exit(FAILED);
        }
        eprintln!(
            "fencepost: ending the run: healing what is broken, removing what was started (once more to quit at once)"
        );
        stop.interrupt();
    }
}
