//! The controller's end of an agent: one node, whatever driver started it.

use crate::ClusterError;
use crate::node::{Attached, Node, NodeSpec, Role};
use crate::node_log::NodeLog;
use crate::protocol::{FromAgent, Op, Output, Request, Service};
use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::oneshot;

/// How long an agent may take for what should take it no time.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an agent may take to come up.
const HELLO: Duration = Duration::from_secs(15);

/// How long a tool may take: it may have to stop a busy process of many threads.
const TOOL: Duration = Duration::from_secs(60);

/// How a driver attaches a program to its caller.
#[async_trait]
pub(crate) trait Attach: Send + Sync {
    async fn attach(&self, argv: &[String], log: &NodeLog) -> Result<Attached, ClusterError>;
}

/// A node, by its agent.
pub(crate) struct AgentNode {
    name: String,
    role: Role,
    address: Ipv4Addr,
    log: NodeLog,
    shared: Arc<Shared>,
    to_agent: tokio::sync::Mutex<Box<dyn AsyncWrite + Send + Unpin>>,
    next_id: AtomicU64,
    attach: Box<dyn Attach>,
    reader: tokio::task::JoinHandle<()>,
}

/// What the task that hears the agent shares with those who ask it.
#[derive(Default)]
struct Shared {
    /// None once the agent is gone.
    asked: Mutex<Option<Asked>>,
    services: Mutex<HashMap<String, i32>>,
}

type Asked = HashMap<u64, oneshot::Sender<Result<Value, String>>>;

impl AgentNode {
    /// Takes over the streams of an agent that is being started, and waits until it says hello.
    pub(crate) async fn connect(
        spec: &NodeSpec,
        address: Ipv4Addr,
        log: NodeLog,
        from_agent: impl AsyncRead + Send + Unpin + 'static,
        to_agent: impl AsyncWrite + Send + Unpin + 'static,
        attach: Box<dyn Attach>,
    ) -> Result<AgentNode, ClusterError> {
        let shared = Arc::new(Shared { asked: Mutex::new(Some(HashMap::new())), ..Shared::default() });
        let (hello, greeted) = oneshot::channel();
        let reader = tokio::spawn(hear(from_agent, shared.clone(), log.clone(), hello));
        let node = AgentNode {
            name: spec.name.clone(),
            role: spec.role,
            address,
            log,
            shared,
            to_agent: tokio::sync::Mutex::new(Box::new(to_agent)),
            next_id: AtomicU64::new(1),
            attach,
            reader,
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
        Ok(node)
    }

    fn error(&self, what: &str) -> ClusterError {
        ClusterError::new(format!("{}: {what}", self.name))
    }

    async fn ask(&self, op: Op, patience: Duration) -> Result<Value, ClusterError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut line =
            serde_json::to_vec(&Request { id, op }).map_err(|error| self.error(&error.to_string()))?;
        line.push(b'\n');
        let (answer, answered) = oneshot::channel();
        match self.shared.asked.lock().expect("never poisoned").as_mut() {
            Some(asked) => asked.insert(id, answer),
            None => return Err(self.error("the node is gone: its agent has ended")),
        };
        let answered = async {
            // A failure to write shows as the end of the agent, which answers everyone.
            let mut to_agent = self.to_agent.lock().await;
            let _ = to_agent.write_all(&line).await;
            let _ = to_agent.flush().await;
            drop(to_agent);
            answered.await
        };
        match tokio::time::timeout(patience, answered).await {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(error))) => Err(self.error(&error)),
            Ok(Err(_)) => Err(self.error("the node is gone: its agent has ended")),
            Err(_) => {
                if let Some(asked) = self.shared.asked.lock().expect("never poisoned").as_mut() {
                    asked.remove(&id);
                }
                Err(self.error(&format!("its agent did not answer within {} s", patience.as_secs())))
            }
        }
    }

    fn unexpected(&self, value: &Value) -> ClusterError {
        self.error(&format!("its agent answered {value}, which was not asked for"))
    }
}

impl Drop for AgentNode {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

#[async_trait]
impl Node for AgentNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn role(&self) -> Role {
        self.role
    }

    fn address(&self) -> Ipv4Addr {
        self.address
    }

