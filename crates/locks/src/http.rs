//! A tool for a node's agent: one HTTP GET. etcd says over HTTP whether it serves.

use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Name under which the program gives [`http_get`] to its agents.
pub(crate) const TOOL: &str = "http-get";
/// More than this of an answer is not read.
const ANSWER_MAX: u64 = 64 * 1024;

#[derive(Deserialize)]
struct Get {
    /// `host:port`.
    address: String,
    path: String,
    timeout_ms: u64,
}

/// The agent's tool `http-get`: takes `{"address":"host:port","path":"/health","timeout_ms":500}` and gives
/// `{"status":200,"body":"…"}`.
///
/// # Errors
/// One sentence: bad arguments, no connection, no answer in time, or an answer that is not HTTP.
pub async fn http_get(args: Value) -> Result<Value, String> {
    let get: Get = serde_json::from_value(args).map_err(|error| format!("http-get: {error}"))?;
    let exchange = async {
        let mut stream = TcpStream::connect(&get.address).await?;
        // HTTP/1.0: the server closes the connection after the answer and sends it in one piece.
        let request = format!("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", get.path, get.address);
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = tokio::time::timeout(Duration::from_millis(get.timeout_ms), exchange)
        .await
        .map_err(|_| format!("{} did not answer within {} ms", get.address, get.timeout_ms))?
        .map_err(|error| format!("{}: {error}", get.address))?;
    let text = String::from_utf8_lossy(&answer);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|word| word.parse::<u16>().ok());
    let status = status.ok_or_else(|| format!("{} did not answer with HTTP", get.address))?;
    Ok(json!({"status": status, "body": body}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    async fn answered_with(answer: &'static str) -> Result<Value, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 256];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        });
        http_get(json!({"address": address, "path": "/health", "timeout_ms": 2000})).await
    }

    #[tokio::test]
    async fn gives_status_and_body() {
        let answer =
            answered_with("HTTP/1.0 503 Service Unavailable\r\nA: b\r\n\r\n{\"health\":\"false\"}").await;
        assert_eq!(answer, Ok(json!({"status": 503, "body": "{\"health\":\"false\"}"})));
    }

    #[tokio::test]
    async fn says_what_is_wrong() {
        assert!(answered_with("-ERR unknown command\r\n").await.is_err_and(|why| why.contains("HTTP")));
        assert!(http_get(json!({"address": "x"})).await.is_err());
    }
}
