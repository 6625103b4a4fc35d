//! Attaching programs: by the engine's exec, whose streams come over a connection of their own.

use super::CONFINED;
use super::containers::DATA;
use super::engine::{Engine, failed};
use super::frames::standard_output;
use crate::ClusterError;
use crate::agent_node::Attach;
use crate::node::Attached;
use crate::node_log::NodeLog;
use crate::program::Program;
use async_trait::async_trait;
use bollard::Docker;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use std::io::Result as IoResult;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::runtime::Handle;

pub(super) struct Exec {
    docker: Docker,
    container: String,
    /// What stands for the name `fencepost`.
    program: Vec<String>,
}

impl Exec {
    pub(super) fn new(engine: &Engine, container: String, program: &Program) -> Exec {
        Exec { docker: engine.docker.clone(), container, program: program.argv(&[]) }
    }
}

#[async_trait]
impl Attach for Exec {
    async fn attach(&self, argv: &[String], log: &NodeLog) -> Result<Attached, ClusterError> {
        let argv: Vec<String> = argv.iter().map(|arg| arg.replace("{data}", DATA)).collect();
        let (name, args) =
            argv.split_first().ok_or_else(|| ClusterError::new("no program to attach was named"))?;
        let start = if name == "fencepost" { self.program.clone() } else { vec![name.clone()] };
        let what = format!("attach {name}");
        // The engine starts it with all rights of the container.
        let confined = self.program.iter().cloned().chain([CONFINED.to_owned()]).chain(start);
        let config = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(confined.chain(args.iter().cloned()).collect()),
            ..CreateExecOptions::default()
        };
        let failed = failed(&what);
        let id = self.docker.create_exec(&self.container, config).await.map_err(&failed)?.id;
        match self.docker.start_exec(&id, None::<StartExecOptions>).await.map_err(&failed)? {
            StartExecResults::Attached { output, input } => Ok(Attached {
                stdin: Box::new(Stdin(input)),
                stdout: Box::new(standard_output(output, name, log.clone())),
            }),
            StartExecResults::Detached => Err(format!("cannot {what}: the engine detached it").into()),
        }
    }
}

type Input = Pin<Box<dyn AsyncWrite + Send>>;

/// The program's standard input. Its end has to be announced: both directions share a connection.
struct Stdin(Input);

impl AsyncWrite for Stdin {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<IoResult<usize>> {
        self.get_mut().0.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        self.get_mut().0.as_mut().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        self.get_mut().0.as_mut().poll_shutdown(context)
    }
}

impl Drop for Stdin {
    fn drop(&mut self) {
        let mut input: Input = std::mem::replace(&mut self.0, Box::pin(tokio::io::sink()));
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { input.shutdown().await });
        }
    }
}
