//! A supervisor in a server's node starts it again after a while, by the node's wall clock, which a jump
//! makes short. Source: Martin Kleppmann, "How to do distributed locking" (2016), on delayed restarts.

use crate::context::{FaultContext, SUPERVISOR};
use crate::fault_error::FaultError;
use fencepost_cluster::protocol::Service;
use std::time::{Duration, SystemTime};

const LOOK: Duration = Duration::from_millis(5);

/// How long it stays afterwards: the agent looks at its clock then, and an ended process shows no clock.
const STAYS: Duration = Duration::from_millis(500);

pub(crate) async fn begin(context: &FaultContext, target: &str, down_ms: u32) -> Result<(), FaultError> {
    let argv = ["fencepost", "supervise", "--down-ms", &down_ms.to_string()].map(str::to_owned).to_vec();
    context
        .node(target)?
        .start(&Service { name: SUPERVISOR.to_owned(), argv, env: Vec::new(), refuses_root: false })
        .await?;
    Ok(())
}

pub(crate) async fn wait(context: &FaultContext, target: &str, down_ms: u32) -> Result<(), FaultError> {
    let node = context.node(target)?;
    if let Some(pid) = node.service_pid(SUPERVISOR) {
        node.await_exit(pid, Duration::from_millis(down_ms.into()) + Duration::from_secs(5)).await?;
    }
    Ok(())
}

/// The program `fencepost supervise`: returns soon after its wall clock says that the time has passed.
pub fn supervise(down_ms: u32) {
    let until = SystemTime::now() + Duration::from_millis(down_ms.into());
    while SystemTime::now() < until {
        std::thread::sleep(LOOK);
    }
    std::thread::sleep(STAYS);
}
