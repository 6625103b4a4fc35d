//! Faults by hand of a program that runs on this machine and is no node: it takes the place of one.

use crate::context::FaultContext;
use crate::fault::{Fault, FaultError, Observation};
use crate::processes::threads_tool::ThreadsTool;
use async_trait::async_trait;
use fencepost_cluster::agent::{self, Tool};
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::{FaultDescription, NodeKind, Refusal};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Map, Value};
use std::net::Ipv4Addr;
use std::process::id;
use std::sync::Arc;
use std::time::Duration;

/// The nemeses that need nothing but a process.
pub const OF_PROCESSES: [&str; 5] = ["pause", "cpu", "thread-pause", "terminate", "kill"];

/// What a fault does where its parameters are left out.
const USUAL: [(&str, &str, &str); 2] = [("thread-pause", "thread", "\"main\""), ("cpu", "share", "0.1")];

pub struct ProcessFault {
    context: FaultContext,
    fault: Box<dyn Fault>,
    pid: i32,
}

impl ProcessFault {
    /// Errors: another user's or no process, this program's own parent, or no fault of processes.
    pub fn new(pid: i32, nemesis: &str, mut parameters: Map<String, Value>) -> Result<ProcessFault, Refusal> {
        if !OF_PROCESSES.contains(&nemesis) {
            let possible = OF_PROCESSES.join(", ");
            return Err(Refusal::new(format!(
                "{nemesis} is no fault of a process; with --pid there are {possible}"
            )));
        }
        check(pid)?;
        for (_, key, usual) in USUAL.iter().filter(|(name, ..)| *name == nemesis) {
            let usual = serde_json::from_str(usual).unwrap_or_default();
            parameters.entry(*key).or_insert(usual);
        }
        let name = name_of(pid);
        let known =
            crate::find(nemesis).ok_or_else(|| Refusal::new(format!("there is no nemesis {nemesis}")))?;
        let fault = known.prepare(std::slice::from_ref(&name), &parameters)?;
        let node: Arc<dyn Node> = Arc::new(ThisMachine { name, threads: ThreadsTool::default() });
        let context = FaultContext::new(&[node], [].into(), Box::new(move |_| Some(pid)), None, None);
        Ok(ProcessFault { context, fault, pid })
    }

    pub fn describe(&self, observed: &Map<String, Value>) -> FaultDescription {
        self.fault.describe(observed)
    }

    /// Errors: it could not be injected; it must be healed all the same.
    pub async fn inject(&mut self) -> Result<Observation, FaultError> {
        self.fault.inject(&self.context).await
    }

    /// Errors: the process is still hit.
    pub async fn heal(&mut self) -> Result<Value, FaultError> {
        self.fault.heal(&self.context).await
    }

    /// Whether the process is still there.
    pub fn lives(&self) -> bool {
        agent::state(self.pid).is_some_and(|state| state != 'Z')
    }
}

/// Wakes a process with all that it started, after a fault whose program was killed. Errors: no right.
pub fn wake(pid: i32) -> Result<(), ClusterError> {
    agent::signal_tree(pid, Signal::SIGCONT as i32).map(drop)
}

fn check(pid: i32) -> Result<(), Refusal> {
    let refused = |sentence: String| Err(Refusal::at("pid", sentence));
    if pid <= 1 || agent::state(pid).is_none() {
        return refused(format!("there is no process {pid} on this machine that could be hit"));
    }
    if kill(Pid::from_raw(pid), None).is_err() {
        return refused(format!("process {pid} is another user's: that takes root"));
    }
    let own = id().cast_signed();
    if pid == own || agent::descendants(pid).contains(&own) {
        return refused(format!("process {pid} started this command, which would be hit as well"));
    }
    Ok(())
}

/// `process 4242 (redis-server)`.
fn name_of(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("process {pid} ({})", name.trim_end())
}

/// What an agent does in a node, done here.
struct ThisMachine {
    name: String,
    threads: ThreadsTool,
}

#[async_trait]
impl Node for ThisMachine {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> NodeKind {
        NodeKind::Client
    }

    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    fn lacks(&self, what: &str) -> ClusterError {
        ClusterError::new(format!("a process of this machine has no {what} of Fencepost's"))
    }

    async fn signal(&self, pid: i32, signal: i32) -> Result<(), ClusterError> {
        agent::signal(pid, signal)
    }

    async fn signal_tree(&self, pid: i32, signal: i32) -> Result<bool, ClusterError> {
        agent::signal_tree(pid, signal)
    }

    async fn await_exit(&self, pid: i32, timeout: Duration) -> Result<(), ClusterError> {
        agent::await_exit(pid, timeout).await
    }

    async fn state(&self, pid: i32) -> Result<Option<char>, ClusterError> {
        // What its parent has not looked for yet has ended.
        Ok(agent::state(pid).filter(|state| *state != 'Z'))
    }

    async fn tool(&self, name: &str, args: Value) -> Result<Value, ClusterError> {
        match name == self.threads.name() {
            true => self.threads.call(args).map_err(|error| ClusterError::new(error.to_string())),
            false => Err(self.lacks("tools")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::process::{Child, Command};

    struct Sleeping(Child);

    impl Drop for Sleeping {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn sleeping() -> (Sleeping, i32) {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id().cast_signed();
        (Sleeping(child), pid)
    }

    #[tokio::test]
    async fn a_process_is_stopped_and_goes_on_and_one_that_ends_meanwhile_needs_no_healing() {
        let (sleeping, pid) = sleeping();
        let mut pause = ProcessFault::new(pid, "pause", Map::new()).unwrap();
        assert!(pause.inject().await.unwrap().effective && agent::state(pid) == Some('T'));
        pause.heal().await.unwrap();
        assert!(agent::state(pid).is_some_and(|state| state != 'T'));
        assert!(pause.inject().await.unwrap().effective);
        drop(sleeping);
        pause.heal().await.unwrap();
        assert!(!pause.lives());
        assert!(ProcessFault::new(pid, "pause", Map::new()).is_err());
    }

    #[test]
    fn what_cannot_be_hit_is_refused_in_a_sentence() {
        let (_sleeping, pid) = sleeping();
        let parent = std::os::unix::process::parent_id().cast_signed();
        for (pid, nemesis, sentence) in [
            (pid, "clock-jump", "clock-jump is no fault of a process"),
            (1, "pause", "there is no process 1"),
            (id().cast_signed(), "pause", "started this command"),
            (parent, "pause", "started this command"),
        ] {
            let refused = ProcessFault::new(pid, nemesis, Map::new()).err().unwrap().sentence;
            assert!(refused.contains(sentence), "{refused}");
        }
        let share = Map::from_iter([("share".to_owned(), json!(7))]);
        assert!(ProcessFault::new(pid, "cpu", share).is_err());
    }
}
