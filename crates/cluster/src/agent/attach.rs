//! Programs whose streams go straight to the controller, under the local driver: it sends the streams over a socket.
//!
//! One message is a request: the arguments as JSON, and with them a file descriptor that becomes the program's
//! standard input and output. One message answers it: an [`Attached`].

use super::operations::Agent;
use crate::protocol::Attached;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, send};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Stdio;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// The longest list of arguments.
const REQUEST_MAX: usize = 64 << 10;

struct AttachRequest {
    argv: Vec<String>,
    stream: OwnedFd,
    answer: oneshot::Sender<Attached>,
}

/// Serves the socket for as long as the agent lives.
pub(super) fn listen(socket: OwnedFd, agent: Arc<Agent>) {
    let (queue, mut requests) = mpsc::unbounded_channel::<AttachRequest>();
    // Children are started on the agent's one thread, like all others.
    tokio::spawn(async move {
        while let Some(AttachRequest { argv, stream, answer }) = requests.recv().await {
            let started = start(&agent, &argv, stream);
            let _ = answer.send(match started {
                Ok(pid) => Attached::Started { pid },
                Err(error) => Attached::Failed { error },
            });
        }
    });
    std::thread::spawn(move || {
        while let Some((argv, stream)) = receive(&socket) {
            let (answer, answered) = oneshot::channel();
            if queue.send(AttachRequest { argv, stream, answer }).is_err() {
                return;
            }
            let ending = |_| Attached::Failed { error: "the agent is ending".to_owned() };
            let answer = answered.blocking_recv().unwrap_or_else(ending);
            let answer = serde_json::to_vec(&answer).expect("an answer is always JSON");
            if send(socket.as_raw_fd(), &answer, MsgFlags::MSG_NOSIGNAL).is_err() {
                return;
            }
        }
    });
}

fn start(agent: &Agent, argv: &[String], stream: OwnedFd) -> Result<i32, String> {
    let mut command = agent.command(argv)?;
    let copy = stream.try_clone().map_err(|error| format!("cannot copy the stream: {error}"))?;
    command.stdin(Stdio::from(copy)).stdout(Stdio::from(stream)).stderr(Stdio::piped());
    let name = argv.first().map_or("attached", String::as_str);
    let spawned = agent.children.spawn(&mut command, Some(name))?;
    if let Some(stderr) = spawned.stderr {
        agent.out.log_lines(name, stderr);
    }
    Ok(spawned.pid)
}

/// The next request; none when the other end is closed or makes no sense.
fn receive(socket: &OwnedFd) -> Option<(Vec<String>, OwnedFd)> {
    let mut buffer = vec![0; REQUEST_MAX];
    let mut ancillary = nix::cmsg_space!([i32; 1]);
    let mut parts = [IoSliceMut::new(&mut buffer)];
    let message =
        recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut ancillary), MsgFlags::MSG_CMSG_CLOEXEC)
            .ok()?;
    let length = message.bytes;
    let stream = message.cmsgs().ok()?.find_map(|part| match part {
        // SAFETY: the kernel has just made this descriptor for us, and nothing else knows of it.
        ControlMessageOwned::ScmRights(received) => {
            received.first().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) })
        }
        _ => None,
    })?;
    let argv = serde_json::from_slice(&buffer[..length]).ok()?;
    Some((argv, stream))
}