    async fn start(&self, service: &Service) -> Result<i32, ClusterError> {
        // The task that hears the agent notes the process number, in the order of the agent's reports: a service
        // that ends at once must not be taken for a running one.
        let started = self.ask(Op::Start { service: service.clone() }, PATIENCE).await?;
        let pid = started["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        pid.ok_or_else(|| self.unexpected(&started))
    }

    fn service_pid(&self, name: &str) -> Option<i32> {
        self.shared.services.lock().expect("never poisoned").get(name).copied()
    }

    async fn signal(&self, pid: i32, signal: i32) -> Result<(), ClusterError> {
        self.ask(Op::Signal { pid, signal }, PATIENCE).await.map(drop)
    }

    async fn await_exit(&self, pid: i32, timeout: Duration) -> Result<(), ClusterError> {
        self.ask(Op::AwaitExit { pid, timeout_ms: millis(timeout) }, timeout + PATIENCE).await.map(drop)
    }

    async fn state(&self, pid: i32) -> Result<Option<char>, ClusterError> {
        let answer = self.ask(Op::State { pid }, PATIENCE).await?;
        Ok(answer["state"].as_str().and_then(|state| state.chars().next()))
    }

    async fn exec(&self, argv: &[&str], timeout: Duration) -> Result<Output, ClusterError> {
        let argv = argv.iter().map(|arg| (*arg).to_owned()).collect();
        let op = Op::Exec { argv, stdin: String::new(), timeout_ms: millis(timeout) };
        let answer = self.ask(op, timeout + PATIENCE).await?;
        serde_json::from_value(answer).map_err(|error| self.error(&error.to_string()))
    }

    async fn put(&self, path: &str, content: &[u8]) -> Result<(), ClusterError> {
        let op = Op::Put { path: path.to_owned(), content: STANDARD.encode(content) };
        self.ask(op, PATIENCE).await.map(drop)
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>, ClusterError> {
        let answer = self.ask(Op::Get { path: path.to_owned() }, PATIENCE).await?;
        let content = answer["content"].as_str().ok_or_else(|| self.unexpected(&answer))?;
        STANDARD.decode(content).map_err(|error| self.error(&error.to_string()))
    }

    async fn remove(&self, path: &str) -> Result<(), ClusterError> {
        self.ask(Op::Remove { path: path.to_owned() }, PATIENCE).await.map(drop)
    }

    async fn connect(
        &self,
        address: &str,
        timeout: Duration,
    ) -> Result<Result<Duration, String>, ClusterError> {
        let op = Op::Connect { address: address.to_owned(), timeout_ms: millis(timeout) };
        let answer = self.ask(op, timeout + PATIENCE).await?;
        match (answer["ms"].as_f64(), answer["error"].as_str()) {
            (Some(ms), _) => Ok(Ok(Duration::from_secs_f64(ms / 1e3))),
            (None, Some(error)) => Ok(Err(error.to_owned())),
            (None, None) => Err(self.unexpected(&answer)),
        }
    }

    async fn tool(&self, name: &str, args: Value) -> Result<Value, ClusterError> {
        self.ask(Op::Tool { name: name.to_owned(), args }, TOOL).await
    }

    async fn attach(&self, argv: &[String]) -> Result<Attached, ClusterError> {
        self.attach.attach(argv, &self.log).await.map_err(|error| self.error(&error.0))
    }
}

/// Takes in what the agent says until it ends.
async fn hear(
    from_agent: impl AsyncRead + Unpin,
    shared: Arc<Shared>,
    log: NodeLog,
    hello: oneshot::Sender<String>,
) {
    let mut hello = Some(hello);
    let mut lines = BufReader::with_capacity(64 << 10, from_agent).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(FromAgent::Hello { version }) => {
                if let Some(hello) = hello.take() {
                    let _ = hello.send(version);
                }
            }
            Ok(FromAgent::Done { id, value }) => shared.answer(id, Ok(value)),
            Ok(FromAgent::Failed { id, error }) => shared.answer(id, Err(error)),
            Ok(FromAgent::Log { service, line }) => log.line(&service, &line),
            Ok(FromAgent::Started { service, pid }) => {
                shared.services.lock().expect("never poisoned").insert(service, pid);
            }
            Ok(FromAgent::Exited { service, pid, status }) => {
                log.line(&service, &format!("-- process {pid} {status}"));
                let mut services = shared.services.lock().expect("never poisoned");
                if services.get(&service) == Some(&pid) {
                    services.remove(&service);
                }
            }
            // What the system prints before the agent runs, or instead of it.
            Err(_) => log.line("agent", &line),
        }
    }
    // Dropping the answers' channels tells everyone who waits.
    shared.asked.lock().expect("never poisoned").take();
    shared.services.lock().expect("never poisoned").clear();
}

impl Shared {
    fn answer(&self, id: u64, answer: Result<Value, String>) {
        let asked = self.asked.lock().expect("never poisoned").as_mut().and_then(|asked| asked.remove(&id));
        if let Some(asked) = asked {
            let _ = asked.send(answer);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
