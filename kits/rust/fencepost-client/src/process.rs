//! One process of a client: its operations, one at a time, and what it believes to hold.

use crate::hello::{Client, BETWEEN_CHECK_AND_WRITE};
use crate::state::{millis, Hold, Pending, Shared, State};
use crate::storage::{Credentials, Ended, Storage};
use crate::{Error, Grant, Lock, Removal};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For operations that name no time-out of their own.
const TIMEOUT_DEFAULT_MS: u64 = 1_000;

/// Makes the lock of one process.
pub(crate) type Maker = dyn Fn(Arc<Shared>) -> Result<Box<dyn Lock>, Error> + Send + Sync;

/// What the client keeps of a process.
pub(crate) struct Handle {
    shared: Arc<Shared>,
    inbox: Sender<Value>,
}

impl Handle {
    pub(crate) fn start(client: &Arc<Client>, number: u64, make: &Arc<Maker>) -> Handle {
        let shared = Arc::new(Shared::new(client.clone(), number));
        let (inbox, commands) = channel();
        let (own, make) = (shared.clone(), make.clone());
        std::thread::spawn(move || {
            let storage = Storage::new(&own.client, number);
            Process { shared: own, make, lock: None, storage }.run(&commands);
        });
        Handle { shared, inbox }
    }

    /// Hands the process an operation; gives it back if the process is over.
    pub(crate) fn enqueue(&self, command: Value) -> Option<Value> {
        let state = self.shared.state();
        match state.over {
            true => Some(command),
            false => self.inbox.send(command).err().map(|refused| refused.0),
        }
    }

    /// Ends the process: its user is no more, as if it had crashed.
    pub(crate) fn over(self) {
        self.shared.end();
    }
}

struct Process {
    shared: Arc<Shared>,
    make: Arc<Maker>,
    lock: Option<Box<dyn Lock>>,
    storage: Storage,
}

impl Process {
    fn run(mut self, commands: &Receiver<Value>) {
        while let Ok(command) = commands.recv() {
            if self.is_over() {
                self.refuse(&command);
                continue;
            }
            self.perform(&command);
            if self.is_over() {
                // Nothing more comes into the inbox.
                while let Ok(command) = commands.try_recv() {
                    self.refuse(&command);
                }
                break;
            }
        }
        let number = self.shared.number;
        let dropped = guarded(|| {
            drop(self);
            Ok(())
        });
        if dropped.is_err() {
            eprintln!("process {number}: the lock could not be dropped");
        }
    }

    fn is_over(&self) -> bool {
        self.shared.state().over
    }

    /// Answers an operation that came too late and was not begun.
    fn refuse(&self, command: &Value) {
        let why = "process-over: an operation before it was indeterminate";
        self.shared.answer(command, Ended::fail(Value::Null, why));
    }

    fn perform(&mut self, command: &Value) {
        let key = command["key"].as_str().unwrap_or_default();
        let timeout = Duration::from_millis(command["timeout_ms"].as_u64().unwrap_or(TIMEOUT_DEFAULT_MS));
        let ended = match command["f"].as_str().unwrap_or_default() {
            "holds" => Ended::ok(self.believes(key).into()),
            "acquire" => match self.acquire(command, key, timeout) {
                Some(ended) => ended,
                // It was granted and is answered.
                None => return,
            },
            "release" => self.release(command, timeout),
            "leave" => self.leave(key, timeout),
            "prolong" | "reenter" => self.prolong(command, key, timeout),
            "leader" => self.leader(key, timeout),
            "read" => self.access(key, timeout, None),
            "write" => self.write(key, &command["value"], timeout),
            other => Ended::fail(Value::Null, format!("bad-command: this client does not know `{other}`")),
        };
        if ended.kind == "info" {
            self.shared.end();
        }
        self.shared.answer(command, ended);
    }

    /// Makes the lock, unless that has succeeded before. Without the lock nothing is begun.
    fn lock(&mut self) -> Result<&mut Box<dyn Lock>, Error> {
        if self.lock.is_none() {
            let made = guarded(|| (self.make)(self.shared.clone()));
            self.lock = Some(made.map_err(|error| {
                let (Error::NotAcquired(why)
                | Error::NotHeld(why)
                | Error::Certain(why)
                | Error::Unknown(why)) = error;
                Error::Certain(format!("unreachable: the lock could not be made: {why}"))
            })?);
        }
        self.lock.as_mut().ok_or_else(|| Error::Certain(String::new()))
    }

