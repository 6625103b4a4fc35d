//! The controller's end of an agent: one node, whatever driver started it.

use crate::ClusterError;
use crate::node::{Attached, Node, NodeSpec};
use crate::node_log::NodeLog;
use crate::own_task::OwnTask;
use crate::protocol::{CommandOutput, FromAgent, LINE_MAX, NodeLimits, Op, Request, Service, ServiceEnd};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencepost_history::{NodeKind, TimeSpan};
use fencepost_wire::{LineError, LineReader, LineWriter, NoAnswer, Received, RequestClient};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{broadcast, oneshot, watch};
use tokio::time::Instant;

/// Time limit for requests that an agent answers at once.
const PATIENCE: Duration = Duration::from_secs(10);

const HELLO: Duration = Duration::from_secs(15);

/// How long a tool may take: it may have to stop a busy process of many threads.
const TOOL: Duration = Duration::from_secs(60);

const STALLS_WAITING_MAX: usize = 100;

#[async_trait]
pub(crate) trait Attach: Send + Sync {
    async fn attach(&self, argv: &[String], log: &NodeLog) -> Result<Attached, ClusterError>;
}

pub(crate) struct AgentNode {
    name: String,
    kind: NodeKind,
    address: Ipv4Addr,
    log: NodeLog,
    agent: RequestClient<Answer>,
    services: Services,
    attach: Box<dyn Attach>,
    _reader: OwnTask,
    stalls: broadcast::Sender<Duration>,
    /// Closed once the agent has ended.
    here: watch::Receiver<()>,
}

#[derive(Default)]
struct KnownServices {
    running: HashMap<String, i32>,
    ended: HashMap<String, ServiceEnd>,
}

type Services = Arc<Mutex<KnownServices>>;

type Answer = Result<Value, ClusterError>;

impl AgentNode {
    /// Takes over the streams of an agent that is being started, waits until it says hello, and has it keep
    /// the node's limits; `memory_is_counted` says whether the kernel counts the memory of its programs.
    pub(crate) async fn connect(
        spec: &NodeSpec,
        address: Ipv4Addr,
        log: NodeLog,
        from_agent: impl AsyncRead + Send + Unpin + 'static,
        to_agent: impl AsyncWrite + Send + Unpin + 'static,
        attach: Box<dyn Attach>,
        memory_is_counted: bool,
    ) -> Result<AgentNode, ClusterError> {
        let services = Services::default();
        let (hello, greeted) = oneshot::channel();
        let (output, _) = LineWriter::start(to_agent);
        let stalls = broadcast::Sender::new(STALLS_WAITING_MAX);
        let mut reports = Reports {
            services: services.clone(),
            log: log.clone(),
            hello: Some(hello),
            stalls: stalls.clone(),
        };
        let input = LineReader::new(from_agent, LINE_MAX);
        let (agent, reading) = RequestClient::open(input, output, move |line| reports.receive(line));
        let (is_here, here) = watch::channel(());
        let reader = OwnTask::spawn(read(reading, services.clone(), log.clone(), is_here));
        let node = AgentNode {
            name: spec.name.clone(),
            kind: spec.kind,
            address,
            log,
            agent,
            services,
            attach,
            _reader: reader,
            stalls,
            here,
        };
        let version = match tokio::time::timeout(HELLO, greeted).await {
            Ok(Ok(version)) => version,
            Ok(Err(_)) => {
                return Err(node.error("its agent ended as soon as it was started; its log says why"));
            }
            Err(_) => {
                return Err(node.error(&format!("its agent did not come up within {} s", HELLO.as_secs())));
            }
        };
        if version != env!("CARGO_PKG_VERSION") {
            return Err(
                node.error(&format!("its agent is of version {version}; remove the images and try again"))
            );
        }
        if let Some(limits) = spec.limits {
            let () = node.request(Op::Limit { limits, counted: memory_is_counted }, PATIENCE).await?;
        }
        Ok(node)
    }

    /// Ends its programs once the kernel killed one for memory, and logs why. The agent may be gone, too.
    pub(crate) async fn ran_out_of_memory(&self, limits: NodeLimits) {
        self.log.line("agent", &format!("{}{}", crate::LIMIT_NOTE, limits.too_much_memory()));
        let _ = self.request::<()>(Op::EndAll, PATIENCE).await;
    }

    fn error(&self, what: &str) -> ClusterError {
        ClusterError::new(format!("{}: {what}", self.name))
    }

    async fn request<A: DeserializeOwned>(&self, op: Op, limit: Duration) -> Result<A, ClusterError> {
        match self.agent.request(|id| Request { id, op }, Instant::now() + limit).await {
            Ok(Ok(answer)) => serde_json::from_value(answer)
                .map_err(|error| self.error(&format!("its agent's answer makes no sense: {error}"))),
            Ok(Err(error)) => Err(self.error(&error.0)),
            Err(NoAnswer::NotSent | NoAnswer::Closed) => {
                Err(self.error("the node is gone: its agent has ended"))
            }
            Err(NoAnswer::TimedOut) => {
                Err(self.error(&format!("its agent did not answer within {} s", limit.as_secs())))
            }
        }
    }
}

