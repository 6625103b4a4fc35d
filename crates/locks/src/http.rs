//! A tool for a node's agent: one HTTP request. etcd says over HTTP whether it serves, and who leads.

use fencepost_cluster::agent::{Tool, ToolError};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const ANSWER_MAX: u64 = 64 * 1024;

/// The agent's tool `http`: takes `{"address":"198.18.0.2:2379","path":"/health","timeout_ms":500}` and gives
/// `{"status":200,"body":"…"}`. With a `body` it posts that, else it gets. etcd's readiness needs it.
pub struct HttpTool;

impl HttpTool {
    pub(crate) const NAME: &str = "http";
}

impl Tool for HttpTool {
    fn name(&self) -> &'static str {
        HttpTool::NAME
    }

    fn call(&self, args: Value) -> Result<Value, ToolError> {
        let request: HttpRequest =
            serde_json::from_value(args).map_err(|error| format!("{}: {error}", HttpTool::NAME))?;
        let answer = request.exchange().map_err(|error| format!("{}: {error}", request.address))?;
        let text = String::from_utf8_lossy(&answer);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse::<u16>().ok());
        let status = status.ok_or_else(|| format!("{} did not answer with HTTP", request.address))?;
        Ok(json!({"status": status, "body": body}))
    }
}

#[derive(Deserialize)]
struct HttpRequest {
    address: SocketAddr,
    path: String,
    /// What is posted, as JSON; none: nothing is, and the page is only got.
    #[serde(default)]
    body: Option<Value>,
    /// For each step: connecting, and each wait for data.
    timeout_ms: u64,
}

impl HttpRequest {
    fn exchange(&self) -> std::io::Result<Vec<u8>> {
        if self.timeout_ms == 0 {
            return Err(Error::new(ErrorKind::InvalidInput, "a time-out of 0"));
        }
        let timeout = Duration::from_millis(self.timeout_ms);
        let mut stream = TcpStream::connect_timeout(&self.address, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        // HTTP/1.0: the server sends the answer in one piece and closes the connection after it.
        let head = format!("{} HTTP/1.0\r\nHost: {}\r\n", self.path, self.address);
        let request = match &self.body {
            None => format!("GET {head}\r\n"),
            Some(body) => {
                let body = body.to_string();
                let length = body.len();
                format!("POST {head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
            }
        };
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer)?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answered_with(answer: &'static str) -> Result<Value, ToolError> {
        let (given, request) = exchange(answer, Value::Null);
        assert!(request.starts_with("GET /health HTTP/1.0\r\n"), "{request}");
        given
    }

    fn exchange(answer: &'static str, body: Value) -> (Result<Value, ToolError>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut request = [0; 256];
            let length = stream.read(&mut request).expect("a request");
            stream.write_all(answer.as_bytes()).expect("still open");
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let args = json!({"address": address, "path": "/health", "timeout_ms": 2000, "body": body});
        let answer = HttpTool.call(args);
        (answer, server.join().expect("no panic"))
    }

    #[test]
    fn posts_what_it_is_given() {
        let (answer, request) = exchange("HTTP/1.0 200 OK\r\n\r\n{}", json!({"targetID": "7"}));
        assert_eq!(answer.unwrap(), json!({"status": 200, "body": "{}"}));
        assert!(request.starts_with("POST /health HTTP/1.0\r\n"), "{request}");
        assert!(request.ends_with("Content-Length: 16\r\n\r\n{\"targetID\":\"7\"}"), "{request}");
    }

    #[test]
    fn gives_status_and_body() {
        let answer = answered_with("HTTP/1.0 503 Service Unavailable\r\nA: b\r\n\r\n{\"health\":\"false\"}");
        assert_eq!(answer.unwrap(), json!({"status": 503, "body": "{\"health\":\"false\"}"}));
    }

    #[test]
    fn says_what_is_wrong() {
        assert!(answered_with("-ERR unknown command\r\n").is_err_and(|why| why.to_string().contains("HTTP")));
        assert!(HttpTool.call(json!({"address": "x"})).is_err());
    }
}