    /// Calls a function of the lock, which is made first where there is none.
    fn call<T>(&mut self, call: impl FnOnce(&mut Box<dyn Lock>) -> Result<T, Error>) -> Result<T, Error> {
        let lock = self.lock()?;
        guarded(|| call(lock))
    }

    fn acquire(&mut self, command: &Value, key: &str, timeout: Duration) -> Option<Ended> {
        let asked = Instant::now();
        let Some(ttl_ms) = command["ttl_ms"].as_u64().filter(|ttl_ms| *ttl_ms > 0) else {
            return Some(Ended::fail(Value::Null, "bad-command: an acquire needs a ttl_ms greater than 0"));
        };
        let share = match Share::asked(command) {
            Ok(share) => share,
            Err(why) => return Some(Ended::fail(Value::Null, format!("bad-command: {why}"))),
        };
        let ttl = Duration::from_millis(ttl_ms);
        let shared = self.shared.clone();
        if let Err(error) = self.lock() {
            return Some(failed(Value::Null, error));
        }
        let begun = Instant::now();
        let names = names(command);
        let own_names = names.iter().map(|name| (*name).to_owned()).collect();
        shared.state().pending =
            Some(Pending { names: own_names, asked, begun, renewed_at: None, lost: HashMap::new() });
        let acquired = self.call(|lock| match share {
            Share::Whole => lock.acquire(key, ttl, timeout),
            Share::Shared => lock.acquire_shared(key, ttl, timeout),
            Share::Permit { of } => lock.acquire_permit(key, of, ttl, timeout),
            Share::Set => lock.acquire_all(&names, ttl, timeout),
        });
        let mut state = shared.state();
        let pending = state.pending.take();
        match (acquired, pending) {
            (Ok(Some(grant)), Some(pending)) => {
                self.granted(&mut state, command, grant, pending, ttl);
                let over = state.over;
                drop(state);
                if over {
                    self.give_back(command);
                }
                None
            }
            (Ok(_), _) => Some(Ended::fail(Value::Null, "refused-by-library: acquire returned no grant")),
            (Err(Error::NotAcquired(why)), _) => Some(Ended::fail(Value::Null, format!("taken: {why}"))),
            (Err(error), _) => Some(failed(Value::Null, error)),
        }
    }

    /// Records the hold and answers.
    fn granted(&self, state: &mut State, command: &Value, grant: Grant, pending: Pending, ttl: Duration) {
        let (mut until, mut value) = (None, json!({}));
        if self.shared.client.lease_is_ttl {
            let now = Instant::now();
            let counted_from = pending.renewed_at.map_or(pending.begun, |renewed| renewed.max(pending.begun));
            let ends = grant.validity.map_or(counted_from + ttl, |validity| now + validity);
            until = Some(ends);
            value["validity_ms"] = millis(ends.saturating_duration_since(now)).into();
            let waited_ms = millis(now - pending.asked);
            if waited_ms > 0 {
                value["waited_ms"] = waited_ms.into();
            }
        }
        if let Some(token) = grant.token {
            value["token"] = token.into();
        }
        if !grant.granted_by.is_empty() {
            value["granted_by"] = grant.granted_by.into();
        }
        self.shared.answer(command, Ended::ok(value));
        if state.over {
            return;
        }
        let credentials = Credentials { token: grant.token, unique: grant.unique };
        for name in pending.names {
            let lost = pending.lost.get(&name);
            if let Some(reason) = lost {
                self.shared.notice("lost", &name, "reason", reason.as_str().into());
            }
            let (credentials, believed) = (credentials.clone(), lost.is_none());
            state.held.insert(name, Hold { credentials, believed, ttl, until, marked: false });
        }
    }

    /// Releases a lock that was granted when the process was over already, or it would stay taken.
    fn give_back(&mut self, command: &Value) {
        if let Some(lock) = &mut self.lock {
            // How it ends is of no interest to a process that is over.
            let _ = guarded(|| released(lock, command, Duration::from_millis(TIMEOUT_DEFAULT_MS)));
        }
    }

