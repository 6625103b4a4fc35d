//! When a fault that took a server down, or in which one ended, counts as healed: by a server that is late,
//! and by one that never comes back.

use super::*;
use crate::run::prepared_fault::prepare;
use crate::run::recorder::{Placement, Recorder};
use crate::settings::options::RunOptions;
use crate::stop::Stop;
use async_trait::async_trait;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClusterError, Node};
use fencepost_history::{Event, NodeKind, ServerEnded, Writer, read_history};
use fencepost_nemesis::{Readiness, RunningService};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The server `n1`, which runs at first.
struct Server {
    runs: Mutex<bool>,
    starts: AtomicU64,
    /// Whether it ends as soon as it is started again.
    is_broken: bool,
    /// How often it still says that it does not serve.
    refusals: Mutex<u64>,
}

impl Server {
    fn new(is_broken: bool, refusals: u64) -> Arc<Server> {
        let refusals = Mutex::new(refusals);
        Arc::new(Server { runs: Mutex::new(true), starts: AtomicU64::new(0), is_broken, refusals })
    }

    fn starts(&self) -> u64 {
        self.starts.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Readiness for Server {
    async fn await_serving(&self, _server: &str) -> Result<(), ClusterError> {
        let mut left = self.refusals.lock();
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        Err(ClusterError::new("n1 does not serve yet"))
    }
}

#[async_trait]
impl Node for Server {
    fn address(&self) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    fn name(&self) -> &str {
        "n1"
    }

    fn kind(&self) -> NodeKind {
        NodeKind::Server
    }

    async fn start(&self, _service: &Service) -> Result<i32, ClusterError> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        *self.runs.lock() = !self.is_broken;
        Ok(5)
    }

    fn service_pid(&self, _name: &str) -> Option<i32> {
        self.runs.lock().then_some(5)
    }

    async fn signal_tree(&self, _pid: i32, _signal: i32) -> Result<bool, ClusterError> {
        *self.runs.lock() = false;
        Ok(true)
    }

    async fn await_exit(&self, _pid: i32, _timeout: Duration) -> Result<(), ClusterError> {
        Ok(())
    }

    async fn state(&self, _pid: i32) -> Result<Option<char>, ClusterError> {
        Ok(self.runs.lock().then_some('S'))
    }

    async fn connect(
        &self,
        _address: &str,
        _timeout: Duration,
    ) -> Result<std::io::Result<Duration>, ClusterError> {
        let accepts = self.runs.lock().then_some(Duration::from_millis(1));
        Ok(accepts.ok_or_else(|| std::io::Error::other("refused")))
    }

    /// Its clock, which no fault has changed.
    async fn tool(&self, _name: &str, _args: Value) -> Result<Value, ClusterError> {
        Ok(Value::Null)
    }
}

/// What came of a fault of this server.
struct Played {
    history: Vec<Event>,
    errors: Vec<String>,
    took: Duration,
}

impl Played {
    /// How the healing went, as it was recorded.
    fn healing(&self) -> Vec<Kind> {
        let of_healing = |event: &&Event| event.value.get("stage") == Some(&json!("heal"));
        self.history.iter().filter(of_healing).map(|event| event.kind).collect()
    }
}

/// Kills the server for a millisecond. Its log has one line, in this folder.
async fn kill(server: &Arc<Server>, logs: &Path) -> Played {
    play("kill", server, logs, log(logs)).await
}

/// The same with another fault.
async fn play(fault: &str, server: &Arc<Server>, logs: &Path, log: ServerLog) -> Played {
    std::fs::write(logs.join("n1.log"), "10:00:00.000 redis | FATAL: no memory\n").unwrap();
    let plan = toml::from_str(&format!("[[fault]]\nfault = '{fault}'\non = ['n1']\nfor_ms = 1")).unwrap();
    let options = RunOptions { lock: "redis-single".to_owned(), ..RunOptions::default() };
    let spec = RunSpec::with_plan(options, plan).unwrap();
    let begun = Instant::now();
    let injection = Injection::begin(&spec, prepare(&spec.plan).unwrap(), context(server), log);
    injection.all_over().await;
    let took = begun.elapsed();
    let errors = injection.heal_all().await;
    Played { history: read_history(&logs.join("history.jsonl")).unwrap(), errors, took }
}

fn context(server: &Arc<Server>) -> Arc<FaultContext> {
    let node: Arc<dyn Node> = server.clone();
    let service =
        Service { name: "redis".to_owned(), argv: Vec::new(), env: Vec::new(), refuses_root: false };
    let services = HashMap::from([("n1".to_owned(), RunningService { service, port: 6379 })]);
    Arc::new(FaultContext::new(&[node], services, Box::new(|_| None), None, Some(server.clone())))
}

fn log(logs: &Path) -> ServerLog {
    let (writer, placement) =
        (Writer::create(&logs.join("history.jsonl")).unwrap(), Placement { slots: 1, clients: 1 });
    let recorder = Arc::new(Recorder::new(writer, placement, Arc::new(Stop::default()), false));
    ServerLog { logs: logs.to_owned(), unreadable: &[], recorder }
}

#[tokio::test(start_paused = true)]
async fn a_kill_is_healed_once_its_server_serves_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(false, 7);
    let killed = kill(&server, folder.path()).await;
    assert_eq!((killed.healing(), killed.errors.len()), (vec![Kind::Invoke, Kind::Ok], 0));
    assert!(killed.took >= 7 * HEAL_AGAIN, "after {:?} it did not serve yet", killed.took);
    assert_eq!(server.starts(), 1, "it runs, and only has to be waited for");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_come_back_is_given_up_and_recorded_with_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(true, 0);
    let killed = kill(&server, folder.path()).await;
    assert_eq!(killed.healing(), [Kind::Invoke, Kind::Info]);
    assert_eq!(killed.errors, ["kill on n1 could not be healed: n1 ended as soon as it was started again"]);
    let ended: Vec<ServerEnded> = killed.history.iter().filter_map(ServerEnded::read).collect();
    assert_eq!((ended.len(), ended[0].node.as_str(), ended[0].after_fault), (1, "n1", Some(0)));
    assert_eq!(ended[0].log, ["FATAL: no memory"]);
    assert!(server.starts() > 50, "it was started {} times", server.starts());
    assert!((HEALING..HEALING + 2 * LAST_HEALING).contains(&killed.took), "{:?}", killed.took);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_read_its_data_is_no_failure_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let log = ServerLog { unreadable: &["no memory"], ..log(folder.path()) };
    let killed = play("kill", &Server::new(true, 0), folder.path(), log).await;
    assert_eq!((killed.healing(), killed.errors.len()), (vec![Kind::Invoke, Kind::Info], 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_runs_and_does_not_serve_is_recorded_too() {
    let folder = tempfile::tempdir().unwrap();
    let killed = kill(&Server::new(false, u64::MAX), folder.path()).await;
    assert!(killed.took >= STARTING, "{:?}", killed.took);
    assert_eq!(killed.healing(), [Kind::Invoke, Kind::Info]);
    let ended: Vec<ServerEnded> = killed.history.iter().filter_map(ServerEnded::read).collect();
    assert_eq!((ended.len(), ended[0].node.as_str(), ended[0].after_fault), (1, "n1", Some(0)));
    assert_eq!(ended[0].log, ["FATAL: no memory"]);
}

/// A pause takes no server down, so that its healing starts none.
#[tokio::test(start_paused = true)]
async fn a_server_that_ends_in_a_fault_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(false, 0);
    let paused = play("pause", &server, folder.path(), log(folder.path())).await;
    assert_eq!((paused.healing(), paused.errors.len()), (vec![Kind::Invoke, Kind::Ok], 0));
    assert_eq!(server.starts(), 1);
    let healed = paused.history.iter().rfind(|event| event.kind == Kind::Ok).unwrap();
    assert_eq!(healed.value["observed"]["n1"]["restarted"], true);
}

/// A server that died of a full disk, and whose power had failed by the time that its disk had room again.
#[tokio::test(start_paused = true)]
async fn a_server_that_another_fault_holds_down_is_left_to_that() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(false, 0);
    *server.runs.lock() = false;
    let spec = RunSpec::with_plan(RunOptions::default(), toml::from_str("").unwrap()).unwrap();
    let injection = Injection::begin(&spec, Vec::new(), context(&server), log(folder.path()));
    let ran = ["n1".to_owned()];
    let nemesis = fencepost_nemesis::find("power-loss").unwrap();
    let power_loss = InForce { nemesis, on: ran.to_vec(), healing: false };
    injection.shared.in_force.lock().insert(1, power_loss);
    assert_eq!(injection.shared.revive(0, &ran).await.unwrap(), [""; 0]);
    assert_eq!(server.starts(), 0);
    // The power was away from n1 when it had no process.
    assert_eq!(injection.shared.revive(1, &[]).await.unwrap(), ran);
    assert_eq!(server.starts(), 1);
}

/// An injection without a plan, in which these faults count as in force.
fn in_force(server: &Arc<Server>, logs: &Path, faults: &[(u64, &str)]) -> Injection {
    let spec = RunSpec::with_plan(RunOptions::default(), toml::from_str("").unwrap()).unwrap();
    let injection = Injection::begin(&spec, Vec::new(), context(server), log(logs));
    for (id, name) in faults {
        let nemesis = fencepost_nemesis::find(name).unwrap();
        let one = InForce { nemesis, on: vec!["n1".to_owned()], healing: false };
        injection.shared.in_force.lock().insert(*id, one);
    }
    injection
}

#[tokio::test]
async fn what_is_in_force_is_known_and_which_of_it_takes_servers_down() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::new(false, 0);
    let paused = in_force(&server, folder.path(), &[(4, "pause")]);
    assert_eq!(paused.in_force(), ["pause n1"]);
    assert!(!paused.takes_down("n1") && !paused.shared.others_take_down(0));
    let folder = tempfile::tempdir().unwrap();
    let both = in_force(&server, folder.path(), &[(4, "pause"), (5, "power-loss")]);
    assert_eq!(both.in_force(), ["pause n1", "power-loss n1"]);
    assert!(both.takes_down("n1") && !both.takes_down("n2"));
    assert!(both.shared.others_take_down(4) && !both.shared.others_take_down(5));
}

