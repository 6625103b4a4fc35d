//! Waits until a server serves, the same way for every service.

use fencepost_cluster::{ClusterError, Node};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A server serves in seconds; seven PostgreSQL on two cores and faults' disks take a minute.
pub(crate) const START_TIME: Duration = Duration::from_secs(120);

pub(crate) const ASK: Duration = Duration::from_secs(5);

/// The rest between two questions: short at first, since most servers serve at once.
const POLL_MIN: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(50);

/// The end of a sentence about a server that does not serve; the log's last lines replace it, if at hand.
pub fn log_says_why(node: &str) -> String {
    format!("; the log of {node} says why")
}

pub(crate) struct Awaited<'a> {
    pub(crate) node: &'a Arc<dyn Node>,
    /// As messages call it: `PostgreSQL`.
    pub(crate) server: &'a str,
    /// The name of its process ([`fencepost_cluster::protocol::Service`]), or the names that it can have.
    pub(crate) services: &'a [&'a str],
    pub(crate) within: Duration,
}

impl Awaited<'_> {
    /// Asks again and again until the server serves: `trouble` gives why it does not yet, none if it does.
    /// Errors: its process ended, or the time is over, with the trouble; the error of `trouble` itself.
    pub(crate) async fn serves<Answer>(&self, mut trouble: impl FnMut() -> Answer) -> Result<(), ClusterError>
    where
        Answer: Future<Output = Result<Option<String>, ClusterError>>,
    {
        let deadline = Instant::now() + self.within;
        let mut rest = POLL_MIN;
        loop {
            let trouble = trouble().await?;
            if self.services.iter().all(|service| self.node.service_pid(service).is_none()) {
                return Err(self.error("ended as soon as it was started"));
            }
            let Some(trouble) = trouble else { return Ok(()) };
            if Instant::now() > deadline {
                let within = self.within.as_secs_f64();
                return Err(self.error(&format!("did not serve within {within} s ({trouble})")));
            }
            sleep(rest).await;
            rest = (rest * 2).min(POLL_MAX);
        }
    }

    fn error(&self, what: &str) -> ClusterError {
        let (server, node) = (self.server, self.node.name());
        ClusterError::new(format!("{server} on {node} {what}{}", log_says_why(node)))
    }
}

/// Why a server does not serve until this command succeeds in its node. Errors: the command cannot run.
pub(crate) async fn command_fails(
    node: &Arc<dyn Node>,
    command: &[&str],
) -> Result<Option<String>, ClusterError> {
    let output = node.exec(command, ASK).await?;
    let first = output.stderr.lines().next().unwrap_or("it does not answer").trim();
    Ok((output.code != Some(0)).then(|| first.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AnsweringNode;

    async fn awaited(runs: bool, trouble: Option<&str>) -> Result<(), String> {
        let [node] = AnsweringNode { stdout: "", stderr: "", runs }.nodes();
        let awaited = Awaited { node: &node, server: "etcd", services: &["etcd"], within: START_TIME };
        awaited.serves(async || Ok(trouble.map(str::to_owned))).await.map_err(|error| error.0)
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_serve_is_named_with_the_reason() {
        assert_eq!(awaited(true, None).await, Ok(()));
        assert_eq!(
            awaited(true, Some("it has found no quorum")).await.unwrap_err(),
            "etcd on n1 did not serve within 120 s (it has found no quorum); the log of n1 says why"
        );
        assert_eq!(
            awaited(false, Some("refused")).await.unwrap_err(),
            "etcd on n1 ended as soon as it was started; the log of n1 says why"
        );
    }
}
