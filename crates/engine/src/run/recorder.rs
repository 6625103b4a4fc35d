//! Records what happens, as it happens: one place where every event gets its index and its time.

use crate::run::lock_state::{KnownHold, LockState};
use crate::stop::Stop;
use fencepost_checker::Watch;
use fencepost_history::{Completion, Event, Kind, OperationError, Process, Writer, f};
use fencepost_nemesis::Trigger;
use parking_lot::Mutex;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, futures::Notified, oneshot};
use tokio::time::Instant;

/// Appends events to the history, and keeps the figures that the progress line shows.
pub struct Recorder {
    begun: Instant,
    stop: Arc<Stop>,
    placement: Placement,
    fail_fast: bool,
    inner: Mutex<RecorderInner>,
    /// Notified whenever a process begins to acquire, or has acquired.
    lock_changed: Notify,
}

/// An awaited event: its process, and the hold under which it happened, if any.
#[derive(Clone, Debug, PartialEq)]
pub struct TriggerEvent {
    pub process: Option<u64>,
    pub hold: Option<KnownHold>,
}

/// Which client hosts which process: slots are dealt out to clients in turn.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    pub slots: usize,
    pub clients: usize,
}

impl Placement {
    pub fn client_of(self, process: u64) -> usize {
        (process % self.slots as u64) as usize % self.clients
    }

    fn client_name(self, process: u64) -> String {
        format!("c{}", self.client_of(process) + 1)
    }
}

struct RecorderInner {
    writer: Writer,
    next_index: u64,
    watch: Watch,
    tally: Tally,
    waiting: Vec<(Trigger, u64, oneshot::Sender<TriggerEvent>)>,
    lock: LockState,
}

/// Counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub operations: u64,
    pub acquisitions: u64,
    /// Overlaps of holds and tokens that did not grow, as far as the watcher is certain.
    pub violations: u64,
}

impl Recorder {
    /// Time 0 is now. `stop` is pulled on a failed write, and with `fail_fast` on a violation.
    pub fn new(writer: Writer, placement: Placement, stop: Arc<Stop>, fail_fast: bool) -> Recorder {
        let inner = RecorderInner {
            writer,
            next_index: 0,
            watch: Watch::new(),
            tally: Tally::default(),
            waiting: Vec::new(),
            lock: LockState::default(),
        };
        let (inner, lock_changed) = (Mutex::new(inner), Notify::new());
        Recorder { begun: Instant::now(), stop, placement, fail_fast, inner, lock_changed }
    }

    /// Gives a channel that resolves when the trigger has fired.
    pub fn await_event(&self, trigger: Trigger) -> oneshot::Receiver<TriggerEvent> {
        let (sender, fired) = oneshot::channel();
        let times = trigger.times;
        self.inner.lock().waiting.push((trigger, times, sender));
        fired
    }

    /// Returns when so many acquires have succeeded from this call on; never where no number is given.
    pub fn acquired(&self, count: Option<u64>) -> impl Future<Output = ()> + Send + use<> {
        let acquires = |times| Trigger { times, ..Trigger::of(f::ACQUIRE) };
        let reached = count.map(|count| self.await_event(acquires(count)));
        async {
            match reached {
                Some(reached) => drop(reached.await),
                None => std::future::pending().await,
            }
        }
    }

    pub fn lock_state<T>(&self, look: impl FnOnce(&LockState) -> T) -> T {
        look(&self.inner.lock().lock)
    }

