//! Why a run ends before its time: Ctrl-C, a failure of the environment, or the first violation.

use anyhow::{Result, anyhow};
use tokio::sync::SetOnce;

/// The first reason wins.
#[derive(Debug, Default)]
pub struct Stop {
    reason: SetOnce<StopReason>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    Interrupted,
    /// Fencepost or the environment failed: one sentence.
    Failed(String),
    /// A violation was seen, and `--fail-fast` was given.
    Violation,
}

impl Stop {
    pub fn interrupt(&self) {
        self.pull(StopReason::Interrupted);
    }

    pub fn fail(&self, sentence: String) {
        self.pull(StopReason::Failed(sentence));
    }

    pub fn violation(&self) {
        self.pull(StopReason::Violation);
    }

    fn pull(&self, reason: StopReason) {
        let _ = self.reason.set(reason);
    }

    pub fn reason(&self) -> Option<&StopReason> {
        self.reason.get()
    }

    /// Does `work`, or gives it up when there is a reason. Work in progress is dropped.
    pub(crate) async fn unless_pulled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            () = self.pulled() => Err(self.as_error()),
        }
    }

    pub(crate) fn as_error(&self) -> anyhow::Error {
        match self.reason() {
            Some(StopReason::Failed(sentence)) => anyhow!("{sentence}"),
            _ => anyhow!("interrupted before the test was over"),
        }
    }

    /// Passes Ctrl-C on from all runs to this one; never returns.
    pub async fn relay(&self, from: &Stop) {
        from.pulled().await;
        if from.reason() == Some(&StopReason::Interrupted) {
            self.interrupt();
        }
        std::future::pending::<()>().await;
    }

    /// Returns when there is a reason.
    pub async fn pulled(&self) {
        self.reason.wait().await;
    }
}
