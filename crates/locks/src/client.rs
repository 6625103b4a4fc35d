//! The built-in client program: reads operations from the controller, carries them out, answers.
//!
//! One task reads lines and hands each to the task of its process, which carries out one operation at a time;
//! one task writes what they answer. `docs/client-protocol.md` is the manual of what is spoken.

use crate::backend::{Backend, Lock, Session};
use crate::guards::find_guard;
use crate::protocol::{Answer, AnswerKind, Command, FromClient, Hello, HelloBack, Notice, VERSION};
use crate::stdio;
use crate::storage_client::StorageClient;
use fencepost_history::{Completion, f};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

/// For operations that name no time-out of their own.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);

/// Why a client program ended early: one sentence each.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// What the controller said was not of the protocol, or asked for what does not exist.
    #[error("{0}")]
    BadHello(String),
    /// The environment failed.
    #[error("{0}")]
    Environment(String),
}

/// The program `fencepost client`: serves on standard input and output until the input ends.
///
/// Returns the exit code: 0, 254 where the controller's words make no sense, 255 where the environment failed.
/// A current-thread runtime serves it best: everything it does is short.
pub async fn run_client() -> i32 {
    match serve_client(stdio::stdin(), stdio::stdout(), crate::registry::find).await {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            match error {
                ClientError::BadHello(_) => 254,
                ClientError::Environment(_) => 255,
            }
        }
    }
}

/// Serves one controller, with the backends that `find` knows.
///
/// # Errors
/// See [`ClientError`]. The end of the input is not one.
pub async fn serve_client(
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Send + Unpin + 'static,
    find: impl Fn(&str) -> Option<&'static dyn Backend>,
) -> Result<(), ClientError> {
    let mut input = BufReader::with_capacity(64 * 1024, input);
    let mut line = Vec::new();
    let unreadable = |error| ClientError::Environment(format!("the controller cannot be read: {error}"));
    if input.read_until(b'\n', &mut line).await.map_err(unreadable)? == 0 {
        return Err(ClientError::BadHello("the input ended before the hello".to_owned()));
    }
    let hello = parse_hello(&line)?;
    let world = World::enter(&hello, find).await?;

    let (out, outbox) = mpsc::unbounded_channel();
    let hello_back =
        HelloBack { hello: VERSION, can: world.session.can(), pid: std::process::id().cast_signed() };
    let writer = tokio::spawn(write_lines(output, hello_back, outbox));
    let mut processes: HashMap<u64, mpsc::UnboundedSender<Command>> = HashMap::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).await.map_err(unreadable)? == 0 {
            break;
        }
        let command: Command = serde_json::from_slice(&line).map_err(|error| {
            ClientError::BadHello(format!(
                "the controller sent a line that is no command ({error}): {}",
                shown(&line)
            ))
        })?;
        let process = command.process;
        let commands = processes.entry(process).or_insert_with(|| world.process(process, &out));
        if let Err(mpsc::error::SendError(command)) = commands.send(command) {
            // This process ended with an indeterminate operation. A controller does not use the number again; one
            // that does gets a new process.
            *commands = world.process(process, &out);
            let _ = commands.send(command);
        }
    }
    // The controller is gone or done. What is still open will be indeterminate, and keys go with their TTL.
    drop((processes, out));
    let _ = tokio::time::timeout(Duration::from_millis(10), writer).await;
    Ok(())
}

fn parse_hello(line: &[u8]) -> Result<Hello, ClientError> {
    let bad = |why: String| ClientError::BadHello(why);
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| bad(format!("the first line is no hello ({error}): {}", shown(line))))?;
    match value.get("hello").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(bad(format!(
                "the controller speaks version {version} of the client protocol, and this is version {VERSION}"
            )));
        }
        None => return Err(bad(format!("the first line is no hello: {}", shown(line)))),
    }
    serde_json::from_value(value).map_err(|error| bad(format!("the hello is not complete: {error}")))
}

/// The beginning of a line, for a message.
fn shown(line: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(line).trim_end().chars().take(80).collect();
    format!("`{text}`")
}

