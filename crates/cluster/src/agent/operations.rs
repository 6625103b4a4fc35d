//! What the agent can be asked to do, and how it does it.

use super::children::{self, Children, Spawned};
use super::files;
use super::limits;
use super::output::Out;
use super::programs;
use crate::ClusterError;
use crate::confinement::{Confinement, user};
use crate::network::network_programs::network_command;
use crate::program;
use crate::protocol::{CommandOutput, FromAgent, Op, Service};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

const OUTPUT_MAX: u64 = 16 << 20;

/// How long to wait for the rest of an ended command's output: its child may hold the pipe.
const OUTPUT_PATIENCE: Duration = Duration::from_millis(200);

/// Why a tool failed.
pub type ToolError = Box<dyn std::error::Error + Send + Sync>;

/// Something that faults need inside a node, in a form that can be called from outside.
pub trait Tool: Send + Sync {
    fn name(&self) -> &'static str;
    /// Does what `args` say; may block. Runs commands by `output_of`. Errors: one sentence, shown to users.
    fn call(&self, args: Value) -> Result<Value, ToolError>;
}

pub(super) struct Agent {
    data: String,
    tools: HashMap<&'static str, Arc<dyn Tool>>,
    pub(super) children: Children,
    services: Mutex<HashMap<String, i32>>,
    pub(super) out: Out,
}

impl Agent {
    pub(super) fn new(data: String, tools: Vec<Box<dyn Tool>>, out: Out) -> Agent {
        let tools = tools.into_iter().map(|tool| (tool.name(), Arc::from(tool))).collect();
        Agent { data, tools, children: Children::default(), services: Mutex::default(), out }
    }

    pub(super) async fn carry_out(&self, op: Op) -> Result<Value, ClusterError> {
        match op {
            Op::Start { service } => answer(self.start(&service)?),
            Op::Signal { pid, signal } => answer(children::signal(pid, signal)?),
            Op::SignalTree { pid, signal } => answer(children::signal_tree(pid, signal)?),
            Op::AwaitExit { pid, timeout_ms } => {
                answer(children::await_exit(pid, Duration::from_millis(timeout_ms)).await?)
            }
            Op::State { pid } => answer(children::state(pid)),
            Op::Exec { argv, timeout_ms } => {
                answer(self.exec(&argv, Duration::from_millis(timeout_ms)).await?)
            }
            Op::Put { path, content } => answer(files::put(&self.place(&path), &content)?),
            Op::Get { path } => answer(files::get(&self.place(&path))?),
            Op::Remove { path } => answer(files::remove(&self.place(&path))?),
            Op::Connect { address, timeout_ms } => {
                answer(connect(&address, Duration::from_millis(timeout_ms)).await)
            }
            Op::Limit { limits, counted } => {
                tokio::spawn(limits::keep(limits, counted, self.out.clone()));
                answer(())
            }
            Op::EndAll => {
                limits::end_all();
                answer(())
            }
            Op::Check { argv } => answer(programs::check(&argv)?),
            Op::Tool { name, args } => self.tool(&name, self.place_in(args)).await,
        }
    }

    fn place(&self, text: &str) -> String {
        text.replace("{data}", &self.data)
    }

