//! Events recorded a second with a lock inside this process and no servers: the controller's own cost. An
//! operation passes everything that a real one does (script, command, client program, answer, history file),
//! except that client and controller share this process and the lock always grants.

#[path = "common/measure.rs"]
mod measure;

use fencepost_engine::Stop;
use fencepost_engine::client_connection::{ClientConnection, ClientEnd, ClientEvents};
use fencepost_engine::processes::{ProcessContext, TimeLimits, run_process};
use fencepost_engine::recorder::{Placement, Recorder};
use fencepost_history::{Completion, Seed, Writer};
use fencepost_locks::protocol::{Hello, Notice, VERSION};
use fencepost_workloads::{Length, Now, Script, Step, registry};
use measure::measure;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PROCESSES: usize = 10;
const OPERATIONS: u64 = 20_000;

struct Ignored;

impl ClientEvents for Ignored {
    fn notice(&self, _: Notice) {}
    fn gone(&self, _: &str, _: ClientEnd) {}
}

/// The workload `lock` without its waits, ended after a number of operations.
struct Counted {
    script: Box<dyn Script>,
    left: Arc<AtomicU64>,
}

impl Script for Counted {
    fn next(&mut self, last: Option<&Completion>, now: Now) -> Step {
        let over =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err();
        self.script.next(last, Now { closing: now.closing || over, ..now })
    }
}

async fn client() -> Arc<ClientConnection> {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (reads, writes) = tokio::io::split(theirs);
    tokio::spawn(async move { fencepost_locks::serve_client(reads, writes, fencepost_locks::find).await });
    let hello = Hello {
        hello: VERSION,
        client: "c1".to_owned(),
        lock: "canary-nolock".to_owned(),
        guard: "none".to_owned(),
        seed: 1,
        ..Hello::default()
    };
    let (stdout, stdin) = tokio::io::split(ours);
    let link = ClientConnection::open(&hello, stdin, stdout, Duration::from_secs(5), Arc::new(Ignored)).await;
    Arc::new(link.expect("the client answers"))
}

async fn run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let writer = Writer::create(&folder.path().join("history.jsonl")).expect("a history");
    let placement = Placement { slots: PROCESSES, clients: 2 };
    let recorder = Arc::new(Recorder::new(writer, placement, Arc::new(Stop::default()), false));
    let second = Duration::from_secs(1);
    let times = TimeLimits { ttl: second, acquire: second, free_again: second, patience: second };
    let shared = Arc::new(ProcessContext::new(recorder, times, PROCESSES));
    let links = [client().await, client().await];
    let left = Arc::new(AtomicU64::new(OPERATIONS));
    let settings = fencepost_workloads::Settings {
        keys: 10,
        length: Length::Fixed(Duration::ZERO),
        pause: Duration::ZERO,
        reader: false,
    };
    let lock = registry().iter().find(|workload| workload.name == "lock").expect("registered");
    let mut processes = tokio::task::JoinSet::new();
    for slot in 0..PROCESSES {
        let (settings, left) = (settings.clone(), left.clone());
        let new_script = move |process| -> Box<dyn Script> {
            let script = (lock.script)(&settings, process, Seed(1).stream(&format!("process-{process}")));
            Box::new(Counted { script, left: left.clone() })
        };
        processes.spawn(run_process(shared.clone(), links[slot % 2].clone(), slot, new_script));
    }
    while processes.join_next().await.is_some() {}
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let median = measure("recording: events, in-process lock", || runtime.block_on(run()));
    // An operation is two events: its invocation and its completion.
    println!("{:.0} events a second", (2 * OPERATIONS) as f64 / median.as_secs_f64());
}
