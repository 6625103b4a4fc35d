//! The client's loop over in-memory pipes, with a lock that does what the key says.

use super::*;
use crate::capabilities::Capabilities;
use crate::notices::Notices;
use crate::protocol::Answer;
use crate::recipe::{Lock, Recipe, Session};
use crate::services::NO_SERVERS;
use async_trait::async_trait;
use fencepost_history::{Completion, ErrorCode, Grant};
use fencepost_storage::Credentials;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, split};

/// A lock without servers. The key says how it behaves: `lost` reports the loss at once, `lost-early` before
/// the grant, `expired` is no longer valid, `unsure` ends every acquire as indeterminate, `taken` is always
/// another's.
static FAKE: LockDefinition = LockDefinition {
    name: "fake",
    about: "for tests",
    claims: "nothing",
    service: &NO_SERVERS,
    recipe: &FakeRecipe,
    options: &[],
    capabilities: |_| Capabilities { token: true, ..Capabilities::NONE },
};

struct FakeRecipe;

#[async_trait]
impl Recipe for FakeRecipe {
    async fn connect(&self, hello: &Hello) -> Result<Session, ClientError> {
        match hello.servers.as_slice() {
            [] => Ok(Box::new(|_, notices| Box::new(FakeLock { notices }))),
            _ => Err(ClientError::Environment("no servers wanted".to_owned())),
        }
    }
}

struct FakeLock {
    notices: Notices,
}

#[async_trait]
impl Lock for FakeLock {
    async fn acquire(&mut self, key: &str, _ttl: Duration, _timeout: Duration) -> Completion {
        match key {
            "unsure" => return Completion::info(ErrorCode::Timeout, "n1"),
            "taken" => return Completion::fail(ErrorCode::Taken, "by another"),
            "slow" => tokio::time::sleep(Duration::from_millis(100)).await,
            "lost-early" => {
                self.notices.lost(key, "session expired");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            "lost" => {
                let notices = self.notices.clone();
                let key = key.to_owned();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    notices.lost(&key, "session expired");
                });
            }
            _ => {}
        }
        Completion::ok(Grant { token: Some(33), ..Grant::default() })
    }
    async fn release(&mut self, key: &str, _timeout: Duration) -> Completion {
        if key == "expired" {
            Completion::Fail("not-held".to_owned().into())
        } else {
            Completion::Ok(Value::Null)
        }
    }
    fn still_valid(&self, key: &str) -> Option<bool> {
        Some(key != "expired")
    }
    fn credentials(&self, _key: &str) -> Credentials {
        Credentials { token: Some(33), ..Credentials::default() }
    }
}

/// The controller's end.
struct Talk {
    to: WriteHalf<DuplexStream>,
    from: Lines<BufReader<ReadHalf<DuplexStream>>>,
    client: tokio::task::JoinHandle<Result<(), ClientError>>,
}

impl Talk {
    fn begin() -> Talk {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (input, output) = split(theirs);
        let find = |name: &str| (name == "fake").then_some(&FAKE);
        let client = tokio::spawn(async move { serve_client(input, output, find).await });
        let (from, to) = split(ours);
        Talk { to, from: BufReader::new(from).lines(), client }
    }

    /// Says hello with these extra fields and reads the answer.
    async fn hello(extra: Value) -> Talk {
        let mut talk = Talk::begin();
        let mut hello = json!({"hello": VERSION, "client": "c1", "lock": "fake", "servers": [], "seed": 7});
        hello.as_object_mut().expect("an object").extend(extra.as_object().cloned().unwrap_or_default());
        talk.say(&hello.to_string()).await;
        let back: HelloAnswer = serde_json::from_str(&talk.next().await).expect("a hello");
        assert_eq!((back.hello, back.can), (VERSION, vec!["token".to_owned()]));
        talk
    }

    async fn say(&mut self, line: &str) {
        self.to.write_all(line.as_bytes()).await.expect("the client reads");
        self.to.write_all(b"\n").await.expect("the client reads");
    }

    async fn next(&mut self) -> String {
        // Time goes on only once everything waits, but for what a real storage does.
        let line = tokio::time::timeout(Duration::from_secs(60), self.from.next_line()).await;
        line.expect("in time").expect("readable").expect("not the end")
    }

