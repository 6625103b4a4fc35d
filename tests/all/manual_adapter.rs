//! The Python adapter of docs/client-protocol.md, taken from the page and run as it stands there: a scripted
//! conversation, with a server that answers as Redis does.

use fencepost_cluster::image_store::{self, RootFileSystem};
use fencepost_cluster::{DEFAULT_SUITE, DriverOptions};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

const PAGE: &str = include_str!("../../docs/client-protocol.md");

/// The page's block of Python.
fn adapter() -> &'static str {
    let (_, rest) = PAGE.split_once("```python\n").expect("the page holds an adapter in Python");
    rest.split_once("```").expect("the block ends").0
}

/// Serves `SET NX` and the script that compares and deletes, one command a connection, until the test ends.
/// Keys live as long as the server: no test here waits for a TTL.
fn serve_redis(listener: &TcpListener) {
    let mut keys: HashMap<String, String> = HashMap::new();
    for stream in listener.incoming() {
        let mut stream = BufReader::new(stream.expect("a connection"));
        let words = read_command(&mut stream);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let answer = match words.as_slice() {
            ["SET", key, _, "NX", "PX", _] if keys.contains_key(*key) => "$-1\r\n",
            ["SET", key, value, "NX", "PX", ttl_ms] => {
                assert_eq!(*ttl_ms, "2000");
                keys.insert((*key).to_owned(), (*value).to_owned());
                "+OK\r\n"
            }
            ["EVAL", script, "1", key, value] => {
                assert!(script.contains("redis.call('del',KEYS[1])"), "{script}");
                let owned = keys.get(*key).is_some_and(|held| held == value);
                keys.retain(|held, _| !(owned && held == key));
                if owned { ":1\r\n" } else { ":0\r\n" }
            }
            other => panic!("the adapter sent {other:?}"),
        };
        stream.get_mut().write_all(answer.as_bytes()).expect("the adapter reads");
    }
}

/// One command in Redis's protocol: an array of strings, each with its length.
fn read_command(stream: &mut BufReader<TcpStream>) -> Vec<String> {
    let count = read_length(stream, '*');
    let mut words = Vec::new();
    for _ in 0..count {
        let length = read_length(stream, '$');
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).expect("a whole word");
        words.push(String::from_utf8(word[..length].to_vec()).expect("text"));
    }
    words
}

fn read_length(stream: &mut BufReader<TcpStream>, sign: char) -> usize {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a line");
    line.trim().strip_prefix(sign).expect("a length").parse().expect("a number")
}

/// Where Python is, on every machine.
fn python() -> &'static RootFileSystem {
    static ROOT: OnceLock<RootFileSystem> = OnceLock::new();
    ROOT.get_or_init(|| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let options = DriverOptions::new().expect("this program's path");
        let made = runtime.block_on(image_store::root_with(&["python3"], DEFAULT_SUITE, &options));
        made.unwrap_or_else(|error| panic!("this test needs Debian's package python3: {error}"))
    })
}

/// The controller's end of a running adapter.
struct Conversation {
    program: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Conversation {
    fn begin(server: &str) -> Conversation {
        let mut program = Command::new("chroot")
            .arg(python().folder())
            .args(["python3", "-c", adapter()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command chroot");
        let to = program.stdin.take().expect("piped");
        let from = BufReader::new(program.stdout.take().expect("piped"));
        let mut talk = Conversation { program, to, from };
        let server = json!({"name": "n1", "address": server});
        talk.send(
            &json!({"hello": 1, "client": "c1", "lock": "redis-single", "servers": [server], "seed": 7}),
        );
        let back = talk.receive();
        assert_eq!((&back["hello"], &back["can"]), (&json!(1), &json!(["validity"])));
        assert!(back["pid"].is_i64(), "{back}");
        talk
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to, "{message}").expect("the adapter reads");
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.from.read_line(&mut line).expect("the adapter writes");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn perform(&mut self, id: u64, process: u64, f: &str) -> Value {
        self.send(
            &json!({"id": id, "process": process, "f": f, "key": "a", "ttl_ms": 2000, "timeout_ms": 300}),
        );
        let answer = self.receive();
        assert_eq!(answer["id"], id);
        answer
    }

    /// Closes the adapter's input; gives its exit code.
    fn end(self) -> Option<i32> {
        let Conversation { mut program, to, .. } = self;
        drop(to);
        program.wait().expect("it ends").code()
    }
}

/// Whether an answer has this type, and an error with this code.
fn ended_with(answer: &Value, kind: &str, code: &str) -> bool {
    let error = answer["error"].as_str().unwrap_or_default();
    answer["type"] == kind && error.split(':').next() == Some(code)
}

/// Whether the answer says for certain that another holds the lock. A busy machine may leave that unknown.
fn assert_not_granted(answer: &Value) -> bool {
    let is_certain = ended_with(answer, "fail", "taken");
    assert!(is_certain || ended_with(answer, "info", "timeout"), "another holds it: {answer}");
    is_certain
}

/// One attempt at a lock that another process holds: whether its end was certain.
pub fn taken_is_certain() -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || serve_redis(&listener));
    let mut talk = Conversation::begin(&address);
    assert_eq!(talk.perform(1, 3, "acquire")["type"], "ok");
    let is_certain = assert_not_granted(&talk.perform(2, 4, "acquire"));
    talk.end();
    is_certain
}

#[test]
fn adapter_of_the_manual_speaks_the_protocol() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || serve_redis(&listener));
    let mut talk = Conversation::begin(&address);

    let granted = talk.perform(1, 3, "acquire");
    assert_eq!(granted["type"], "ok", "{granted}");
    let validity_ms = granted["value"]["validity_ms"].as_i64().expect("a validity");
    assert!((0..=2000).contains(&validity_ms), "{granted}");
    assert_eq!(talk.perform(2, 3, "holds")["value"], json!(true));

    // The end of its time may cut off its last attempt, whose outcome is unknown then: see `chance`.
    assert_not_granted(&talk.perform(3, 4, "acquire"));
    assert_eq!(talk.perform(4, 4, "holds")["value"], json!(false));

    let released = talk.perform(5, 3, "release");
    assert_eq!((&released["type"], &released["value"]), (&json!("ok"), &json!({"believed": true})));
    assert_eq!(talk.perform(6, 4, "acquire")["type"], "ok");
    let again = talk.perform(7, 3, "release");
    assert!(ended_with(&again, "fail", "not-held"), "{again}");
    assert_eq!(again["value"], json!({"believed": false}));

    let unknown = talk.perform(8, 4, "write");
    assert!(ended_with(&unknown, "fail", "bad-command"), "{unknown}");
    assert_eq!(talk.end(), Some(0));
}

#[test]
fn adapter_of_the_manual_tells_certain_failure_from_unknown() {
    // Nothing listens at this port any more: connections are refused, so nothing was sent.
    let closed =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let mut talk = Conversation::begin(&closed.to_string());
    let refused = talk.perform(1, 3, "acquire");
    assert!(ended_with(&refused, "fail", "unreachable"), "{refused}");
    talk.end();

    // It takes connections and never answers, as a stopped server does.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut talk = Conversation::begin(&silent.local_addr().expect("bound").to_string());
    let unknown = talk.perform(1, 3, "acquire");
    assert!(ended_with(&unknown, "info", "timeout"), "{unknown}");
    talk.end();
}
