//! A deployment of literals: clients that speak the client protocol over pipes in memory, to a lock and a
//! storage of a few maps. In paused time, a run of minutes takes milliseconds; the engine is the real one.

use crate::run::client_connection::{ClientConnection, ClientEnd, ClientEvents};
use crate::run::deployment::Deployment;
use crate::run::recorder::{Placement, Recorder};
use crate::run::script_player::DirectedScript;
use crate::run::{RunContext, RunOutcome, Running};
use crate::settings::options::RunOptions;
use crate::settings::validation::RunSpec;
use crate::stop::Stop;
use async_trait::async_trait;
use fencepost_checker::RunVerdict;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::run::RunFolder;
use fencepost_history::{
    Event, Grant, LockFacts, Millis, NodeKind, Released, Seed, TimeSpan, Writer, f, read_history,
};
use fencepost_locks::protocol::{Answer, AnswerKind, Command, Hello, HelloAnswer, Notice, ToClient, VERSION};
use fencepost_nemesis::{FaultContext, Plan, Readiness, RunningService};
use fencepost_wire::{LineReader, LineWriter};
use nix::libc;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a request and its answer are under way, each.
const WAY: Duration = Duration::from_millis(1);
const AGAIN: Duration = Duration::from_millis(20);

/// What is wrong with the simulated lock; nothing by default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habits {
    /// A grant that runs is given to others, too.
    pub grants_twice: bool,
    /// The answer to each read is under way for so long.
    pub reads_late: Duration,
}

#[derive(Default)]
struct SimulatedService {
    /// By key: the process, and until when it holds it.
    holders: HashMap<String, (u64, Instant)>,
    values: HashMap<String, i64>,
    tokens: i64,
}

/// A client program: it can be stopped, as by SIGSTOP, and killed.
struct SimulatedClient {
    name: String,
    number: i32,
    stopped: watch::Sender<bool>,
    killed: watch::Sender<bool>,
}

impl SimulatedClient {
    /// Returns once the program is not stopped.
    async fn runs(&self) {
        let _ = self.stopped.subscribe().wait_for(|stopped| !stopped).await;
    }
}

/// Speaks the client protocol for one client until it is killed or its input ends.
async fn serve(
    client: Arc<SimulatedClient>,
    service: Arc<Mutex<SimulatedService>>,
    habits: Habits,
    input: tokio::io::DuplexStream,
    output: tokio::io::DuplexStream,
) {
    let mut lines = LineReader::new(input, 1 << 20);
    let (writer, _) = LineWriter::start(output);
    let Ok(Some(_hello)) = lines.next_line().await else { return };
    let can = ["token", "validity"].map(str::to_owned).to_vec();
    writer.send(&HelloAnswer { hello: VERSION, can, pid: client.number });
    let writer = Arc::new(writer);
    let mut operations = tokio::task::JoinSet::new();
    let mut killed = client.killed.subscribe();
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line,
            _ = killed.wait_for(|killed| *killed) => return,
        };
        let Ok(Some(line)) = line else { return };
        let Ok(ToClient::Command(command)) = serde_json::from_str(&line) else { continue };
        let (client, service, writer) = (client.clone(), service.clone(), writer.clone());
        operations.spawn(async move {
            let answer = carry_out(&client, &service, habits, &command).await;
            client.runs().await;
            writer.send(&answer);
        });
    }
}

