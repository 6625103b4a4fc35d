//! One process of a client: its operations, one at a time, and what it believes to hold.

use super::context::ClientContext;
use crate::client::pause_points;
use crate::notices::Notices;
use crate::protocol::{Answer, AnswerKind, Command, FromClient, Notice};
use crate::recipe::{Lock, Share};
use fencepost_history::{AcquireArguments, Completion, ErrorCode, Grant, Released, f};
use fencepost_storage::{Credentials, Need, ProtectedStorage};
use fencepost_wire::LineWriter;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// For operations that name no time-out of their own.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);

/// Starts a process. It ends when its sender is dropped, or after an indeterminate operation.
pub(super) fn start(
    context: &Arc<ClientContext>,
    number: u64,
    out: &LineWriter,
) -> mpsc::UnboundedSender<Command> {
    let (commands, inbox) = mpsc::unbounded_channel();
    let (notices, noticed) = mpsc::unbounded_channel();
    let notices = Notices::new(number, notices, context.pauses.clone());
    let beliefs = Arc::<Beliefs>::default();
    let process = HostedProcess {
        number,
        lock: (context.session)(number, notices.clone()),
        notices,
        context: context.clone(),
        beliefs: beliefs.clone(),
        marked: HashSet::new(),
        lost: Vec::new(),
    };
    tokio::spawn(pass_on(noticed, beliefs, out.clone()));
    tokio::spawn(process.run(inbox, out.clone()));
    commands
}

enum ClientBelief {
    /// Its acquire is under way. What was reported as lost meanwhile can only be what is about to be granted.
    Acquiring(Option<Notice>),
    Held,
}

/// What a process knows of the keys that it holds or asks for.
#[derive(Default)]
struct Beliefs(Mutex<HashMap<String, ClientBelief>>);

impl Beliefs {
    fn begin_acquire(&self, key: &str) {
        self.0.lock().entry(key.to_owned()).or_insert(ClientBelief::Acquiring(None));
    }

    /// The acquire is over. Gives the notice of a lock that was lost before its grant was known.
    fn end_acquire(&self, key: &str, granted: bool) -> Option<Notice> {
        let mut keys = self.0.lock();
        let before = keys.remove(key);
        if let Some(ClientBelief::Acquiring(Some(lost))) = before {
            return granted.then_some(lost);
        }
        if granted || matches!(before, Some(ClientBelief::Held)) {
            keys.insert(key.to_owned(), ClientBelief::Held);
        }
        None
    }

    /// A lock is lost. Gives the notice back, or keeps it until the grant of that lock is known.
    fn lose(&self, notice: Notice) -> Option<Notice> {
        let mut keys = self.0.lock();
        if let Some(ClientBelief::Acquiring(lost)) = keys.get_mut(&notice.key) {
            *lost = Some(notice);
            return None;
        }
        keys.remove(&notice.key);
        Some(notice)
    }

    fn end(&self, key: &str) {
        self.0.lock().remove(key);
    }

    fn contain(&self, key: &str) -> bool {
        matches!(self.0.lock().get(key), Some(ClientBelief::Held))
    }
}

struct HostedProcess {
    number: u64,
    lock: Box<dyn Lock>,
    notices: Notices,
    context: Arc<ClientContext>,
    beliefs: Arc<Beliefs>,
    /// Keys that it has marked as its own since it acquired them.
    marked: HashSet<String>,
    /// The notices that what the latest acquire was granted is lost already, to be sent after its answer.
    lost: Vec<Notice>,
}

