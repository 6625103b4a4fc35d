//! Servers that an example starts on this machine, and clients without libraries, which cost next to nothing.

#![allow(dead_code, reason = "not every example asks each server")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Killed when dropped.
pub struct Server(pub Child);

impl Server {
    pub fn start(command: &mut Command) -> Outcome<Server> {
        Ok(Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

pub fn installed(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

pub fn redis(port: u16, folder: &Path) -> Command {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--save", "", "--dir"]).arg(folder);
    command
}

/// Its peers would come to the port after that of its clients.
pub fn etcd(port: u16, folder: &Path) -> Command {
    let [client, peer] = [port, port + 1].map(|port| format!("http://127.0.0.1:{port}"));
    let mut command = Command::new("etcd");
    command.args(["--log-level", "error", "--data-dir"]).arg(folder);
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", &format!("default={peer}")]);
    command
}

/// Requests a second, for each kind of request that is measured.
pub fn redis_benchmark(options: &[&str]) -> Outcome<Vec<f64>> {
    let output = Command::new("redis-benchmark").args(options).arg("--csv").stderr(Stdio::null()).output()?;
    let text = String::from_utf8(output.stdout)?;
    let rates: Vec<f64> = text.lines().filter_map(|line| line.split('"').nth(3)?.parse().ok()).collect();
    if rates.is_empty() { Err(format!("redis-benchmark said {text:?}").into()) } else { Ok(rates) }
}

pub struct Client(BufReader<TcpStream>);

impl Client {
    /// Waits until the server gives this answer.
    pub fn connect<T>(port: u16, first: impl Fn(&mut Client) -> Outcome<T>) -> Outcome<Client> {
        let begun = Instant::now();
        loop {
            let client = TcpStream::connect(("127.0.0.1", port)).map_err(Into::into).and_then(|stream| {
                stream.set_nodelay(true)?;
                let mut client = Client(BufReader::new(stream));
                first(&mut client).map(|_| client)
            });
            if client.is_ok() || begun.elapsed() > Duration::from_secs(20) {
                return client;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The first line of the answer; for a string, the rest is passed over.
    pub fn redis(&mut self, command: &str) -> Outcome<String> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        let line = self.line()?;
        if line.starts_with('$') && line != "$-1" {
            self.line()?;
        }
        if line.starts_with('-') { Err(line.into()) } else { Ok(line) }
    }

    /// etcd's JSON gateway takes keys in base64: keys of letters and digits are valid base64 as they are.
    pub fn etcd(&mut self, method: &str, body: &str) -> Outcome<String> {
        let length = body.len();
        let head = format!("POST /v3/{method} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {length}\r\n\r\n");
        self.0.get_mut().write_all(format!("{head}{body}").as_bytes())?;
        let status = self.line()?;
        let mut length = 0;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.parse()?;
            }
        }
        let mut answer = vec![0; length];
        self.0.read_exact(&mut answer)?;
        let answer = String::from_utf8(answer)?;
        if status.contains(" 200 ") { Ok(answer) } else { Err(answer.into()) }
    }

    pub fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}