    fn release(&mut self, command: &Value, timeout: Duration) -> Ended {
        let names = names(command);
        let believed = names.iter().filter(|name| self.believes(name)).count() == names.len();
        let mut value = json!({"believed": believed});
        let held = names.iter().filter_map(|name| self.shared.state().held.remove(*name)).count();
        if held < names.len() {
            return Ended::fail(value, "not-held: this process has not acquired the lock");
        }
        match self.call(|lock| released(lock, command, timeout)) {
            Ok(Removal::Unknown) => Ended::ok(value),
            Ok(Removal::Removed) => {
                value["removed"] = true.into();
                Ended::ok(value)
            }
            Ok(Removal::NothingRemoved) => not_held(value, "the release removed nothing"),
            Err(Error::NotHeld(why)) => not_held(value, &why),
            Err(error) => failed(value, error),
        }
    }

    /// Releases once what the process acquired more than once (rule 26).
    fn leave(&mut self, key: &str, timeout: Duration) -> Ended {
        let mut value = json!({"believed": self.believes(key)});
        if !self.shared.state().held.contains_key(key) {
            return Ended::fail(value, "not-held: this process has not acquired the lock");
        }
        match self.call(|lock| lock.leave(key, timeout)) {
            Ok(removal) => {
                if removal != Removal::Unknown {
                    value["removed"] = (removal == Removal::Removed).into();
                }
                Ended::ok(value)
            }
            Err(Error::NotHeld(why)) => {
                value["removed"] = false.into();
                Ended { value, ..self.gone(key, &why) }
            }
            Err(error) => failed(value, error),
        }
    }

    /// The lock was no longer held: the belief ends, without a notice.
    fn gone(&self, key: &str, why: &str) -> Ended {
        if let Some(hold) = self.shared.state().held.get_mut(key) {
            hold.believed = false;
        }
        Ended::fail(Value::Null, format!("not-held: {why}"))
    }

    /// Prolongs what the process holds, or acquires it once more (rules 25 and 26).
    fn prolong(&mut self, command: &Value, key: &str, timeout: Duration) -> Ended {
        let fail = |why: &str| Ended::fail(Value::Null, why);
        let prolongs = command["f"] == "prolong";
        let f = if prolongs { "prolong" } else { "reenter" };
        let Some(ttl_ms) = command["ttl_ms"].as_u64().filter(|ttl_ms| *ttl_ms > 0) else {
            return fail(&format!("bad-command: a {f} needs a ttl_ms greater than 0"));
        };
        if !self.shared.state().held.contains_key(key) {
            return fail("not-held: this process has not acquired the lock");
        }
        let (ttl, begun) = (Duration::from_millis(ttl_ms), Instant::now());
        let granted = self.call(|lock| match prolongs {
            true => Ok(lock.prolong(key, ttl, timeout)?.then(Grant::default)),
            false => lock.reenter(key, ttl, timeout),
        });
        match granted {
            Ok(Some(grant)) => {
                let now = Instant::now();
                let until = if prolongs { Some(begun + ttl) } else { grant.validity.map(|validity| now + validity) };
                let mut state = self.shared.state();
                let hold = state.held.get_mut(key).filter(|hold| hold.until.is_some());
                let (Some(hold), Some(until)) = (hold, until) else { return Ended::ok(Value::Null) };
                (hold.ttl, hold.until) = (ttl, Some(until));
                let stated = grant.validity.map(|validity| json!({"validity_ms": millis(validity)}));
                Ended::ok(stated.unwrap_or_default())
            }
            Ok(None) => self.gone(key, &format!("{f} found nothing of it")),
            Err(Error::NotHeld(why)) => self.gone(key, &why),
            Err(Error::NotAcquired(why)) => Ended::fail(Value::Null, format!("taken: {why}")),
            Err(error) => failed(Value::Null, error),
        }
    }

    /// Asks who leads (rule 29). That changes nothing, so no answer is an `info`.
    fn leader(&mut self, key: &str, timeout: Duration) -> Ended {
        match self.call(|lock| lock.leader(key, timeout)) {
            Ok(number) => Ended::ok(number.into()),
            Err(error) => Ended { kind: "fail", ..failed(Value::Null, error) },
        }
    }

    fn write(&mut self, key: &str, value: &Value, timeout: Duration) -> Ended {
        if !(value.is_i64() || value.is_array()) {
            return Ended::fail(Value::Null, "bad-command: a write needs a value, a whole number or a list");
        }
        if self.shared.client.careful {
            if !self.believes(key) {
                let why = "gave-up: the lock is no longer valid by this client's own knowledge";
                return Ended::fail(Value::Null, why);
            }
            if let Some(pause) = self.shared.client.pause {
                self.shared.notice("at", key, "point", BETWEEN_CHECK_AND_WRITE.into());
                std::thread::sleep(pause);
            }
        }
        self.access(key, timeout, Some(value))
    }