impl HostedProcess {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>, out: LineWriter) {
        while let Some(command) = inbox.recv().await {
            let answer = self.perform(&command).await;
            let indeterminate = answer.kind == AnswerKind::Info;
            out.send(&FromClient::Answer(answer));
            for lost in self.lost.drain(..) {
                out.send(&FromClient::Notice(lost));
            }
            if indeterminate {
                // The user of this number is no more, as if it had crashed. Dropping the lock ends its
                // keepalives; otherwise it would hold, for ever, a lock that is never released.
                inbox.close();
                while let Some(command) = inbox.recv().await {
                    // It came too late, and was not begun.
                    let over =
                        Completion::fail(ErrorCode::ProcessOver, "an operation before it was indeterminate");
                    out.send(&FromClient::Answer(Answer::new(command.id, over)));
                }
                return;
            }
        }
    }

    async fn perform(&mut self, command: &Command) -> Answer {
        let key = command.key.as_ref();
        let timeout = command.timeout_ms.map_or(TIMEOUT_DEFAULT, Duration::from_millis);
        let completion = match command.f.as_ref() {
            f::ACQUIRE => return self.acquire(command, timeout).await,
            f::PROLONG | f::REENTER => self.prolong(command, timeout).await,
            f::HOLDS => Completion::ok(self.believes(key)),
            f::LEADER => self.lock.leader(key, timeout).await,
            f::READ => self.read(key, timeout).await,
            f::WRITE => self.write(key, &command.value, timeout).await,
            f::LEAVE => return self.leave(command.id, key, timeout).await,
            f::RELEASE => return self.release(command, timeout).await,
            other => Completion::fail(ErrorCode::BadCommand, format!("this client does not know `{other}`")),
        };
        Answer::new(command.id, completion)
    }

    async fn acquire(&mut self, command: &Command, timeout: Duration) -> Answer {
        let key = command.key.as_ref();
        let ttl = match ttl(command) {
            Ok(ttl) => ttl,
            Err(refused) => return Answer::new(command.id, refused),
        };
        let asked = AcquireArguments::of(&command.value);
        let names = names(key, &asked);
        names.iter().for_each(|name| self.beliefs.begin_acquire(name));
        let begun = Instant::now();
        let completion = match Share::asked(&asked, names.len(), self.context.capabilities.kind) {
            Ok(None) if names.len() > 1 => self.lock.acquire_all(&names, ttl, timeout).await,
            Ok(share) => self.lock.acquire_share(key, share, ttl, timeout).await,
            Err(refused) => refused,
        };
        let granted = matches!(completion, Completion::Ok(_));
        self.lost = names.iter().filter_map(|name| self.beliefs.end_acquire(name, granted)).collect();
        if granted {
            self.marked.retain(|marked| !names.contains(&marked.as_str()));
        }
        let mut answer = Answer::new(command.id, completion);
        if let Some(wakeups) = self.lock.wakeups() {
            answer.value = Grant { wakeups: Some(wakeups), ..Grant::of(&answer.value) }.into();
        }
        let waited_ms = begun.elapsed().as_millis() as u64;
        if granted && waited_ms > 0 {
            let grant = Grant::of(&answer.value);
            if grant.validity_ms.is_some() {
                answer.value = Grant { waited_ms: Some(waited_ms.into()), ..grant }.into();
            }
        }
        answer
    }

    /// Lets the lock last from now on, also by acquiring it once more.
    async fn prolong(&mut self, command: &Command, timeout: Duration) -> Completion {
        let key = command.key.as_ref();
        let ttl = match ttl(command) {
            Ok(ttl) => ttl,
            Err(refused) => return refused,
        };
        let completion = match &*command.f {
            f::REENTER => self.lock.reenter(key, ttl, timeout).await,
            _ => self.lock.prolong(key, ttl, timeout).await,
        };
        self.end_if_gone(key, &completion);
        completion
    }

    fn end_if_gone(&self, key: &str, completion: &Completion) {
        if let Completion::Fail(why) = completion
            && why.code() == ErrorCode::NotHeld
        {
            self.beliefs.end(key);
        }
    }

    async fn read(&mut self, key: &str, timeout: Duration) -> Completion {
        if self.context.capabilities.own_storage {
            let completion = self.lock.read(key, timeout).await;
            // A transaction in which a request failed cannot be committed: the process has no lock any more.
            if !matches!(completion, Completion::Ok(_)) {
                self.beliefs.end(key);
            }
            return completion;
        }
        let Some(storage) = self.context.storage.clone() else { return no_storage() };
        let credentials = self.credentials(key);
        // A process that holds nothing cannot mark: it only looks.
        if credentials != self.without_lock()
            && let Err(failed) = self.mark_first(&storage, key, &credentials, timeout).await
        {
            return failed;
        }
        storage.read(key, &credentials, timeout).await
    }

    async fn write(&mut self, key: &str, value: &Value, timeout: Duration) -> Completion {
        if !(value.is_i64() || value.is_array()) {
            return Completion::fail(
                ErrorCode::BadCommand,
                "a write needs a value, a whole number or a list",
            );
        }
        if self.context.careful {
            if !self.believes(key) {
                // The client looked and chose not to send it.
                return Completion::fail(
                    ErrorCode::GaveUp,
                    "the lock is no longer valid by this client's own clock",
                );
            }
            self.notices.reached(key, pause_points::BETWEEN_CHECK_AND_WRITE).await;
        }
        if self.context.capabilities.own_storage {
            let completion = self.lock.write(key, value, timeout).await;
            // With the transaction the lock is gone, whatever became of it.
            self.beliefs.end(key);
            return completion;
        }
        let Some(storage) = self.context.storage.clone() else { return no_storage() };
        let credentials = self.credentials(key);
        if let Err(failed) = self.mark_first(&storage, key, &credentials, timeout).await {
            return failed;
        }
        storage.write(key, value, &credentials, timeout).await
    }

    /// Marks the storage as its own, once a grant, if the guard needs that. Gives a failure, if any.
    async fn mark_first(
        &mut self,
        storage: &ProtectedStorage,
        key: &str,
        credentials: &Credentials,
        timeout: Duration,
    ) -> Result<(), Completion> {
        if !self.context.guard.marks_first() || self.marked.contains(key) {
            return Ok(());
        }
        match storage.mark(key, credentials, timeout).await {
            Completion::Ok(_) => {
                self.marked.insert(key.to_owned());
                Ok(())
            }
            failed => Err(failed),
        }
    }

    fn without_lock(&self) -> Credentials {
        Credentials { process: Some(self.number), ..Credentials::default() }
    }

    fn credentials(&self, key: &str) -> Credentials {
        let (without_lock, of_grant) = (self.without_lock(), self.lock.credentials(key));
        match self.context.guard.needs {
            Need::Nothing => without_lock,
            Need::Token => Credentials { token: of_grant.token, ..without_lock },
            Need::UniqueValue => Credentials { unique: of_grant.unique, ..without_lock },
            Need::Sequencer => Credentials { sequencer: of_grant.sequencer, ..without_lock },
        }
    }

    /// Releases the inner section of a reentrant lock: the process goes on to believe in the outer one.
    async fn leave(&mut self, id: u64, key: &str, timeout: Duration) -> Answer {
        let believed = self.believes(key);
        let completion = self.lock.leave(key, timeout).await;
        self.end_if_gone(key, &completion);
        let mut answer = Answer::new(id, completion);
        answer.value = Released { believed: Some(believed), ..Released::of(&answer.value) }.into();
        answer
    }

    async fn release(&mut self, command: &Command, timeout: Duration) -> Answer {
        let asked = AcquireArguments::of(&command.value);
        let names = names(&command.key, &asked);
        let believed = names.iter().all(|name| self.believes(name));
        // Whatever becomes of it: who began to release no longer works under the lock.
        names.iter().for_each(|name| self.beliefs.end(name));
        let completion = match names[..] {
            [key] => self.lock.release(key, timeout).await,
            _ => self.lock.release_all(&names, timeout).await,
        };
        let mut answer = Answer::new(command.id, completion);
        // What the lock itself has to say of the release stands beside the belief.
        answer.value = Released { believed: Some(believed), ..Released::of(&answer.value) }.into();
        answer
    }

    /// A careless process believes until it releases or gets a notice. A careful one also looks at its clock.
    fn believes(&self, key: &str) -> bool {
        self.beliefs.contain(key) && !(self.context.careful && self.lock.still_valid(key) == Some(false))
    }
}

