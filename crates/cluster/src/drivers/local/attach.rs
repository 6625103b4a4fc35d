//! Attaching programs: the agent gets one end of two pairs of sockets, which become the program's streams.

use crate::ClusterError;
use crate::agent_node::Attach;
use crate::node::Attached;
use crate::node_log::NodeLog;
use async_trait::async_trait;
use nix::sys::socket::{ControlMessage, MsgFlags, recv, sendmsg};
use parking_lot::Mutex;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The controller's end of the socket that the agent listens to.
pub(super) struct AgentSocket(Arc<Mutex<OwnedFd>>);

impl AgentSocket {
    pub(super) fn new(socket: OwnedFd) -> AgentSocket {
        AgentSocket(Arc::new(Mutex::new(socket)))
    }
}

#[async_trait]
impl Attach for AgentSocket {
    async fn attach(&self, argv: &[String], _: &NodeLog) -> Result<Attached, ClusterError> {
        let request = serde_json::to_vec(argv).map_err(|error| error.to_string())?;
        let (stdin, their_stdin) = UnixStream::pair().map_err(cannot)?;
        let (stdout, their_stdout) = UnixStream::pair().map_err(cannot)?;
        let theirs = [their_stdin, their_stdout];
        let socket = self.0.clone();
        let answer =
            tokio::task::spawn_blocking(move || request_attachment(&socket, &request, &theirs)).await;
        let _pid = answer.map_err(|error| error.to_string())?.map_err(cannot)??;
        let stream = |stream: UnixStream| {
            stream.set_nonblocking(true)?;
            tokio::net::UnixStream::from_std(stream)
        };
        // Its output stays open as long as its input: a program whose output is not read any more, because of
        // what it said, is not to say as its last words that a pipe is broken.
        let kept = stream(stdout.try_clone().map_err(cannot)?).map_err(cannot)?;
        let stdin = tokio::io::join(kept, stream(stdin).map_err(cannot)?);
        Ok(Attached { stdin: Box::new(stdin), stdout: Box::new(stream(stdout).map_err(cannot)?) })
    }
}

fn request_attachment(
    socket: &Mutex<OwnedFd>,
    request: &[u8],
    streams: &[UnixStream; 2],
) -> std::io::Result<Result<i32, ClusterError>> {
    let socket = socket.lock();
    let fds = [streams[0].as_raw_fd(), streams[1].as_raw_fd()];
    let rights = [ControlMessage::ScmRights(&fds)];
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(request)], &rights, MsgFlags::MSG_NOSIGNAL, None)?;
    let mut answer = [0; 4096];
    let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    Ok(serde_json::from_slice(&answer[..length])?)
}

fn cannot(error: std::io::Error) -> ClusterError {
    ClusterError::new(format!("cannot attach a program: {error}"))
}