/// What the processes of this client share.
struct World {
    session: Box<dyn Session>,
    storage: Option<Arc<StorageClient>>,
    sends_token: bool,
    careful: bool,
}

impl World {
    async fn enter(
        hello: &Hello,
        find: impl Fn(&str) -> Option<&'static dyn Backend>,
    ) -> Result<World, ClientError> {
        let bad = |what, name| {
            ClientError::BadHello(format!("the hello names a {what} that is not known: `{name}`"))
        };
        let backend = find(&hello.backend).ok_or_else(|| bad("backend", &hello.backend))?;
        let guard = find_guard(&hello.guard).ok_or_else(|| bad("guard", &hello.guard))?;
        let session = backend.connect(hello).await.map_err(ClientError::Environment)?;
        Ok(World {
            session,
            storage: hello.storage.as_deref().map(StorageClient::open).map(Arc::new),
            sends_token: guard.needs_token(),
            careful: hello.careful,
        })
    }

    /// Starts a process. It ends when its sender is dropped, or after an indeterminate operation.
    fn process(
        &self,
        number: u64,
        out: &mpsc::UnboundedSender<FromClient>,
    ) -> mpsc::UnboundedSender<Command> {
        let (commands, inbox) = mpsc::unbounded_channel();
        let (notices, noticed) = mpsc::unbounded_channel();
        let beliefs = Arc::<Beliefs>::default();
        let process = ClientProcess {
            lock: self.session.lock(number, notices),
            storage: self.storage.clone(),
            sends_token: self.sends_token,
            careful: self.careful,
            beliefs: beliefs.clone(),
        };
        tokio::spawn(pass_on(noticed, beliefs, out.clone()));
        tokio::spawn(process.run(inbox, out.clone()));
        commands
    }
}

/// The keys that a process believes it holds: acquired, not yet begun to release, not reported as lost.
#[derive(Default)]
struct Beliefs(Mutex<Vec<String>>);

impl Beliefs {
    fn begin(&self, key: &str) {
        let mut keys = self.0.lock().expect("never poisoned");
        if !keys.iter().any(|held| held == key) {
            keys.push(key.to_owned());
        }
    }

    fn end(&self, key: &str) {
        self.0.lock().expect("never poisoned").retain(|held| held != key);
    }

    fn contain(&self, key: &str) -> bool {
        self.0.lock().expect("never poisoned").iter().any(|held| held == key)
    }
}

struct ClientProcess {
    lock: Box<dyn Lock>,
    storage: Option<Arc<StorageClient>>,
    sends_token: bool,
    careful: bool,
    beliefs: Arc<Beliefs>,
}

impl ClientProcess {
    async fn run(
        mut self,
        mut inbox: mpsc::UnboundedReceiver<Command>,
        out: mpsc::UnboundedSender<FromClient>,
    ) {
        while let Some(command) = inbox.recv().await {
            let answer = self.perform(&command).await;
            let indeterminate = answer.kind == AnswerKind::Info;
            let _ = out.send(FromClient::Answer(answer));
            if indeterminate {
                // The user of this number is no more, as if it had crashed. Dropping the lock ends its keepalives;
                // otherwise it would hold, for ever, what nobody will release.
                inbox.close();
                while let Some(command) = inbox.recv().await {
                    // It came too late, and was not begun.
                    let over =
                        Completion::Fail("process-over: an operation before it was indeterminate".to_owned());
                    let _ = out.send(FromClient::Answer(Answer::new(command.id, over)));
                }
                return;
            }
        }
    }

    async fn perform(&mut self, command: &Command) -> Answer {
        let key = command.key.as_ref();
        let timeout = command.timeout_ms.map_or(TIMEOUT_DEFAULT, Duration::from_millis);
        let completion = match command.f.as_ref() {
            f::ACQUIRE => self.acquire(key, command.ttl_ms, timeout).await,
            f::HOLDS => Completion::Ok(self.believes(key).into()),
            f::READ => match &self.storage {
                Some(storage) => storage.read(key, self.token_to_send(key), timeout).await,
                None => no_storage(),
            },
            f::WRITE => self.write(key, &command.value, timeout).await,
            f::RELEASE => return self.release(command.id, key, timeout).await,
            "stats" => match &self.storage {
                Some(storage) => storage.stats(timeout).await,
                None => no_storage(),
            },
            // Nothing was begun.
            other => Completion::Fail(format!("bad-command: this client does not know `{other}`")),
        };
        Answer::new(command.id, completion)
    }

