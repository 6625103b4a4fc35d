//! A fault counts only if its effect was observed: none does on nodes on which nothing has an effect.

use crate::fault::{FaultError, Observation};
use crate::nemesis::{Draw, Nemesis};
use crate::registry::{find, registry};
use crate::testing::untouched::untouched;
use crate::testing::{settings, topology};
use fencepost_history::Seed;
use nix::sys::signal::Signal;

/// A drawn fault of this nemesis, injected into such nodes, and the signals that they got.
async fn injected(nemesis: &dyn Nemesis, seed: u64) -> (Result<Observation, FaultError>, Vec<i32>) {
    let topology = topology(3, 2);
    let (context, signals) = untouched(&topology);
    let mut random = Seed(seed).stream(nemesis.name());
    let Draw { on, parameters, .. } = nemesis.draw(&topology, &settings(20), &mut random).expect("a target");
    let seen = nemesis.prepare(&on, &parameters).expect("what was drawn").inject(&context).await;
    let signals = signals.lock().clone();
    (seen, signals)
}

#[tokio::test(start_paused = true)]
async fn a_fault_that_changed_nothing_does_not_count() {
    for nemesis in registry() {
        for seed in 0..5 {
            match injected(*nemesis, seed).await.0 {
                Ok(seen) => assert!(!seen.effective, "{}: {:?}", nemesis.name(), seen.observed),
                Err(error) => {
                    let error = error.to_string();
                    assert!(error.contains("is still there"), "{}: {error}", nemesis.name());
                }
            }
        }
    }
}

/// One that goes on is killed in the end.
#[tokio::test(start_paused = true)]
async fn a_server_is_asked_to_end_before_it_is_killed() {
    for name in ["terminate", "rolling"] {
        let (_, signals) = injected(find(name).expect("it is in the registry"), 0).await;
        let [first, .., last] = signals[..] else { panic!("{name}: {signals:?}") };
        assert_eq!((first, last), (Signal::SIGTERM as i32, Signal::SIGKILL as i32), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_kill_cannot_be_caught() {
    for name in ["kill", "leader-kill", "failover", "power-loss"] {
        let (_, signals) = injected(find(name).expect("it is in the registry"), 0).await;
        let all_killed = signals.iter().all(|signal| *signal == Signal::SIGKILL as i32);
        assert!(!signals.is_empty() && all_killed, "{name}: {signals:?}");
    }
}
