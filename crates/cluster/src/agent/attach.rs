//! Programs whose streams go straight to the controller, under the local driver, over a socket. A message is
//! a request: the arguments as JSON, and two sockets that become the program's standard input and output.
//! (One that closes its output closes nothing else.) Its answer is the number of the process, or why there
//! is none.

use super::operations::Agent;
use crate::ClusterError;
use crate::confinement::Confinement;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, send};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Stdio;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

const REQUEST_MAX: usize = 64 << 10;

struct AttachRequest {
    argv: Vec<String>,
    streams: [OwnedFd; 2],
    answer: oneshot::Sender<Result<i32, ClusterError>>,
}

pub(super) fn listen(socket: OwnedFd, agent: Arc<Agent>) {
    let (queue, mut requests) = mpsc::unbounded_channel::<AttachRequest>();
    // Children are started on the agent's one thread, like all others.
    tokio::spawn(async move {
        while let Some(AttachRequest { argv, streams, answer }) = requests.recv().await {
            let _ = answer.send(start(&agent, &argv, streams));
        }
    });
    std::thread::spawn(move || {
        while let Some((argv, streams)) = receive(&socket) {
            let (answer, answered) = oneshot::channel();
            if queue.send(AttachRequest { argv, streams, answer }).is_err() {
                return;
            }
            let ending = |_| Err(ClusterError::new("the agent is ending"));
            let answer = answered.blocking_recv().unwrap_or_else(ending);
            let answer = serde_json::to_vec(&answer).expect("an answer is always JSON");
            if send(socket.as_raw_fd(), &answer, MsgFlags::MSG_NOSIGNAL).is_err() {
                return;
            }
        }
    });
}

fn start(agent: &Agent, argv: &[String], [input, output]: [OwnedFd; 2]) -> Result<i32, ClusterError> {
    let mut command = agent.command(argv, Some(Confinement::Program))?;
    command.stdin(Stdio::from(input)).stdout(Stdio::from(output)).stderr(Stdio::piped());
    let name = argv.first().map_or("attached", String::as_str);
    let spawned = agent.children.spawn(&mut command, Some(name))?;
    if let Some(stderr) = spawned.stderr {
        agent.out.log_lines(name, stderr);
    }
    Ok(spawned.pid)
}

/// The next request; none when the other end is closed or makes no sense.
fn receive(socket: &OwnedFd) -> Option<(Vec<String>, [OwnedFd; 2])> {
    let mut buffer = vec![0; REQUEST_MAX];
    let mut ancillary = nix::cmsg_space!([i32; 2]);
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let message =
        recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut ancillary), MsgFlags::MSG_CMSG_CLOEXEC)
            .ok()?;
    let length = message.bytes;
    let received = message.cmsgs().ok()?.find_map(|part| match part {
        ControlMessageOwned::ScmRights(received) => Some(received),
        _ => None,
    })?;
    // SAFETY: the kernel has just made these descriptors for us, and nothing else knows of them.
    let streams = received.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).collect::<Vec<_>>();
    let streams = streams.try_into().ok()?;
    let argv = serde_json::from_slice(&buffer[..length]).ok()?;
    Some((argv, streams))
}