    async fn acquire(&mut self, key: &str, ttl_ms: Option<u64>, timeout: Duration) -> Completion {
        let Some(ttl_ms) = ttl_ms.filter(|ttl_ms| *ttl_ms > 0) else {
            // Nothing was begun.
            return Completion::Fail("bad-command: an acquire needs a ttl_ms greater than 0".to_owned());
        };
        let completion = self.lock.acquire(key, Duration::from_millis(ttl_ms), timeout).await;
        if matches!(completion, Completion::Ok(_)) {
            self.beliefs.begin(key);
        }
        completion
    }

    async fn write(&mut self, key: &str, value: &Value, timeout: Duration) -> Completion {
        let Some(storage) = &self.storage else { return no_storage() };
        let Some(value) = value.as_i64() else {
            // Nothing was begun.
            return Completion::Fail("bad-command: a write needs a value, a whole number".to_owned());
        };
        if self.careful && !self.believes(key) {
            // The client looked and chose not to send it.
            return Completion::Fail(
                "gave-up: the lock is no longer valid by this client's own clock".to_owned(),
            );
        }
        storage.write(key, value, self.token_to_send(key), timeout).await
    }

    /// The fencing token, where the storage's guard wants one.
    fn token_to_send(&self, key: &str) -> Option<u64> {
        if self.sends_token { self.lock.token(key) } else { None }
    }

    async fn release(&mut self, id: u64, key: &str, timeout: Duration) -> Answer {
        let believed = self.believes(key);
        // Whatever becomes of it: who began to release no longer works under the lock.
        self.beliefs.end(key);
        let completion = self.lock.release(key, timeout).await;
        Answer { value: json!({"believed": believed}), ..Answer::new(id, completion) }
    }

    /// A careless process believes until it releases or is told. A careful one also looks at its clock.
    fn believes(&self, key: &str) -> bool {
        self.beliefs.contain(key) && !(self.careful && self.lock.still_valid(key) == Some(false))
    }
}

fn no_storage() -> Completion {
    // There is nowhere to send it.
    Completion::Fail("no-storage: the hello named none".to_owned())
}

/// Passes on what the lock library of one process reports. A lost lock ends the belief in it.
async fn pass_on(
    mut noticed: mpsc::UnboundedReceiver<Notice>,
    beliefs: Arc<Beliefs>,
    out: mpsc::UnboundedSender<FromClient>,
) {
    while let Some(notice) = noticed.recv().await {
        if notice.event == f::LOST {
            beliefs.end(&notice.key);
        }
        let _ = out.send(FromClient::Notice(notice));
    }
}

/// Writes lines as they come, several at once where they have gathered.
async fn write_lines(
    mut output: impl AsyncWrite + Unpin,
    hello_back: HelloBack,
    mut outbox: mpsc::UnboundedReceiver<FromClient>,
) {
    let mut batch = Vec::with_capacity(4096);
    push_line(&mut batch, &hello_back);
    loop {
        // A controller that is gone is noticed by the reader.
        if output.write_all(&batch).await.is_err() || output.flush().await.is_err() {
            return;
        }
        batch.clear();
        let Some(message) = outbox.recv().await else { return };
        push_line(&mut batch, &message);
        while let Ok(message) = outbox.try_recv() {
            push_line(&mut batch, &message);
        }
    }
}

fn push_line(batch: &mut Vec<u8>, message: &impl serde::Serialize) {
    serde_json::to_writer(&mut *batch, message).expect("a message is always JSON");
    batch.push(b'\n');
}

#[cfg(test)]
mod tests;
