//! A lock service and a client in memory, with habits that a client must not have. Time is tokio's, which
//! tests stop.

use super::service::Service;
use crate::conformance::test_servers::{LockTerms, ServerStreams, ServersState, TestServers};
use anyhow::Result;
use async_trait::async_trait;
use fencepost_history::{Lease, LockKind, Refusal};
use fencepost_locks::protocol::{Hello, VERSION};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// What a client does wrong. The default does nothing wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habits {
    pub(super) announces_nonsense: bool,
    pub(super) is_slow_to_start: bool,
    pub(super) prints: bool,
    pub(super) answers_twice: bool,
    pub(super) forgets_believed: bool,
    pub(super) locks_the_end_of_a_name: bool,
    pub(super) locks_the_beginning_of_a_name: bool,
    pub(super) waits_in_line: bool,
    pub(super) overruns: bool,
    pub(super) never_asks: bool,
    pub(super) keeps_on_release: bool,
    pub(super) believes_for_ever: bool,
    pub(super) promises_too_much: bool,
    pub(super) repeats_tokens: bool,
    pub(super) ignores_ttl: bool,
    pub(super) ignores_over: bool,
    pub(super) releases_blindly: bool,
    pub(super) is_unsure: bool,
    pub(super) outlives_its_input: bool,
    pub(super) is_certain_without_answer: bool,
    pub(super) is_silent_without_answer: bool,
    pub(super) hides_losses: bool,
    pub(super) is_unsure_without_server: bool,
    pub(super) refuses: bool,
    pub(super) is_unsure_of_release: bool,
    pub(super) ends_early: bool,
    pub(super) announces_renewals: bool,
    pub(super) counts_from_the_question: bool,
    pub(super) ignores_what_is_asked: bool,
    pub(super) grants_one_too_many: bool,
    pub(super) lets_readers_write: bool,
    pub(super) only_says_that_it_prolongs: bool,
    pub(super) prolongs_blindly: bool,
    pub(super) prolongs_nothing: bool,
    pub(super) refuses_its_holder: bool,
    pub(super) leaves_at_once: bool,
    pub(super) takes_the_first_name: bool,
    pub(super) leaves_half_a_set: bool,
    pub(super) ignores_cancels: bool,
    pub(super) leaves_what_is_given_up: bool,
    pub(super) names_no_leader: bool,
    pub(super) remembers_its_leader: bool,
}

pub(super) struct FakeTestServers {
    terms: LockTerms,
    habits: Habits,
    service: Arc<Service>,
    kills: Mutex<HashMap<usize, watch::Sender<bool>>>,
}

impl FakeTestServers {
    pub(super) fn new(kind: LockKind, lease: Lease, habits: Habits) -> Arc<FakeTestServers> {
        let terms = LockTerms {
            kind,
            lease,
            ttl: Duration::from_secs(2),
            lag: Duration::ZERO,
            start_time: Duration::from_secs(5),
        };
        let (state, _) = watch::channel(ServersState::Resumed);
        let service = Arc::new(Service { holds: Mutex::default(), tokens: AtomicU64::new(0), state });
        Arc::new(FakeTestServers { terms, habits, service, kills: Mutex::default() })
    }
}

#[async_trait]
impl TestServers for FakeTestServers {
    fn terms(&self) -> &LockTerms {
        &self.terms
    }

    fn check_announced(&self, can: &[String]) -> Result<(), Refusal> {
        match can.iter().find(|word| *word == "nonsense") {
            Some(word) => Err(Refusal::new(format!("unknown word {word}"))),
            None => Ok(()),
        }
    }

    async fn start_client(&self, place: usize) -> Result<(Hello, ServerStreams)> {
        let (ours, theirs) = duplex(1 << 16);
        let (stdout, stdin) = split(ours);
        let (kill, killed) = watch::channel(false);
        self.kills.lock().insert(place, kill);
        let (answers, _) = mpsc::unbounded_channel();
        let client = FakeClient {
            place,
            habits: self.habits,
            service: self.service.clone(),
            answers,
            over: Arc::default(),
            lost: Arc::default(),
            given_up: Arc::default(),
            leaders: Arc::default(),
        };
        tokio::spawn(client.live(theirs, killed));
        let hello = json!({"hello": VERSION, "client": format!("c{}", place + 1), "lock": "fake", "servers": [], "seed": 1});
        let streams = ServerStreams { stdin: Box::new(stdin), stdout: Box::new(stdout) };
        Ok((serde_json::from_value(hello)?, streams))
    }