async fn carry_out(
    client: &SimulatedClient,
    service: &Mutex<SimulatedService>,
    habits: Habits,
    command: &Command,
) -> Answer {
    let ended = |kind, value: Value, error: Option<&str>| Answer {
        id: command.id,
        kind,
        value,
        error: error.map(Into::into),
    };
    client.runs().await;
    tokio::time::sleep(WAY).await;
    let (key, process) = (command.key.to_string(), command.process);
    match &*command.f {
        f::ACQUIRE => {
            let ttl = Duration::from_millis(command.ttl_ms.unwrap_or(0));
            let deadline = Instant::now() + Duration::from_millis(command.timeout_ms.unwrap_or(0));
            loop {
                let asked = Instant::now();
                let token = service.lock().take(&key, process, ttl, habits);
                if let Some(token) = token {
                    tokio::time::sleep(WAY).await;
                    let validity_ms = Some(Millis((ttl.saturating_sub(asked.elapsed())).as_millis() as f64));
                    let grant = Grant { token: Some(token), validity_ms, ..Grant::default() };
                    return ended(AnswerKind::Ok, grant.into(), None);
                }
                if Instant::now() + AGAIN > deadline {
                    return ended(
                        AnswerKind::Fail,
                        Value::Null,
                        Some("taken: another process holds the lock"),
                    );
                }
                tokio::time::sleep(AGAIN).await;
                client.runs().await;
            }
        }
        f::RELEASE => {
            let removed = service.lock().give_back(&key, process);
            let value = Value::from(Released { believed: Some(true), ..Released::default() });
            match removed {
                true => ended(AnswerKind::Ok, value, None),
                false => ended(AnswerKind::Fail, value, Some("not-held: the lease was over")),
            }
        }
        f::READ => {
            let value = service.lock().values.get(&key).copied().unwrap_or(0);
            tokio::time::sleep(habits.reads_late).await;
            ended(AnswerKind::Ok, json!(value), None)
        }
        f::WRITE => {
            service.lock().values.insert(key, command.value.as_i64().unwrap_or(0));
            ended(AnswerKind::Ok, command.value.clone(), None)
        }
        _ => {
            let holds = service.lock().holders.get(&key).is_some_and(|(holder, _)| *holder == process);
            ended(AnswerKind::Ok, json!(holds), None)
        }
    }
}

impl SimulatedService {
    fn take(&mut self, key: &str, process: u64, ttl: Duration, habits: Habits) -> Option<i64> {
        let now = Instant::now();
        let is_taken = self.holders.get(key).is_some_and(|(_, until)| *until > now);
        if is_taken && !habits.grants_twice {
            return None;
        }
        self.tokens += 1;
        self.holders.insert(key.to_owned(), (process, now + ttl));
        Some(self.tokens)
    }

    /// Whether this process had the lock, which it has no more.
    fn give_back(&mut self, key: &str, process: u64) -> bool {
        let now = Instant::now();
        let is_own = self.holders.get(key).is_some_and(|(holder, until)| *holder == process && *until > now);
        if is_own {
            self.holders.remove(key);
        }
        is_own
    }
}

/// The node of a server or a client: programs in it can be stopped, woken and killed.
struct SimulatedNode {
    name: String,
    kind: NodeKind,
    client: Option<Arc<SimulatedClient>>,
}

impl SimulatedNode {
    fn send(&self, signal: i32) {
        let Some(client) = &self.client else { return };
        match signal {
            libc::SIGSTOP => drop(client.stopped.send_replace(true)),
            libc::SIGCONT => drop(client.stopped.send_replace(false)),
            libc::SIGKILL => drop(client.killed.send_replace(true)),
            _ => {}
        }
    }
}

#[async_trait]
impl Node for SimulatedNode {
    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    fn name(&self) -> &str {
        &self.name
    }
    fn kind(&self) -> NodeKind {
        self.kind
    }
    async fn start(&self, _: &Service) -> Result<i32, ClusterError> {
        Ok(1)
    }
    fn service_pid(&self, _: &str) -> Option<i32> {
        Some(1)
    }
    async fn signal(&self, _: i32, signal: i32) -> Result<(), ClusterError> {
        self.send(signal);
        Ok(())
    }
    async fn signal_tree(&self, _: i32, signal: i32) -> Result<bool, ClusterError> {
        self.send(signal);
        Ok(true)
    }
    async fn await_exit(&self, _: i32, _: Duration) -> Result<(), ClusterError> {
        Ok(())
    }
    async fn state(&self, _: i32) -> Result<Option<char>, ClusterError> {
        let stopped = self.client.as_ref().is_some_and(|client| *client.stopped.borrow());
        let killed = self.client.as_ref().is_some_and(|client| *client.killed.borrow());
        Ok((!killed).then_some(if stopped { 'T' } else { 'S' }))
    }
    async fn connect(&self, _: &str, _: Duration) -> Result<std::io::Result<Duration>, ClusterError> {
        Ok(Ok(WAY))
    }
}

struct AlwaysReady;

#[async_trait]
impl Readiness for AlwaysReady {
    async fn await_serving(&self, _: &str) -> Result<(), ClusterError> {
        Ok(())
    }
}

#[derive(Default)]
struct ToRecorder(OnceLock<Arc<Recorder>>);

