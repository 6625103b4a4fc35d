//! What programs outside of any run do with a lock, as a history: they report each operation as it begins and
//! as it ends. It is stamped here, so that an operation is recorded as no shorter than it was.

use crate::run::recorder::Recorder;
use crate::settings::names::BadUsage;
use crate::settings::validation::RunSpec;
use anyhow::Result;
use fencepost_history::run::{RunFile, RunFolder};
use fencepost_history::{
    AcquireArguments, CUT_OFF, Completion, KEY_BYTES_MAX, Kind, LOCK, LockFacts, NODES, OperationError,
    PHASE, RunNodes, RunPhase, SERVERS, f,
};
use fencepost_locks::protocol::{Answer, AnswerKind};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// What can be recorded: of reads and writes of data, no checker would know which are under the lock.
const OPERATIONS: [&str; 4] = [f::ACQUIRE, f::RELEASE, f::PROLONG, f::HOLDS];

/// Programs that report at most: a history names each process by a number.
const PROCESSES_MAX: usize = 100_000;

/// The operations of programs outside, in the history of their faults.
pub struct Recording {
    recorder: Arc<Recorder>,
    processes: Mutex<Processes>,
}

#[derive(Default)]
struct Processes {
    by_name: HashMap<String, ReportingProcess>,
    next: u64,
}

/// A process as its program names it.
struct ReportingProcess {
    number: u64,
    open: Option<(String, String)>,
}

/// What a program reports: an operation that begins (`invoke`), how the latest one has ended, or a notice.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportedEvent {
    /// Any name of the logical, single-threaded user of the lock.
    pub process: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    /// Of an `invoke`, or of the notice `lost`, which has the type `info`.
    #[serde(default)]
    pub f: Option<String>,
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub value: Value,
    #[serde(default)]
    pub error: Option<OperationError>,
}

impl Recording {
    /// Writes what is known of lock, servers and nodes into the folder, as a run does. Errors: unwritable.
    pub(crate) fn begin(
        spec: &RunSpec,
        file: RunFile,
        folder: &Path,
        recorder: &Arc<Recorder>,
    ) -> Result<Recording> {
        let facts = LockFacts {
            name: format!("your programs on {}", spec.options.lock),
            // Not Fencepost's own: it may be the program's failure.
            client: vec!["your programs".to_owned()],
            ..spec.lock.facts(&spec.options.lock_options, None, &[])
        };
        // All of them come through one node. What a nemesis can hit is up to the one who injects by hand.
        let nodes = RunNodes {
            slots: spec.topology.clients.clone(),
            leader: spec.topology.has_leader,
            ..RunNodes::default()
        };
        for (name, value) in [
            (LOCK, json!(facts)),
            (SERVERS, json!(spec.topology.servers)),
            (NODES, json!(nodes)),
            (PHASE, json!(RunPhase::Main.name())),
        ] {
            recorder.nemesis(Kind::Info, name, value, None);
        }
        RunFolder::open(folder)?.write_run(&RunFile { lock: Some(facts), ..file })?;
        Ok(Recording { recorder: recorder.clone(), processes: Mutex::default() })
    }

    /// Records what a program reports, with the time of now. Errors: what makes no sense of it.
    pub fn report(&self, event: ReportedEvent) -> Result<(), BadUsage> {
        let ReportedEvent { process, kind, f, key, value, error } = event;
        let mut processes = self.processes.lock();
        let number = processes.number_of(&process)?;
        let known = processes.by_name.get_mut(&process).expect("it was just numbered");
        match (kind, f.as_deref()) {
            (Kind::Invoke, Some(f)) => {
                let key = checked_key(key)?;
                check_invocation(f, &value)?;
                if let Some((f, _)) = &known.open {
                    return Err(BadUsage::new(format!(
                        "process {process} has not ended its {f}: a process does one thing at a time; give each thread a name of its own"
                    )));
                }
                known.open = Some((f.to_owned(), key.clone()));
                self.recorder.invoke(number, f, &key, value);
            }
            (Kind::Info, Some(f::LOST)) => self.recorder.notice(number, f::LOST, &checked_key(key)?, value),
            (Kind::Invoke, None) | (_, Some(_)) => {
                return Err(BadUsage::new("`f` is of an `invoke`, or it is `lost` of an `info`"));
            }
            (_, None) => {
                let Some((f, key)) = known.open.clone() else {
                    return Err(BadUsage::new(format!("process {process} has begun nothing that could end")));
                };
                let (completion, value) = completion(kind, &f, value, error)?;
                known.open = None;
                self.recorder.complete(number, &f, &key, &completion, value);
                if matches!(completion, Completion::Info(_)) {
                    // It is not known what became of it: another process goes on under that name.
                    processes.by_name.remove(&process);
                }
            }
        }
        Ok(())
    }

    /// The programs are done. No closing acquires were tried: what a lock owes by then is not judged.
    pub(crate) fn end(&self) {
        self.recorder.nemesis(Kind::Info, CUT_OFF, json!("the programs that used the lock were done"), None);
    }
}