#[async_trait]
impl Node for AgentNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> NodeKind {
        self.kind
    }

    fn address(&self) -> Ipv4Addr {
        self.address
    }

    async fn start(&self, service: &Service) -> Result<i32, ClusterError> {
        // Noted in the order of the agent's reports: a service that ends at once must not seem to run.
        self.request(Op::Start { service: service.clone() }, PATIENCE).await
    }

    fn service_pid(&self, name: &str) -> Option<i32> {
        self.services.lock().running.get(name).copied()
    }

    fn service_end(&self, name: &str) -> Option<ServiceEnd> {
        self.services.lock().ended.get(name).cloned()
    }

    async fn gone(&self) {
        let mut here = self.here.clone();
        while here.changed().await.is_ok() {}
    }

    fn stalls(&self) -> broadcast::Receiver<Duration> {
        self.stalls.subscribe()
    }

    async fn signal(&self, pid: i32, signal: i32) -> Result<(), ClusterError> {
        self.request(Op::Signal { pid, signal }, PATIENCE).await
    }

    async fn signal_tree(&self, pid: i32, signal: i32) -> Result<bool, ClusterError> {
        self.request(Op::SignalTree { pid, signal }, PATIENCE).await
    }

    async fn await_exit(&self, pid: i32, timeout: Duration) -> Result<(), ClusterError> {
        self.request(Op::AwaitExit { pid, timeout_ms: TimeSpan(timeout).millis() }, timeout + PATIENCE).await
    }

    async fn state(&self, pid: i32) -> Result<Option<char>, ClusterError> {
        self.request(Op::State { pid }, PATIENCE).await
    }

    async fn exec(&self, argv: &[&str], timeout: Duration) -> Result<CommandOutput, ClusterError> {
        let argv = argv.iter().map(|arg| (*arg).to_owned()).collect();
        let op = Op::Exec { argv, timeout_ms: TimeSpan(timeout).millis() };
        self.request(op, timeout + PATIENCE).await
    }

    async fn put(&self, path: &str, content: &[u8]) -> Result<(), ClusterError> {
        let op = Op::Put { path: path.to_owned(), content: STANDARD.encode(content) };
        self.request(op, PATIENCE).await
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>, ClusterError> {
        let content: String = self.request(Op::Get { path: path.to_owned() }, PATIENCE).await?;
        STANDARD.decode(content).map_err(|error| self.error(&error.to_string()))
    }

    async fn remove(&self, path: &str) -> Result<(), ClusterError> {
        self.request(Op::Remove { path: path.to_owned() }, PATIENCE).await
    }

    async fn connect(&self, address: &str, timeout: Duration) -> Result<io::Result<Duration>, ClusterError> {
        let op = Op::Connect { address: address.to_owned(), timeout_ms: TimeSpan(timeout).millis() };
        let connected: Result<f64, String> = self.request(op, timeout + PATIENCE).await?;
        Ok(connected.map(|ms| Duration::from_secs_f64(ms / 1e3)).map_err(io::Error::other))
    }

    async fn tool(&self, name: &str, args: Value) -> Result<Value, ClusterError> {
        self.request(Op::Tool { name: name.to_owned(), args }, TOOL).await
    }

    async fn attach(&self, argv: &[String]) -> Result<Attached, ClusterError> {
        let () = self.request(Op::Check { argv: argv.to_vec() }, PATIENCE).await?;
        self.attach.attach(argv, &self.log).await.map_err(|error| self.error(&error.0))
    }
}

struct Reports {
    services: Services,
    log: NodeLog,
    hello: Option<oneshot::Sender<String>>,
    stalls: broadcast::Sender<Duration>,
}

impl Reports {
    fn receive(&mut self, line: &str) -> Received<Answer> {
        match serde_json::from_str(line) {
            Ok(FromAgent::Hello { version }) => {
                if let Some(hello) = self.hello.take() {
                    let _ = hello.send(version);
                }
            }
            Ok(FromAgent::Done { id, answer }) => return Received::Answer { id, answer },
            Ok(FromAgent::Log { service, line }) => self.log.line(&service, &line),
            Ok(FromAgent::Started { service, pid }) => {
                self.services.lock().running.insert(service, pid);
            }
            Ok(FromAgent::Exited { service, pid, end }) => {
                self.log.line(&service, &format!("-- process {pid} {}", end.status));
                let mut services = self.services.lock();
                if services.running.get(&service) == Some(&pid) {
                    services.running.remove(&service);
                    services.ended.insert(service, end);
                }
            }
            Ok(FromAgent::Stalled { ms }) => {
                // Only a run records them.
                let _ = self.stalls.send(Duration::from_millis(ms));
            }
            // What the system prints before the agent runs, or instead of it.
            Err(_) => self.log.line("agent", line),
        }
        Received::Handled
    }
}

/// Reads from the agent until it ends. Then no service runs any more.
async fn read(
    reading: impl Future<Output = Result<(), LineError>>,
    services: Services,
    log: NodeLog,
    is_here: watch::Sender<()>,
) {
    if let Err(error) = reading.await {
        log.line("agent", &format!("-- cannot be read any more: {error}"));
    }
    services.lock().running.clear();
    drop(is_here);
}