impl ClientEvents for ToRecorder {
    fn notice(&self, notice: Notice) {
        if let Some(recorder) = self.0.get() {
            recorder.notice(notice.process, &notice.event, &notice.key, Value::Null);
        }
    }
    fn gone(&self, _: &str, _: ClientEnd) {}
}

pub(crate) struct Simulated {
    pub history: Vec<Event>,
    pub verdict: RunVerdict,
    pub outcome: RunOutcome,
    /// In the time of the run, not of the test.
    pub took: Duration,
}

impl Simulated {
    pub fn events<'s>(&'s self, f: &'s str) -> impl Iterator<Item = &'s Event> {
        self.history.iter().filter(move |event| event.f == f)
    }
}

/// Options of a short run on one server without a storage's guard.
pub(crate) fn options(edit: impl FnOnce(&mut RunOptions)) -> RunOptions {
    let mut options = RunOptions {
        lock: "redis-single".to_owned(),
        seed: Some(Seed(7)),
        ttl: TimeSpan::from_millis(1000),
        time_limit: TimeSpan::from_millis(10_000),
        ..RunOptions::default()
    };
    edit(&mut options);
    options
}

pub(crate) fn spec(options: RunOptions, faults: &str) -> RunSpec {
    let peaceful = RunSpec::new(options.clone()).expect("options that fit");
    match faults {
        "" => peaceful,
        faults => {
            let plan = Plan::parse(faults, &peaceful.topology).expect("a plan");
            RunSpec::with_plan(options, plan).expect("a plan that fits")
        }
    }
}

pub(crate) async fn play(spec: &RunSpec, habits: Habits, script: Option<&DirectedScript>) -> Simulated {
    let results = tempfile::tempdir().expect("a folder");
    let folder = RunFolder::create(results.path(), &spec.options.settings()).expect("a folder of a run");
    let service = Arc::<Mutex<SimulatedService>>::default();
    let events = Arc::<ToRecorder>::default();
    let mut nodes: Vec<Arc<dyn Node>> = Vec::new();
    let mut clients = Vec::new();
    for (number, name) in (1..).zip(spec.topology.clients.clone()) {
        let (stopped, killed) = (watch::Sender::new(false), watch::Sender::new(false));
        let client = Arc::new(SimulatedClient { name: name.clone(), number, stopped, killed });
        let (commands, input) = tokio::io::duplex(1 << 16);
        let (output, answers) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(client.clone(), service.clone(), habits, input, output));
        let hello = Hello { hello: VERSION, client: client.name.clone(), ..Hello::default() };
        let connected =
            ClientConnection::open(&hello, commands, answers, Duration::from_secs(5), events.clone()).await;
        clients.push(Arc::new(connected.expect("a client")));
        nodes.push(Arc::new(SimulatedNode { name, kind: NodeKind::Client, client: Some(client) }));
    }
    let mut services = HashMap::new();
    for name in spec.topology.servers.clone() {
        let service =
            Service { name: "redis".to_owned(), argv: Vec::new(), env: Vec::new(), refuses_root: false };
        services.insert(name.clone(), RunningService { service, port: 1 });
        nodes.push(Arc::new(SimulatedNode { name, kind: NodeKind::Server, client: None }));
    }
    let context =
        FaultContext::new(&nodes, services, Box::new(|_| Some(1)), None, Some(Arc::new(AlwaysReady)));
    let deployment = Deployment {
        clients,
        context: Arc::new(context),
        versions: Vec::new(),
        lock: LockFacts::default(),
        key_prefix: String::new(),
        _doors: None,
    };
    let stop = Arc::new(Stop::default());
    let placement = Placement { slots: spec.options.concurrency, clients: spec.options.clients };
    let writer = Writer::create(&folder.history()).expect("a history");
    let recorder = Arc::new(Recorder::new(writer, placement, stop.clone(), spec.options.fail_fast));
    let _ = events.0.set(recorder.clone());
    let observer = Arc::new(crate::run::observer::Unobserved);
    let run = RunContext { folder: &folder, stop: &stop, observer };
    let begun = Instant::now();
    let running = Running::begin(spec, &run, &deployment, &recorder, script).expect("a run that begins");
    let outcome = running.until_over().await.heal().await.close().await.expect("a run");
    let history = read_history(&folder.history()).expect("a history");
    let verdict = fencepost_checker::check_run(&history);
    Simulated { verdict, outcome, took: begun.elapsed(), history }
}

#[cfg(test)]
mod tests;
