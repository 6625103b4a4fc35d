//! A small HTTP server that misbehaves as mirrors and networks do.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What a request asks for.
pub(super) struct Request {
    pub(super) path: String,
    /// The first byte that is wanted.
    pub(super) from: Option<usize>,
    /// How many requests came before it.
    pub(super) number: usize,
}

/// What comes back: bytes as they are, and then an end or silence.
pub(super) struct Reply {
    pub(super) bytes: Vec<u8>,
    pub(super) then_silent: bool,
}

impl Reply {
    pub(super) fn raw(bytes: impl Into<Vec<u8>>) -> Reply {
        Reply { bytes: bytes.into(), then_silent: false }
    }

    /// An answer without a body.
    pub(super) fn status(status: &str, headers: &str) -> Reply {
        Reply::raw(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n{headers}Connection: close\r\n\r\n"))
    }

    pub(super) fn whole(body: &[u8]) -> Reply {
        Reply::of(body, body.len(), "200 OK", "")
    }

    /// An answer that announces this many bytes.
    pub(super) fn of(body: &[u8], announced: usize, status: &str, headers: &str) -> Reply {
        let head =
            format!("HTTP/1.1 {status}\r\nContent-Length: {announced}\r\n{headers}Connection: close\r\n\r\n");
        Reply::raw([head.as_bytes(), body].concat())
    }

    /// What a good server answers.
    pub(super) fn good(body: &[u8], request: &Request) -> Reply {
        match request.from {
            Some(from) if from < body.len() => Reply::part(body, from),
            _ => Reply::whole(body),
        }
    }

    /// The rest from this byte on.
    pub(super) fn part(body: &[u8], from: usize) -> Reply {
        let range = format!("Content-Range: bytes {from}-{}/{}\r\n", body.len() - 1, body.len());
        Reply::of(&body[from..], body.len() - from, "206 Partial Content", &range)
    }

    /// The same, cut off after this many bytes of the body.
    pub(super) fn cut_after(mut self, body_bytes: usize) -> Reply {
        let head = self.bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
        self.bytes.truncate(head + body_bytes);
        self
    }

    pub(super) fn then_silent(self) -> Reply {
        Reply { then_silent: true, ..self }
    }
}

type Answer = dyn Fn(Request) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync;

/// A server that runs until it is dropped.
pub(super) struct FaultyMirror {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl FaultyMirror {
    pub(super) async fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> FaultyMirror {
        FaultyMirror::serve(Arc::new(move |request| {
            let reply = answer(&request);
            Box::pin(async move { reply })
        }))
        .await
    }

    pub(super) async fn serve(answer: Arc<Answer>) -> FaultyMirror {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let count = requests.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(talk(stream, answer.clone(), count.clone()));
            }
        });
        FaultyMirror { address, requests, serving }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for FaultyMirror {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn talk(stream: TcpStream, answer: Arc<Answer>, count: Arc<AtomicUsize>) {
    let mut stream = BufReader::new(stream);
    let (mut line, mut path, mut from) = (String::new(), String::new(), None);
    while stream.read_line(&mut line).await.is_ok_and(|length| length > 2) {
        if let Some(asked) = line.strip_prefix("GET ") {
            let asked = asked.split(' ').next().unwrap_or_default();
            path = asked.split_once("://").map_or(asked, |(_, rest)| rest).to_owned();
        }
        let range = line.to_ascii_lowercase();
        if let Some(range) = range.strip_prefix("range: bytes=") {
            from = range.trim().trim_end_matches('-').parse().ok();
        }
        line.clear();
    }
    let number = count.fetch_add(1, Ordering::Relaxed);
    let reply = answer(Request { path, from, number }).await;
    let mut stream = stream.into_inner();
    let _ = stream.write_all(&reply.bytes).await;
    if reply.then_silent {
        std::future::pending::<()>().await;
    }
    let _ = stream.shutdown().await;
    // Closed with something unread, the connection would be reset and the answer lost.
    let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
}
