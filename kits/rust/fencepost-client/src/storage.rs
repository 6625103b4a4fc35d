//! One process's way to what the lock protects: one storage, or replicas of which a majority decides.

use crate::hello::Client;
use serde_json::{json, Value};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Rest after a failed attempt to connect.
const DIAL_REST: Duration = Duration::from_millis(25);

/// What a request carries of the grant under which it is made.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Credentials {
    pub(crate) token: Option<u64>,
    pub(crate) unique: Option<String>,
}

/// How an operation ended: `ok`, `fail` or `info`.
pub(crate) struct Ended {
    pub(crate) kind: &'static str,
    pub(crate) value: Value,
    pub(crate) error: Option<String>,
}

impl Ended {
    pub(crate) fn ok(value: Value) -> Ended {
        Ended { kind: "ok", value, error: None }
    }

    pub(crate) fn fail(value: Value, error: impl Into<String>) -> Ended {
        Ended { kind: "fail", value, error: Some(error.into()) }
    }
}

/// What became of one request to one storage.
enum Answer {
    Agreed(Value),
    Rejected(String),
    /// It may have been carried out, or may be yet.
    Unanswered(String),
    /// It was certainly not sent.
    Unsent(String),
}

pub(crate) struct Storage {
    client: Arc<Client>,
    process: u64,
    replicas: Replicas,
}

enum Replicas {
    None,
    Alone(Replica),
    /// Each has a thread, so that all are asked at the same time.
    Many(Vec<Sender<Job>>),
}

struct Job {
    request: Value,
    deadline: Instant,
    answers: Sender<Answer>,
}

impl Storage {
    pub(crate) fn new(client: &Arc<Client>, process: u64) -> Storage {
        let replicas = match client.storages.as_slice() {
            [] => Replicas::None,
            [alone] => Replicas::Alone(Replica::new(alone)),
            many => Replicas::Many(many.iter().map(|address| start(Replica::new(address))).collect()),
        };
        Storage { client: client.clone(), process, replicas }
    }

    pub(crate) fn read(&mut self, key: &str, credentials: &Credentials, deadline: Instant) -> Ended {
        self.ask("read", self.request("read", key, credentials), deadline)
    }

    pub(crate) fn mark(&mut self, key: &str, credentials: &Credentials, deadline: Instant) -> Ended {
        self.ask("mark", self.request("mark", key, credentials), deadline)
    }

    pub(crate) fn write(
        &mut self,
        key: &str,
        value: &Value,
        credentials: &Credentials,
        deadline: Instant,
    ) -> Ended {
        let mut request = self.request("write", key, credentials);
        request["value"] = value.clone();
        if let Replicas::Many(_) = self.replicas {
            request["number"] = self.client.next_write.fetch_add(1, Ordering::Relaxed).into();
        }
        self.ask("write", request, deadline)
    }

    fn request(&self, f: &str, key: &str, credentials: &Credentials) -> Value {
        let mut request = json!({"f": f, "key": key, "process": self.process});
        if let Some(token) = credentials.token {
            request["token"] = token.into();
        }
        if let Some(unique) = &credentials.unique {
            request["unique"] = unique.as_str().into();
        }
        request
    }

    fn ask(&mut self, f: &str, request: Value, deadline: Instant) -> Ended {
        match &mut self.replicas {
            Replicas::None => Ended::fail(Value::Null, "no-storage: the hello names none"),
            Replicas::Alone(replica) => match replica.ask(request, deadline) {
                Answer::Agreed(answer) => Ended::ok(answer["ok"].clone()),
                // It may have been written, or may be yet: its bytes can be under way for any length of time.
                Answer::Unanswered(why) if f == "write" => {
                    Ended { kind: "info", value: Value::Null, error: Some(why) }
                }
                Answer::Rejected(why) | Answer::Unanswered(why) | Answer::Unsent(why) => {
                    Ended::fail(Value::Null, why)
                }
            },
            Replicas::Many(replicas) => ask_all(replicas, f, &request, deadline),
        }
    }
}