    /// The same in the texts that a tool is given.
    fn place_in(&self, args: Value) -> Value {
        match args {
            Value::String(text) => Value::String(self.place(&text)),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, value)| (name, self.place_in(value))).collect()
            }
            other => other,
        }
    }

    /// A command, ready to be spawned. `fencepost` means this very program.
    pub(super) fn command(
        &self,
        argv: &[String],
        confinement: Option<Confinement>,
    ) -> Result<Command, ClusterError> {
        let argv: Vec<String> = argv.iter().map(|arg| self.place(arg)).collect();
        let argv = network_command(program::resolve(argv));
        let (name, args) = argv
            .split_first()
            .ok_or_else(|| ClusterError::new("an empty command was asked for; name a program"))?;
        let mut command = Command::new(name);
        command.args(args);
        if let Some(confinement) = confinement {
            confinement.apply_to(&mut command);
        }
        Ok(command)
    }

    fn start(&self, service: &Service) -> Result<i32, ClusterError> {
        let mut services = self.services.lock();
        if let Some(pid) = services.get(&service.name).filter(|pid| self.children.runs(**pid)) {
            return Err(
                format!("the service {} runs already, as process {pid}; end it first", service.name).into()
            );
        }
        let mut command = self.command(&service.argv, None)?;
        if service.refuses_root && !user::has_other_users() {
            user::become_other(&mut command);
        }
        confinement_of_service(&service.argv).apply_to(&mut command);
        command.envs(service.env.iter().map(|(name, value)| (name, self.place(value))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = self.children.spawn(&mut command, Some(&service.name))?;
        let pid = spawned.pid;
        services.insert(service.name.clone(), pid);
        self.out.report(FromAgent::Started { service: service.name.clone(), pid });
        for stream in [spawned.stdout, spawned.stderr].into_iter().flatten() {
            self.out.log_lines(&service.name, stream);
        }
        Ok(pid)
    }

    async fn exec(&self, argv: &[String], timeout: Duration) -> Result<CommandOutput, ClusterError> {
        let mut command = self.command(argv, confinement_of_command(argv))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let Spawned { pid, stdout, stderr, end } = self.children.spawn(&mut command, None)?;
        let (stdout, stderr) = (CapturedOutput::read(stdout), CapturedOutput::read(stderr));
        let ended = tokio::time::timeout(timeout, end).await;
        if ended.is_err() {
            let _ = children::signal(pid, nix::libc::SIGKILL);
        }
        let code = ended.ok().and_then(Result::ok).and_then(|status| status.code());
        Ok(CommandOutput { code, stdout: stdout.take().await, stderr: stderr.take().await })
    }

    async fn tool(&self, name: &str, args: Value) -> Result<Value, ClusterError> {
        let tool = self.tools.get(name).cloned().ok_or_else(|| {
            format!("this agent has no tool {name}; the controller and the agent are different programs")
        })?;
        let called = tokio::task::spawn_blocking(move || tool.call(args)).await;
        let answer =
            called.unwrap_or_else(|error| Err(format!("the tool {name} failed in itself: {error}").into()));
        answer.map_err(|error| ClusterError::new(error.to_string()))
    }
}

/// Of Fencepost's own services the one that fences clients changes the network of its node.
fn confinement_of_service(argv: &[String]) -> Confinement {
    match argv {
        [program, service, ..] if program == program::NAME && service == "fence" => {
            Confinement::NetworkCommand
        }
        _ => Confinement::Program,
    }
}

/// Fencepost's own commands try the agent and change the packet filter; all others may be a user's own.
fn confinement_of_command(argv: &[String]) -> Option<Confinement> {
    match argv.first().map_or("", String::as_str) {
        program::NAME => None,
        "iptables" => Some(Confinement::NetworkCommand),
        _ => Some(Confinement::Program),
    }
}

struct CapturedOutput {
    text: Arc<Mutex<Vec<u8>>>,
    reader: tokio::task::JoinHandle<()>,
}

impl CapturedOutput {
    fn read(stream: Option<pipe::Receiver>) -> CapturedOutput {
        let text = Arc::new(Mutex::new(Vec::new()));
        let sink = text.clone();
        let reader = tokio::spawn(async move {
            let Some(stream) = stream else { return };
            let mut stream = stream.take(OUTPUT_MAX);
            let mut chunk = vec![0; 64 << 10];
            while let Ok(length @ 1..) = stream.read(&mut chunk).await {
                sink.lock().extend_from_slice(&chunk[..length]);
            }
        });
        CapturedOutput { text, reader }
    }

    async fn take(mut self) -> String {
        let _ = tokio::time::timeout(OUTPUT_PATIENCE, &mut self.reader).await;
        self.reader.abort();
        String::from_utf8_lossy(&self.text.lock()).into_owned()
    }
}

fn answer(answer: impl Serialize) -> Result<Value, ClusterError> {
    serde_json::to_value(answer).map_err(|error| ClusterError::new(error.to_string()))
}

async fn connect(address: &str, timeout: Duration) -> Result<f64, String> {
    let begun = Instant::now();
    match tokio::time::timeout(timeout, tokio::net::TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(begun.elapsed().as_secs_f64() * 1e3),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} ms", timeout.as_millis())),
    }
}