    /// Reads, or writes a value, with what the grant gives, after the mark where the guard wants one.
    fn access(&mut self, key: &str, timeout: Duration, written: Option<&Value>) -> Ended {
        let held = |hold: &Hold| (hold.credentials.clone(), hold.marked);
        let (credentials, marked) = self.shared.state().held.get(key).map(held).unwrap_or_default();
        let deadline = Instant::now() + timeout;
        let wants_mark = written.is_some() || credentials != Credentials::default();
        if self.shared.client.marks_first && wants_mark && !marked {
            let ended = self.storage.mark(key, &credentials, deadline);
            if ended.kind != "ok" {
                return ended;
            }
            if let Some(hold) = self.shared.state().held.get_mut(key) {
                hold.marked = true;
            }
        }
        match written {
            None => self.storage.read(key, &credentials, deadline),
            Some(value) => self.storage.write(key, value, &credentials, deadline),
        }
    }

    /// What the process believes without asking a server. A careful one also looks at its clock, and asks the
    /// lock.
    fn believes(&mut self, key: &str) -> bool {
        let careful = self.shared.client.careful;
        let runs = |hold: &Hold| hold.until.is_none_or(|until| Instant::now() < until);
        let believed = |hold: &Hold| hold.believed && (!careful || runs(hold));
        if !self.shared.state().held.get(key).is_some_and(believed) {
            return false;
        }
        // Without the lock's word the belief stands.
        let holds = |lock: &mut Box<dyn Lock>| guarded(|| Ok(lock.holds(key))).unwrap_or(true);
        !careful || self.lock.as_mut().is_none_or(holds)
    }
}

/// What an acquire asks for.
enum Share {
    Whole,
    Shared,
    Permit { of: u64 },
    Set,
}

impl Share {
    /// The share that an acquire asks for; the error says why there is none such (rules 10 and 27).
    fn asked(command: &Value) -> Result<Share, String> {
        let (value, also) = (&command["value"], &command["value"]["also"]);
        let mode = &value["mode"];
        if !(mode.is_null() || mode == "exclusive" || mode == "shared") {
            return Err(format!("unknown mode {mode}: expected shared or exclusive"));
        }
        if is_set(command) && !also.as_array().is_some_and(|names| names.iter().all(Value::is_string)) {
            return Err(format!("the names of a set are a list of texts, not {also}"));
        }
        match value.get("capacity") {
            None if is_set(command) => Ok(Share::Set),
            None if mode == "shared" => Ok(Share::Shared),
            None => Ok(Share::Whole),
            Some(permits) => match permits.as_u64().filter(|permits| *permits > 0) {
                Some(of) => Ok(Share::Permit { of }),
                None => Err("a semaphore needs a capacity greater than 0".to_owned()),
            },
        }
    }
}

/// Whether an acquire or a release has other names beside its key, be it none.
fn is_set(command: &Value) -> bool {
    !command["value"]["also"].is_null()
}

/// All names that an acquire or a release is of, each once (rule 27).
fn names(command: &Value) -> Vec<&str> {
    let mut names = vec![command["key"].as_str().unwrap_or_default()];
    let others = command["value"]["also"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for name in others {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Calls the user's function for a release.
fn released(lock: &mut Box<dyn Lock>, command: &Value, timeout: Duration) -> Result<Removal, Error> {
    let names = names(command);
    match is_set(command) {
        true => lock.release_all(&names, timeout),
        false => lock.release(names[0], timeout),
    }
}

fn not_held(mut value: Value, why: &str) -> Ended {
    value["removed"] = false.into();
    Ended::fail(value, format!("not-held: {why}"))
}

/// How an operation ended that the lock answered with an error.
fn failed(value: Value, error: Error) -> Ended {
    match error {
        Error::Certain(why) => Ended::fail(value, why),
        Error::NotAcquired(why) | Error::NotHeld(why) | Error::Unknown(why) => {
            Ended { kind: "info", value, error: Some(format!("raised: {why}")) }
        }
    }
}

/// Calls a function of the user's. A panic is an error, too; its message is on standard error.
fn guarded<T>(call: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        Err(Error::Unknown(format!("panic: {text}")))
    })
}