    /// Sends an operation of process 3 and gives the next line.
    async fn op(&mut self, f: &str, key: &str, extra: &str) -> String {
        self.say(&format!(r#"{{"id":1,"process":3,"f":"{f}","key":"{key}"{extra}}}"#)).await;
        self.next().await
    }

    async fn acquire(&mut self, key: &str) -> String {
        self.op("acquire", key, r#","ttl_ms":2000,"timeout_ms":1000"#).await
    }

    async fn end(mut self) -> Result<(), ClientError> {
        self.to.shutdown().await.expect("open until now");
        self.client.await.expect("no panic")
    }
}

#[tokio::test(start_paused = true)]
async fn believes_from_acquire_to_release() {
    let mut talk = Talk::hello(json!({})).await;
    assert_eq!(talk.op("holds", "a", "").await, r#"{"id":1,"type":"ok","value":false}"#);
    assert_eq!(talk.acquire("a").await, r#"{"id":1,"type":"ok","value":{"token":33}}"#);
    assert_eq!(talk.op("holds", "a", "").await, r#"{"id":1,"type":"ok","value":true}"#);
    assert_eq!(talk.op("holds", "b", "").await, r#"{"id":1,"type":"ok","value":false}"#);
    assert_eq!(talk.op("release", "a", "").await, r#"{"id":1,"type":"ok","value":{"believed":true}}"#);
    assert_eq!(talk.op("holds", "a", "").await, r#"{"id":1,"type":"ok","value":false}"#);
    assert!(talk.end().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn failing_operations_say_why() {
    let mut talk = Talk::hello(json!({})).await;
    assert_eq!(talk.acquire("taken").await, r#"{"id":1,"type":"fail","error":"taken: by another"}"#);
    for (f, code) in [("dance", "bad-command"), ("acquire", "bad-command"), ("read", "no-storage")] {
        let answer = talk.op(f, "a", "").await;
        assert!(answer.contains(r#""type":"fail""#) && answer.contains(code), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_notice_ends_the_belief() {
    let mut talk = Talk::hello(json!({})).await;
    talk.acquire("lost").await;
    let notice = talk.next().await;
    assert_eq!(notice, r#"{"event":"lost","process":3,"key":"lost","reason":"session expired"}"#);
    assert_eq!(talk.op("holds", "lost", "").await, r#"{"id":1,"type":"ok","value":false}"#);
    assert_eq!(talk.op("release", "lost", "").await, r#"{"id":1,"type":"ok","value":{"believed":false}}"#);
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_before_its_grant_is_known_is_not_believed_in() {
    let mut talk = Talk::hello(json!({})).await;
    assert_eq!(talk.acquire("lost-early").await, r#"{"id":1,"type":"ok","value":{"token":33}}"#);
    let notice = talk.next().await;
    assert_eq!(notice, r#"{"event":"lost","process":3,"key":"lost-early","reason":"session expired"}"#);
    assert!(talk.op("release", "lost-early", "").await.contains(r#""believed":false"#));
    assert_eq!(talk.acquire("a").await, r#"{"id":1,"type":"ok","value":{"token":33}}"#);
    assert!(talk.op("holds", "a", "").await.contains("true"));
}

#[tokio::test(start_paused = true)]
async fn the_careless_do_not_look_at_their_validity_and_the_careful_do() {
    let mut careless = Talk::hello(json!({})).await;
    careless.acquire("expired").await;
    assert!(careless.op("holds", "expired", "").await.contains("true"));
    let released = careless.op("release", "expired", "").await;
    assert_eq!(released, r#"{"id":1,"type":"fail","value":{"believed":true},"error":"not-held"}"#);

    let mut careful = Talk::hello(json!({"careful": true, "storage": "127.0.0.1:1"})).await;
    careful.acquire("expired").await;
    assert!(careful.op("holds", "expired", "").await.contains("false"));
    assert!(careful.op("write", "expired", r#","value":8"#).await.contains("gave-up"));
    assert!(careful.op("release", "expired", "").await.contains(r#""believed":false"#));
}

#[tokio::test(start_paused = true)]
async fn pauses_at_the_point_that_the_hello_names_and_reports_it() {
    let pausing =
        json!({"careful": true, "storage": "127.0.0.1:1", "pause_at": ["between-check-and-write=1ms"]});
    let mut talk = Talk::hello(pausing).await;
    talk.acquire("a").await;
    let notice = talk.op("write", "a", r#","value":8,"timeout_ms":1"#).await;
    assert_eq!(notice, r#"{"event":"at","process":3,"key":"a","point":"between-check-and-write"}"#);
    assert!(talk.next().await.contains("unreachable"), "it went on to write");
}

#[tokio::test(start_paused = true)]
async fn an_indeterminate_operation_ends_its_process() {
    let mut talk = Talk::hello(json!({})).await;
    talk.acquire("a").await;
    assert_eq!(talk.acquire("unsure").await, r#"{"id":1,"type":"info","error":"timeout: n1"}"#);
    assert!(talk.op("holds", "a", "").await.contains("false"), "the number is a new process");
}

#[tokio::test(start_paused = true)]
async fn processes_do_not_wait_for_each_other() {
    let mut talk = Talk::hello(json!({})).await;
    talk.say(r#"{"id":1,"process":1,"f":"acquire","key":"slow","ttl_ms":2000}"#).await;
    talk.say(r#"{"id":2,"process":1,"f":"holds","key":"slow"}"#).await;
    talk.say(r#"{"id":3,"process":2,"f":"holds","key":"slow"}"#).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let answer: Answer = serde_json::from_str(&talk.next().await).expect("an answer");
        ids.push(answer.id);
    }
    assert_eq!(ids, [3, 1, 2], "process 1 does one thing after the other");
}

#[tokio::test]
async fn sends_the_token_that_the_guard_needs() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let storage = listener.local_addr().expect("bound").to_string();
    tokio::spawn(fencepost_storage::serve_storage(
        listener,
        fencepost_storage::find_guard("token").expect("there"),
    ));
    let mut talk = Talk::hello(json!({"storage": storage, "guard": "token"})).await;
    talk.acquire("a").await;
    // This guard refuses a write without a token.
    assert_eq!(talk.op("write", "a", r#","value":8"#).await, r#"{"id":1,"type":"ok","value":8}"#);
    assert_eq!(talk.op("read", "a", "").await, r#"{"id":1,"type":"ok","value":8}"#);
}

#[tokio::test(start_paused = true)]
async fn a_bad_hello_is_refused_in_one_sentence() {
    let cases = [
        ("what?", "no hello"),
        (r#"{"hello":2}"#, "version 2"),
        (r#"{"hello":1,"client":"c1"}"#, "not complete"),
        (
            r#"{"hello":1,"client":"c1","lock":"nope","servers":[],"seed":1}"#,
            "lock that is not known: `nope`",
        ),
        (r#"{"hello":1,"client":"c1","lock":"fake","servers":[],"seed":1,"guard":"dog"}"#, "guard"),
    ];
    for (line, sentence) in cases {
        let mut talk = Talk::begin();
        talk.say(line).await;
        match talk.end().await {
            Err(ClientError::BadHello(why)) => assert!(why.contains(sentence), "{why}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}