    /// Returns when a process begins to acquire, or has acquired.
    pub fn lock_changed(&self) -> Notified<'_> {
        self.lock_changed.notified()
    }

    pub fn client_name(&self, process: u64) -> String {
        self.placement.client_name(process)
    }

    /// Time since the recording began.
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Counts so far.
    pub fn tally(&self) -> Tally {
        self.inner.lock().tally
    }

    pub fn invoke(&self, process: u64, f: &str, key: &str, value: Value) {
        self.record(Process::Client(process), Kind::Invoke, f, Some(key), value, None);
    }

    /// Records how an operation ended. `value` is what a fail or an info still knows.
    pub fn complete(&self, process: u64, f: &str, key: &str, completion: &Completion, value: Value) {
        let (value, error) = match completion {
            Completion::Ok(value) => (value.clone(), None),
            Completion::Fail(error) | Completion::Info(error) => (value, Some(error.clone())),
        };
        let process = Process::Client(process);
        self.record(process, completion.kind(), f, Some(key), value, error);
    }

    /// Records something of the nemesis: a fault's stage, or a phase.
    pub fn nemesis(&self, kind: Kind, f: &str, value: Value, error: Option<String>) {
        self.record(Process::Nemesis, kind, f, None, value, error.map(Into::into));
    }

    /// Records a notice of a client's library.
    pub fn notice(&self, process: u64, event: &str, key: &str, value: Value) {
        self.record(Process::Client(process), Kind::Info, event, Some(key), value, None);
    }

    fn record(
        &self,
        process: Process,
        kind: Kind,
        f: &str,
        key: Option<&str>,
        value: Value,
        error: Option<OperationError>,
    ) {
        let (f, key, value) = (f.into(), key.map(Into::into), value.into());
        let mut inner = self.inner.lock();
        // The time is taken under the lock, so that the order of the lines is the order of time.
        let time = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let index = inner.next_index;
        inner.next_index += 1;
        let event = Event { index, time, process, kind, f, key, value, error };
        if let Err(error) = inner.writer.append(&event) {
            self.stop.fail(error.to_string());
        }
        // A release takes its hold with it: a trigger for it means the hold that there was.
        let hold = inner.hold_of(&event);
        inner.lock.push(&event);
        let hold = inner.hold_of(&event).or(hold);
        inner.fire(&event, self.placement, hold);
        if event.f == fencepost_history::f::ACQUIRE {
            self.lock_changed.notify_waiters();
        }
        inner.watch.push(&event);
        let violations = inner.watch.violations();
        let tally = &mut inner.tally;
        tally.violations = violations;
        if matches!(event.process, Process::Client(_)) && event.kind != Kind::Invoke {
            tally.operations += 1;
            let acquired = event.kind == Kind::Ok && event.f == fencepost_history::f::ACQUIRE;
            tally.acquisitions += u64::from(acquired);
        }
        if self.fail_fast && violations > 0 {
            self.stop.violation();
        }
    }
}

impl RecorderInner {
    /// The hold under which an event happened, as far as anybody waits for events.
    fn hold_of(&self, event: &Event) -> Option<KnownHold> {
        match event.process {
            Process::Client(process) if !self.waiting.is_empty() => {
                self.lock.hold_of(process, event.key.as_deref()?).cloned()
            }
            _ => None,
        }
    }

    fn fire(&mut self, event: &Event, placement: Placement, hold: Option<KnownHold>) {
        let client_of = |process| placement.client_name(process);
        let process = match event.process {
            Process::Client(process) => Some(process),
            Process::Nemesis => None,
        };
        let mut at = 0;
        while at < self.waiting.len() {
            let (trigger, times, _) = &mut self.waiting[at];
            if self.lock.fits(event, trigger, client_of) {
                *times = times.saturating_sub(1);
                if *times == 0 {
                    let (_, _, sender) = self.waiting.swap_remove(at);
                    // The task has ended where the run is already being healed.
                    let _ = sender.send(TriggerEvent { process, hold: hold.clone() });
                    continue;
                }
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_history::{ErrorCode, f, read_history};

    #[test]
    fn an_operation_is_recorded_as_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let (writer, placement) = (Writer::create(&path).unwrap(), Placement { slots: 1, clients: 1 });
        let recorder = Recorder::new(writer, placement, Arc::new(Stop::default()), false);
        let why = || ErrorCode::Timeout.error("n1 did not answer in time");
        let ends = [Completion::Ok(Value::Null), Completion::Fail(why()), Completion::Info(why())];
        for end in &ends {
            recorder.complete(0, f::ACQUIRE, "k0", end, Value::Null);
        }
        drop(recorder);
        let recorded = read_history(&path).unwrap();
        let kinds: Vec<Kind> = recorded.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [Kind::Ok, Kind::Fail, Kind::Info]);
        assert_eq!(recorded[2].error, Some(why()));
    }

    #[test]
    fn events_are_numbered_and_operations_of_clients_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let (writer, placement) = (Writer::create(&path).unwrap(), Placement { slots: 1, clients: 1 });
        let recorder = Recorder::new(writer, placement, Arc::new(Stop::default()), false);
        for f in [f::ACQUIRE, f::RELEASE] {
            recorder.invoke(0, f, "k0", Value::Null);
            recorder.complete(0, f, "k0", &Completion::Ok(Value::Null), Value::Null);
        }
        recorder.notice(0, "lost", "k0", Value::Null);
        recorder.nemesis(Kind::Info, "phase", Value::Null, None);
        let tally = recorder.tally();
        // A notice is something that a client said, too.
        assert_eq!((tally.operations, tally.acquisitions, tally.violations), (3, 1, 0));
        drop(recorder);
        let recorded = read_history(&path).unwrap();
        let found: Vec<(u64, &str)> = recorded.iter().map(|event| (event.index, &*event.f)).collect();
        let names = ["acquire", "acquire", "release", "release", "lost", "phase"];
        assert_eq!(found, (0..).zip(names).collect::<Vec<_>>());
    }
}
