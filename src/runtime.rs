//! Runtimes for commands that wait for servers, and Ctrl-C.

use crate::output::complain;
use fencepost_engine::{Stop, StopReason};
use std::io;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().build()
}

/// Runs this to its end, which Ctrl-C brings about in order. What hangs in a blocking call, such as a client,
/// must not keep what is finished from ending.
pub fn run_until_stopped<T>(stop: &Arc<Stop>, work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        tokio::spawn(listen_for_signals(stop.clone()));
        work.await
    });
    runtime.shutdown_background();
    Ok(ended)
}

/// For programs inside nodes: many of them share a few cores.
pub fn small_runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Ctrl-C, a request to terminate or to quit, and a closed terminal end the run in order: everything is
/// healed and removed. Another one prints that this takes seconds; a cut would leave servers and networks.
pub async fn listen_for_signals(stop: Arc<Stop>) {
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()];
    let Ok(mut signals) = kinds.into_iter().map(signal).collect::<io::Result<Vec<Signal>>>() else { return };
    loop {
        let any = signals.iter_mut().map(|signal| Box::pin(signal.recv()));
        futures_util::future::select_all(any).await;
        let ends_already = matches!(stop.reason(), Some(StopReason::Interrupted));
        complain!(
            "fencepost: {} the run: healing what is broken, removing what was started",
            if ends_already { "still ending" } else { "ending" }
        );
        stop.interrupt();
    }
}