/// The TTL of an operation that needs one. Errors: it has none.
fn ttl(command: &Command) -> Result<Duration, Completion> {
    match command.ttl_ms {
        Some(ttl_ms) if ttl_ms > 0 => Ok(Duration::from_millis(ttl_ms)),
        _ => {
            let article = if command.f == f::ACQUIRE { "an" } else { "a" };
            let refused = format!("{article} {} needs a ttl_ms greater than 0", command.f);
            Err(Completion::fail(ErrorCode::BadCommand, refused))
        }
    }
}

/// The names of an acquire or a release, each once.
fn names<'a>(key: &'a str, asked: &'a AcquireArguments) -> Vec<&'a str> {
    let mut names = vec![key];
    for name in asked.also.iter().flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

fn no_storage() -> Completion {
    Completion::fail(ErrorCode::NoStorage, "the hello named none")
}

/// Passes on what the lock library of one process reports. A lost lock ends the belief in it.
async fn pass_on(mut noticed: mpsc::UnboundedReceiver<Notice>, beliefs: Arc<Beliefs>, out: LineWriter) {
    while let Some(notice) = noticed.recv().await {
        let notice = if notice.event == f::LOST { beliefs.lose(notice) } else { Some(notice) };
        if let Some(notice) = notice {
            out.send(&FromClient::Notice(notice));
        }
    }
}
