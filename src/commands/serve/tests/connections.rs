//! Connections: how many, for how long, and whose.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Serves some runs on an address of its own.
async fn listening(results: &FilePath) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(listen::listen(listener, serving(results)));
    address
}

/// The client's end of one connection, in memory: paused time goes on only once everything waits.
fn connected(results: &FilePath) -> tokio::io::DuplexStream {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    tokio::spawn(listen::answer(theirs, serving(results), pace::Pace::default()));
    ours
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_for_nothing_is_closed() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let results = results();
    // Nothing, half a request, and the beginning of another version of HTTP.
    for sent in [&b""[..], b"GET / HTTP/1.1\r\nHost: local", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let begun = tokio::time::Instant::now();
        let mut stream = connected(results.path());
        stream.write_all(sent).await.unwrap();
        let mut answer = Vec::new();
        // Time passes by itself while every task waits.
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(15), "{sent:?} was waited for for {waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_read_is_given_up_after_ten_seconds() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    const BYTES: u64 = 64 << 20;
    let results = results();
    fs::File::create(results.path().join("long.log")).unwrap().set_len(BYTES).unwrap();
    for (unread, kept) in [(Duration::from_secs(9), true), (Duration::from_secs(11), false)] {
        let mut stream = connected(results.path());
        let request = b"GET /files/long.log HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = vec![0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, b"HTTP/1.1 200");
        // The time passes by itself, once every task waits.
        tokio::time::sleep(unread).await;
        let _ = stream.read_to_end(&mut answer).await;
        assert_eq!(answer.len() as u64 > BYTES, kept, "{} bytes after {unread:?}", answer.len());
    }
}

/// Clients that ask for a long file, and take nothing of it.
fn readers_of_nothing(address: std::net::SocketAddr, count: usize) -> Vec<TcpStream> {
    let reader = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /files/long.log HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream
    };
    (0..count).map(reader).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_nothing_that_take_all_places_do_not_keep_others_from_an_answer() {
    let results = results();
    fs::File::create(results.path().join("long.log")).unwrap().set_len(1 << 30).unwrap();
    let address = listening(results.path()).await;
    let asked = tokio::task::spawn_blocking(move || {
        let slow = readers_of_nothing(address, 140);
        for _ in 0..3 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
            // Far less than the ten minutes for which such a reader was once waited for.
            stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        drop(slow);
    });
    asked.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_keeps_its_place_among_those_that_do_not() {
    let results = results();
    fs::File::create(results.path().join("long.log")).unwrap().set_len(1 << 30).unwrap();
    let address = listening(results.path()).await;
    let read = tokio::task::spawn_blocking(move || {
        // All of these have kept the server waiting for longer, by whatever a busy machine does to this
        // thread.
        let mut slow = readers_of_nothing(address, 127);
        let mut reading = readers_of_nothing(address, 1).pop().unwrap();
        let mut piece = vec![0; 1 << 20];
        reading.read_exact(&mut piece).unwrap();
        slow.extend(readers_of_nothing(address, 13));
        // The rest of the file passes through while others lose their places.
        (1..1 << 10).for_each(|_| reading.read_exact(&mut piece).unwrap());
        drop(slow);
    });
    read.await.unwrap();
}
