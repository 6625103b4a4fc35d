//! Events of the clients that a fault leaves alone.

use crate::run::recorder::Recorder;
use fencepost_nemesis::Trigger;
use std::sync::Arc;

/// Returns when an event has come that fits, of a client that is none of `targets`: what these do themselves
/// ends no fault on them. Listens from the call on. Never returns without an event to wait for.
pub(crate) fn event_of_other_client(
    recorder: &Arc<Recorder>,
    event: Option<Trigger>,
    targets: Vec<String>,
) -> impl Future<Output = ()> + use<> {
    let recorder = recorder.clone();
    let mut listening = event.as_ref().map(|event| recorder.await_event(event.clone()));
    async move {
        while let (Some(event), Some(listener)) = (&event, listening.take()) {
            // The sender goes only with the run.
            let Ok(fired) = listener.await else { break };
            let is_target = |process| targets.contains(&recorder.client_name(process));
            if !fired.process.is_some_and(is_target) {
                return;
            }
            listening = Some(recorder.await_event(event.clone()));
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::recorder::Placement;
    use crate::stop::Stop;
    use fencepost_history::{Completion, Writer, f};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn what_the_targets_do_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let writer = Writer::create(&folder.path().join("history.jsonl")).expect("a file");
        let placement = Placement { slots: 2, clients: 2 };
        let recorder = Arc::new(Recorder::new(writer, placement, Arc::new(Stop::default()), false));
        let read = |process| {
            recorder.invoke(process, f::READ, "k0", serde_json::Value::Null);
            recorder.complete(process, f::READ, "k0", &Completion::Ok(1.into()), serde_json::Value::Null);
        };
        let came = event_of_other_client(&recorder, Some(Trigger::of(f::READ)), vec!["c1".to_owned()]);
        tokio::pin!(came);
        read(0);
        // Over once everything else waits.
        let early = tokio::time::timeout(Duration::from_secs(60), came.as_mut()).await;
        assert!(early.is_err(), "process 0 belongs to c1");
        read(1);
        came.await;
    }
}