impl Processes {
    fn number_of(&mut self, name: &str) -> Result<u64, BadUsage> {
        if let Some(known) = self.by_name.get(name) {
            return Ok(known.number);
        }
        if name.is_empty() || self.by_name.len() >= PROCESSES_MAX {
            let sentence = format!("`process` is a name, of at most {PROCESSES_MAX} in all");
            return Err(BadUsage::new(sentence));
        }
        let number = self.next;
        self.next += 1;
        self.by_name.insert(name.to_owned(), ReportingProcess { number, open: None });
        Ok(number)
    }
}

fn checked_key(key: Option<String>) -> Result<String, BadUsage> {
    let is_key =
        |key: &String| !key.is_empty() && key.len() <= KEY_BYTES_MAX && !key.chars().any(char::is_control);
    key.filter(is_key).ok_or_else(|| {
        BadUsage::new(format!("`key` is the name of a lock, of at most {KEY_BYTES_MAX} bytes"))
    })
}

fn check_invocation(f: &str, value: &Value) -> Result<(), BadUsage> {
    if !OPERATIONS.contains(&f) {
        return Err(BadUsage::new(format!("unknown operation {f:?}: expected {}", OPERATIONS.join(", "))));
    }
    let asks_for_time = f == f::ACQUIRE || f == f::PROLONG;
    let has_ttl = AcquireArguments::of(value).ttl_ms.is_some_and(|ttl| ttl.0 > 0.0);
    match asks_for_time && !has_ttl {
        true => Err(BadUsage::new(format!(
            "the value of {f} says for how long the lock is asked for: {{\"ttl_ms\": 10000}}"
        ))),
        false => Ok(()),
    }
}

/// How an operation ended, and what a `fail` or an `info` still says. A wrong value would be no evidence.
fn completion(
    kind: Kind,
    f: &str,
    value: Value,
    error: Option<OperationError>,
) -> Result<(Completion, Value), BadUsage> {
    let kind = match kind {
        Kind::Ok => AnswerKind::Ok,
        Kind::Fail => AnswerKind::Fail,
        Kind::Invoke | Kind::Info => AnswerKind::Info,
    };
    let answer = Answer { id: 0, kind, value, error };
    answer.check_value(f).map_err(|refusal| BadUsage::new(refusal.sentence))?;
    Ok(answer.ended("the program"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::recorder::Placement;
    use crate::stop::Stop;
    use fencepost_history::{Process, Writer, read_history};

    /// The sentences for these reports, empty for those that were taken, and what was recorded.
    fn reported(reports: &[Value]) -> (Vec<String>, Vec<(Process, Kind, String)>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let history = Writer::create(&path).unwrap();
        let recorder =
            Recorder::new(history, Placement { slots: 1, clients: 1 }, Arc::new(Stop::default()), false);
        let recording = Recording { recorder: Arc::new(recorder), processes: Mutex::default() };
        let report = |report: &Value| {
            let event = serde_json::from_value(report.clone()).unwrap();
            recording.report(event).err().map_or(String::new(), |refusal| refusal.sentence)
        };
        let sentences = reports.iter().map(report).collect();
        drop(recording);
        let events = read_history(&path).unwrap();
        let recorded = events.iter().map(|event| (event.process, event.kind, event.f.to_string())).collect();
        (sentences, recorded)
    }

    fn acquire(process: &str) -> Value {
        json!({"process": process, "type": "invoke", "f": "acquire", "key": "k", "value": {"ttl_ms": 1000}})
    }

    #[test]
    fn each_name_is_a_process_until_it_is_not_known_what_became_of_its_operation() {
        let end = |process: &str, kind: &str| json!({"process": process, "type": kind});
        let (sentences, recorded) = reported(&[
            acquire("a"),
            acquire("b"),
            end("a", "ok"),
            end("b", "info"),
            acquire("b"),
            json!({"process": "a", "type": "info", "f": "lost", "key": "k", "value": {"reason": "gone"}}),
        ]);
        assert!(sentences.iter().all(String::is_empty), "{sentences:?}");
        let numbers: Vec<Process> = recorded.iter().map(|(process, ..)| *process).collect();
        assert_eq!(numbers, [0, 1, 0, 1, 2, 0].map(Process::Client));
        assert_eq!(recorded[5], (Process::Client(0), Kind::Info, "lost".to_owned()));
    }

    #[test]
    fn what_would_be_no_evidence_is_refused() {
        for (reports, said) in [
            (vec![acquire("a"), acquire("a")], "one thing at a time"),
            (vec![json!({"process": "a", "type": "ok"})], "has begun nothing"),
            (vec![json!({"process": "a", "type": "invoke", "f": "acquire", "key": "k"})], "ttl_ms"),
            (vec![json!({"process": "a", "type": "invoke", "f": "read", "key": "k"})], "unknown operation"),
            (vec![json!({"process": "a", "type": "invoke", "f": "release"})], "`key`"),
            (vec![json!({"process": "", "type": "ok"})], "is a name"),
            (
                vec![acquire("a"), json!({"process": "a", "type": "ok", "value": {"token": "seven"}})],
                "a whole number",
            ),
        ] {
            let (sentences, recorded) = reported(&reports);
            assert!(sentences.last().unwrap().contains(said), "{sentences:?}");
            assert_eq!(recorded.len(), reports.len() - 1, "{said}");
        }
    }
}