/// Asks all replicas at the same time, until a majority agreed or each has answered.
fn ask_all(replicas: &[Sender<Job>], f: &str, request: &Value, deadline: Instant) -> Ended {
    let (answers, answered) = channel();
    for replica in replicas {
        let _ = replica.send(Job { request: request.clone(), deadline, answers: answers.clone() });
    }
    drop(answers);
    let (mut agreed, mut rejected, mut unanswered, mut unsent) = (vec![], vec![], vec![], vec![]);
    for answer in answered {
        match answer {
            Answer::Agreed(answer) => agreed.push(answer),
            Answer::Rejected(why) => rejected.push(why),
            Answer::Unanswered(why) => unanswered.push(why),
            Answer::Unsent(why) => unsent.push(why),
        }
        if agreed.len() > replicas.len() / 2 {
            return Ended::ok(chosen(f, &agreed)["ok"].clone());
        }
    }
    let undone = agreed.is_empty() && unanswered.is_empty();
    let first = rejected.into_iter().chain(unanswered).chain(unsent).next();
    let why = first.unwrap_or_else(|| "no-majority: too few replicas agreed".to_owned());
    match f == "write" && !undone {
        // A minority has it, or may have it: a later reader may find it.
        true => Ended { kind: "info", value: Value::Null, error: Some(format!("no-majority: {why}")) },
        false => Ended::fail(Value::Null, why),
    }
}

/// Among the answers of a majority: a read takes the newest.
fn chosen<'a>(f: &str, agreed: &'a [Value]) -> &'a Value {
    let version = |answer: &&Value| {
        let part = |place: usize| answer["version"][place].as_u64().unwrap_or_default();
        (part(0), part(1))
    };
    let newest = agreed.iter().max_by_key(version).filter(|_| f == "read");
    newest.unwrap_or(&agreed[0])
}

fn start(mut replica: Replica) -> Sender<Job> {
    let (queue, jobs): (Sender<Job>, Receiver<Job>) = channel();
    std::thread::spawn(move || {
        for job in jobs {
            // Once a majority has answered, nothing waits for the rest.
            let _ = job.answers.send(replica.ask(job.request, job.deadline));
        }
    });
    queue
}

/// A connection to one storage, made when it is first needed.
struct Replica {
    address: String,
    connection: Option<BufReader<TcpStream>>,
    last_id: u64,
}

impl Replica {
    fn new(address: &str) -> Replica {
        Replica { address: address.to_owned(), connection: None, last_id: 0 }
    }

    /// Sends one request and reads its answer.
    fn ask(&mut self, request: Value, deadline: Instant) -> Answer {
        if !self.connect(deadline) {
            return Answer::Unsent("unreachable: no connection to the storage".to_owned());
        }
        match self.exchange(request, deadline) {
            Ok(answer) => match answer["fail"].as_str() {
                Some(why) => Answer::Rejected(why.to_owned()),
                None => Answer::Agreed(answer),
            },
            Err(error) => {
                self.connection = None;
                Answer::Unanswered(match error.kind() {
                    ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                        "timeout: the storage did not answer in time".to_owned()
                    }
                    _ => "disconnected: the connection to the storage broke before it answered".to_owned(),
                })
            }
        }
    }

    /// Makes sure of a connection on which the storage has answered: a stopped one's kernel accepts
    /// connections, too.
    fn connect(&mut self, deadline: Instant) -> bool {
        if self.connection.as_ref().is_some_and(is_closed) {
            self.connection = None;
        }
        while self.connection.is_none() {
            let connected =
                left(deadline).and_then(|left| dial(&self.address, left)).and_then(|connection| {
                    self.connection = Some(connection);
                    self.exchange(json!({"f": "ping", "key": ""}), deadline)
                });
            if connected.is_err() {
                self.connection = None;
                if Instant::now() + DIAL_REST >= deadline {
                    return false;
                }
                std::thread::sleep(DIAL_REST);
            }
        }
        true
    }

    fn exchange(&mut self, mut request: Value, deadline: Instant) -> io::Result<Value> {
        self.last_id += 1;
        request["id"] = self.last_id.into();
        let Some(connection) = &mut self.connection else { return Err(ErrorKind::NotConnected.into()) };
        connection.get_ref().set_write_timeout(Some(left(deadline)?))?;
        connection.get_mut().write_all(format!("{request}\n").as_bytes())?;
        loop {
            connection.get_ref().set_read_timeout(Some(left(deadline)?))?;
            let mut line = String::new();
            if connection.read_line(&mut line)? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == self.last_id {
                return Ok(answer);
            }
        }
    }
}

fn dial(address: &str, timeout: Duration) -> io::Result<BufReader<TcpStream>> {
    let Some(address) = address.to_socket_addrs()?.next() else { return Err(ErrorKind::NotFound.into()) };
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

/// The time that is left, which is never zero.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(left)
}

/// Looks, without waiting, whether the other end has closed the connection.
fn is_closed(connection: &BufReader<TcpStream>) -> bool {
    let stream = connection.get_ref();
    let looked = stream.set_nonblocking(true).and_then(|()| stream.peek(&mut [0]));
    let open = match looked {
        Ok(bytes) => bytes > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    };
    !open || stream.set_nonblocking(false).is_err()
}