    async fn kill_client(&self, place: usize, _pid: i32) -> Result<()> {
        if let Some(kill) = self.kills.lock().get(&place) {
            kill.send_replace(true);
        }
        Ok(())
    }

    async fn explained(&self, _place: usize, sentence: String) -> String {
        format!("{sentence}; its last line on standard error is `a last line`")
    }

    async fn set_state(&self, state: ServersState) -> Result<()> {
        self.service.state.send_replace(state);
        Ok(())
    }
}

#[derive(Clone)]
struct FakeClient {
    place: usize,
    habits: Habits,
    service: Arc<Service>,
    answers: mpsc::UnboundedSender<Value>,
    over: Arc<Mutex<HashSet<u64>>>,
    lost: Arc<Mutex<HashSet<u64>>>,
    /// Operations that their callers gave up.
    given_up: Arc<Mutex<HashSet<u64>>>,
    /// Who was seen leading last.
    leaders: Arc<Mutex<Option<u64>>>,
}

impl FakeClient {
    async fn live(mut self, stream: DuplexStream, mut killed: watch::Receiver<bool>) {
        let (input, mut output) = split(stream);
        let (answers, mut lines) = mpsc::unbounded_channel::<Value>();
        self.answers = answers;
        let habits = self.habits;
        let writing = async move {
            while let Some(line) = lines.recv().await {
                let line = line.as_str().map_or_else(|| line.to_string(), str::to_owned);
                if output.write_all(format!("{line}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        let reading = async move {
            let mut lines = BufReader::new(input).lines();
            let _hello = lines.next_line().await;
            if habits.is_slow_to_start {
                sleep(Duration::from_secs(60)).await;
            }
            let mut can = vec!["validity", "token", "lost", "prolong", "cancel", "leader"];
            can.extend(habits.announces_nonsense.then_some("nonsense"));
            can.extend(habits.announces_renewals.then_some("extend"));
            let _ = self.answers.send(json!({"hello": VERSION, "can": can, "pid": 1}));
            while let Ok(Some(line)) = lines.next_line().await {
                let line: Value = serde_json::from_str(&line).expect("the controller writes JSON");
                if line["event"] == "over" {
                    self.over.lock().extend(line["process"].as_u64());
                    continue;
                }
                if line["event"] == "cancel" && !habits.ignores_cancels {
                    self.given_up.lock().extend(line["id"].as_u64());
                }
                if !line["event"].is_null() {
                    continue;
                }
                let (client, inline) = (self.clone(), habits.waits_in_line);
                let operation = async move { client.operate(&line).await };
                if inline {
                    operation.await;
                } else {
                    tokio::spawn(operation);
                }
            }
            if habits.outlives_its_input {
                sleep(Duration::from_secs(60)).await;
            }
        };
        tokio::select! {
            () = writing => {}
            () = reading => {}
            _ = killed.wait_for(|killed| *killed) => {}
        }
    }

    async fn operate(self, op: &Value) {
        let (process, key) = (op["process"].as_u64().unwrap_or(0), op["key"].as_str().unwrap_or(""));
        let owner = (self.place, process);
        let key = match self.habits {
            Habits { locks_the_end_of_a_name: true, .. } => &key[key.len() - 4..],
            Habits { locks_the_beginning_of_a_name: true, .. } => &key[..4],
            _ => key,
        };
        let mut answer = match op["f"].as_str().unwrap_or("") {
            "acquire" => match self.acquire(op, key, owner).await {
                Some(answer) => answer,
                None => return,
            },
            "release" => {
                let released = self.release(key, owner);
                for other in self.names(key, op).iter().skip(1) {
                    self.service.remove(other, Some(owner));
                }
                released
            }
            "prolong" => self.prolong(op, key, owner),
            "leader" => json!({"type": "ok", "value": self.leader(key)}),
            "reenter" if self.habits.refuses_its_holder => json!({"type": "fail", "error": "taken: held"}),
            "reenter" => self.prolong(op, key, owner),
            "leave" if self.habits.leaves_at_once => self.release(key, owner),
            "leave" => json!({"type": "ok", "value": {"believed": self.believes(key, owner)}}),
            _ => json!({"type": "ok", "value": self.believes(key, owner)}),
        };
        answer["id"] = op["id"].clone();
        if self.habits.prints {
            let _ = self.answers.send(json!("granted, I think"));
        }
        let _ = self.answers.send(answer.clone());
        if self.habits.answers_twice {
            let _ = self.answers.send(answer);
        }
    }

    fn leader(&self, key: &str) -> Option<u64> {
        let holds = self.service.holds.lock();
        let leader = holds.get(key).and_then(|holds| holds.first()).map(|hold| hold.owner.1);
        drop(holds);
        match self.habits {
            Habits { names_no_leader: true, .. } => None,
            Habits { remembers_its_leader: true, .. } => {
                let mut known = self.leaders.lock();
                *known = leader.or(*known);
                *known
            }
            _ => leader,
        }
    }

    fn believes(&self, key: &str, owner: (usize, u64)) -> bool {
        self.habits.believes_for_ever || self.service.is_held_by(key, owner)
    }

    async fn acquire(&self, op: &Value, key: &str, owner: (usize, u64)) -> Option<Value> {
        let milliseconds = |name: &str| Duration::from_millis(op[name].as_u64().unwrap_or(0));
        let (ttl, timeout) = (milliseconds("ttl_ms"), milliseconds("timeout_ms"));
        let lasting = match self.habits {
            Habits { ignores_ttl: true, .. } => Duration::from_secs(600),
            Habits { ends_early: true, .. } => ttl / 2,
            _ => ttl,
        };
        let of = self.share(&op["value"]);
        let names = self.names(key, op);
        let number = self.service.tokens.fetch_add(1, Ordering::Relaxed);
        if self.habits.is_unsure && number.is_multiple_of(10) {
            return Some(json!({"type": "info", "error": "raised: TypeError: no"}));
        }
        if self.habits.refuses {
            return Some(json!({"type": "fail", "error": "refused-by-library: always"}));
        }
        let asked_at = Instant::now();
        let deadline = asked_at + if self.habits.overruns { timeout * 2 } else { timeout };
        loop {
            let service = self.service.clone();
            let request = async { self.set_all(&service, &names, owner, of, lasting).await };
            let asked = tokio::select! {
                biased;
                asked = request => asked,
                () = sleep_until(deadline) => return self.unanswered(key, owner, lasting).await,
            };
            match asked {
                _ if self.habits.never_asks => break,
                Ok(true) => break,
                Ok(false) if Instant::now() >= deadline => {
                    return Some(json!({"type": "fail", "error": "taken: another holds it"}));
                }
                Ok(false) if op["id"].as_u64().is_some_and(|id| self.given_up.lock().contains(&id)) => {
                    if self.habits.leaves_what_is_given_up {
                        tokio::spawn(async move {
                            // Without a pause, so that it is there before the next acquire.
                            while service.set(&names[0], owner, of, NEVER).await == Ok(false) {
                                tokio::task::yield_now().await;
                            }
                        });
                    }
                    return Some(json!({"type": "info", "error": "cancelled: given up"}));
                }
                Ok(false) => sleep(Duration::from_millis(10)).await,
                Err(_) if self.habits.is_unsure_without_server => {
                    return Some(json!({"type": "info", "error": "raised: ConnectionError"}));
                }
                Err(_) => return Some(json!({"type": "fail", "error": "unreachable: refused"})),
            }
        }
        tokio::spawn(self.clone().watch(key.to_owned(), owner, ttl));
        let waited_ms = asked_at.elapsed().as_millis() as u64;
        let validity = match self.habits {
            Habits { promises_too_much: true, .. } => TTL_MS + 1,
            Habits { counts_from_the_question: true, .. } => TTL_MS.saturating_sub(waited_ms),
            _ => TTL_MS,
        };
        let token = if self.habits.repeats_tokens { 7 } else { number };
        Some(json!({"type": "ok", "value": {"validity_ms": validity, "token": token}}))
    }

    fn names(&self, key: &str, op: &Value) -> Vec<String> {
        let also = op["value"]["also"].as_array().filter(|_| !self.habits.takes_the_first_name);
        let also = also.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned));
        std::iter::once(key.to_owned()).chain(also).collect()
    }

    /// Sets the keys of all names, or of none.
    async fn set_all(
        &self,
        service: &Service,
        names: &[String],
        owner: (usize, u64),
        of: usize,
        lasting: Duration,
    ) -> Result<bool, &'static str> {
        for (at, name) in names.iter().enumerate() {
            if !service.set(name, owner, of, lasting).await? {
                for taken in names[..at].iter().filter(|_| !self.habits.leaves_half_a_set) {
                    service.remove(taken, Some(owner));
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How many may hold the lock beside each other, by the value of this acquire.
    fn share(&self, asked: &Value) -> usize {
        let permits = asked["capacity"].as_u64().map(|permits| permits as usize);
        match (self.habits, permits) {
            (Habits { ignores_what_is_asked: true, .. }, _) => 1,
            (Habits { grants_one_too_many: true, .. }, Some(permits)) if permits > 1 => permits + 1,
            (_, Some(permits)) => permits,
            (Habits { lets_readers_write: true, .. }, None) => usize::MAX,
            _ if asked["mode"] == "shared" => usize::MAX,
            _ => 1,
        }
    }

    /// The time of an acquire is up while its request lies in a buffer.
    async fn unanswered(&self, key: &str, owner: (usize, u64), lasting: Duration) -> Option<Value> {
        let (service, key) = (self.service.clone(), key.to_owned());
        tokio::spawn(async move { service.set(&key, owner, 1, lasting).await });
        match self.habits {
            Habits { never_asks: true, .. } => Some(json!({"type": "ok", "value": {}})),
            Habits { is_silent_without_answer: true, .. } => None,
            Habits { is_certain_without_answer: true, .. } => {
                Some(json!({"type": "fail", "error": "taken: surely"}))
            }
            _ => Some(json!({"type": "info", "error": "timeout: no answer"})),
        }
    }

    /// Renews where a process that is over is not noticed; reports the loss of a lock that ran out while
    /// servers stood still.
    async fn watch(self, key: String, owner: (usize, u64), ttl: Duration) {
        loop {
            sleep(ttl / 20).await;
            let is_over = self.over.lock().contains(&owner.1);
            if self.habits.ignores_over && is_over && self.service.is_held_by(&key, owner) {
                for hold in self.service.holds.lock().entry(key.clone()).or_default() {
                    hold.end = Instant::now() + ttl;
                }
            }
            let paused = *self.service.state.borrow() == ServersState::Paused;
            if !paused && !self.service.is_held_by(&key, owner) {
                break;
            }
        }
        if !self.habits.hides_losses && self.lost.lock().insert(owner.1) {
            let notice = json!({"event": "lost", "process": owner.1, "key": key, "reason": "it ran out"});
            let _ = self.answers.send(notice);
        }
    }

    fn prolong(&self, op: &Value, key: &str, owner: (usize, u64)) -> Value {
        let end = Instant::now() + Duration::from_millis(op["ttl_ms"].as_u64().unwrap_or(0));
        let mut prolonged = self.habits.only_says_that_it_prolongs;
        for hold in self.service.holds.lock().entry(key.to_owned()).or_default() {
            let is_its = hold.owner == owner || self.habits.prolongs_blindly;
            if is_its && hold.end > Instant::now() && !self.habits.only_says_that_it_prolongs {
                (hold.end, prolonged) = (end, true);
            }
        }
        match prolonged && !self.habits.prolongs_nothing {
            true => json!({"type": "ok"}),
            false => json!({"type": "fail", "error": "not-held: gone"}),
        }
    }

    fn release(&self, key: &str, owner: (usize, u64)) -> Value {
        let believed = self.believes(key, owner);
        let removed = match self.habits {
            Habits { keeps_on_release: true, .. } => true,
            Habits { releases_blindly: true, .. } => self.service.remove(key, None),
            _ => self.service.remove(key, Some(owner)),
        };
        let value = if self.habits.forgets_believed { json!({}) } else { json!({"believed": believed}) };
        match removed {
            true => json!({"type": "ok", "value": value}),
            false if self.habits.is_unsure_of_release => {
                json!({"type": "info", "value": value, "error": "raised: LockNotOwnedError"})
            }
            false => json!({"type": "fail", "value": value, "error": "not-held: nothing was removed"}),
        }
    }
}

const NEVER: Duration = Duration::from_secs(600);

/// The TTL of every acquire.
const TTL_MS: u64 = 2000;
