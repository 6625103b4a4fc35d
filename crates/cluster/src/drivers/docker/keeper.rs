//! Holds a run's containers and network, on a thread with its own runtime: a drop waits until all are gone.

use super::containers::{ContainerPlan, StartedContainers};
use super::engine::Engine;
use crate::ClusterError;
use crate::cluster_folder::ClusterFolder;
use crate::driver::StopCluster;
use crate::own_task::aside;
use crate::program::Program;
use async_trait::async_trait;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

pub(super) struct ContainerKeeper {
    /// Dropping it tells the thread to take everything down.
    life_line: Option<oneshot::Sender<()>>,
    given_up: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), ClusterError>>>,
    /// Kept in the cache for as long as containers run it.
    pub(super) program: Program,
    _folder: ClusterFolder,
    /// Ends with the cluster.
    pub(super) watches: JoinSet<()>,
}

impl ContainerKeeper {
    pub(super) async fn start(
        plan: ContainerPlan,
        folder: ClusterFolder,
        program: Program,
    ) -> Result<(ContainerKeeper, Vec<StartedContainers>), ClusterError> {
        let given_up = Arc::new(AtomicBool::new(false));
        let (life_line, end) = oneshot::channel();
        let (report, started) = oneshot::channel();
        let thread = std::thread::spawn({
            let given_up = given_up.clone();
            move || keep(&plan, &given_up, report, end)
        });
        let keeper = ContainerKeeper {
            life_line: Some(life_line),
            given_up,
            thread: Some(thread),
            program,
            _folder: folder,
            watches: JoinSet::new(),
        };
        match started.await {
            Ok(Ok(started)) => Ok((keeper, started)),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ClusterError::new("the thread that starts the containers ended too early")),
        }
    }

    fn take_down(&mut self) -> Result<(), ClusterError> {
        self.given_up.store(true, Ordering::Relaxed);
        drop(self.life_line.take());
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(ClusterError::new("the thread that removes the containers failed in itself")),
        }
    }
}

impl Drop for ContainerKeeper {
    fn drop(&mut self) {
        if let Err(error) = self.take_down() {
            log::warn!("{error}");
        }
    }
}

#[async_trait]
impl StopCluster for ContainerKeeper {
    async fn stop(mut self: Box<Self>) -> Result<(), ClusterError> {
        aside(move || self.take_down()).await
    }
}

type Report = oneshot::Sender<Result<Vec<StartedContainers>, ClusterError>>;

fn keep(
    plan: &ContainerPlan,
    given_up: &AtomicBool,
    report: Report,
    end: oneshot::Receiver<()>,
) -> Result<(), ClusterError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start a runtime: {error}"))?;
    runtime.block_on(async {
        let engine = match Engine::connect().await {
            Ok(engine) => engine,
            Err(error) => {
                let _ = report.send(Err(error));
                return Ok(());
            }
        };
        let started = plan.start(&engine.docker, given_up).await;
        if report.send(started).is_ok() {
            // Ends when the sender is dropped, too. After a start that failed that is at once.
            let _ = end.await;
        }
        plan.remove(&engine.docker).await
    })
}