/// Fault, kind and stage of each event.
fn recorded(history: &[Event]) -> Vec<String> {
    let text = |event: &Event| format!("{} {:?} {}", event.f, event.kind, event.value["id"]);
    history.iter().map(text).collect()
}

/// Plays a fault of this name 50 ms after the beginning, while a kill of its server is in force. Gives what
/// was recorded, and how long it took.
async fn beside_a_kill(fault: &str) -> (Vec<Event>, Duration) {
    let plan = format!("[[fault]]\nfault = '{fault}'\non = ['n1']\nat_ms = 50\nfor_ms = 20\n");
    let spec = RunSpec::with_plan(RunOptions::default(), toml::from_str(&plan).unwrap()).unwrap();
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::new(false, 0));
    let ready = prepare(&spec.plan).unwrap();
    let begun = Instant::now();
    let injection = Injection::begin(&spec, ready, context(&server), log(folder.path()));
    let nemesis = fencepost_nemesis::find("kill").unwrap();
    let other = InForce { nemesis, on: vec!["n1".to_owned()], healing: false };
    injection.shared.in_force.lock().insert(9, other);
    injection.all_over().await;
    let took = begun.elapsed();
    injection.heal_all().await;
    (read_history(&folder.path().join("history.jsonl")).unwrap(), took)
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_left_out_while_another_of_its_kind_is_in_force_on_its_target() {
    let (history, took) = beside_a_kill("kill").await;
    assert_eq!((history.len(), &*history[0].f, history[0].kind), (1, FAULT_LEFT_OUT, Kind::Info));
    assert_eq!(*history[0].value, json!({"id": 0, "fault": "kill", "targets": ["n1"]}));
    assert!((50..60).contains(&took.as_millis()), "not before its time: {took:?}");
    // Another kind does not stand in its way.
    assert_eq!(recorded(&beside_a_kill("pause").await.0)[0], "pause Invoke 0");
}

#[tokio::test(start_paused = true)]
async fn a_fault_is_described_when_it_begins_and_when_it_is_known_and_shows_what_was_observed() {
    let folder = tempfile::tempdir().unwrap();
    let history = kill(&Server::new(false, 0), folder.path()).await.history;
    let shown: Vec<(Kind, String, Option<bool>, bool)> = history
        .iter()
        .filter_map(|event| Some((event, FaultEvent::read(event)?)))
        .map(|(event, fault)| {
            let sentence = fault.description.as_ref().map(|said| !said.sentence.is_empty());
            (event.kind, event.value["stage"].to_string(), sentence, fault.observed.is_object())
        })
        .collect();
    let (inject, heal) = ("\"inject\"".to_owned(), "\"heal\"".to_owned());
    assert_eq!(
        shown,
        [
            (Kind::Invoke, inject.clone(), Some(true), false),
            (Kind::Ok, inject, Some(true), true),
            (Kind::Invoke, heal.clone(), None, false),
            (Kind::Ok, heal, None, true),
        ]
    );
}
