//! Measures what docs/disks.md states: what servers lose when they lose their power, and what the disk costs.
//!
//! `cargo run --release -p fencepost-nemesis --example disk_cost [crashes]`: as root, with redis-server,
//! redis-benchmark and etcd installed; 20 crashes each if not said. Takes about four minutes.

use fencepost_nemesis::tools::disk::Disk;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PORT: &str = "17979";
const PEER_PORT: &str = "17980";

fn main() -> Result<()> {
    let crashes = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(20);
    println!("server          crashes  with loss  acknowledged  lost");
    for server in [Server::Redis("always"), Server::Etcd, Server::Redis("everysec"), Server::Redis("no")] {
        lose(server, crashes)?;
    }
    println!(
        "\nSET a second, 50 connections: on ext4 or whatever the temporary folder is, and on the disk above it"
    );
    for fsync in ["always", "everysec"] {
        let mut pairs = Vec::new();
        for _ in 0..7 {
            pairs.push((benchmark(fsync, false)?, benchmark(fsync, true)?));
        }
        println!(
            "Redis {fsync}: {:.0} and {:.0} (medians)",
            median(&pairs, |it| it.0),
            median(&pairs, |it| it.1)
        );
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Server {
    Redis(&'static str),
    Etcd,
}

impl Server {
    fn name(self) -> String {
        match self {
            Server::Redis(fsync) => format!("Redis {fsync}"),
            Server::Etcd => "etcd".to_owned(),
        }
    }

    /// With its file rewritten, or a snapshot taken, many times within the measurement.
    fn start(self, folder: &Path) -> Result<Running> {
        let folder = folder.to_str().expect("a temporary folder in UTF-8");
        let mut command = match self {
            Server::Redis(fsync) => {
                let mut command = Command::new("redis-server");
                command.args(["--port", PORT, "--dir", folder, "--save", "", "--appendonly", "yes"]);
                command.args(["--appendfsync", fsync, "--auto-aof-rewrite-min-size", "64kb"]);
                command
            }
            Server::Etcd => {
                let (client, peer) =
                    (format!("http://127.0.0.1:{PORT}"), format!("http://127.0.0.1:{PEER_PORT}"));
                let mut command = Command::new("etcd");
                command.args(["--data-dir", folder, "--snapshot-count", "1000"]);
                command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
                command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
                command.args(["--initial-cluster", &format!("default={peer}")]);
                command
            }
        };
        Ok(Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }
}

struct Running(Child);

impl Running {
    fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait().map(drop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

struct Client {
    server: Server,
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(server: Server) -> Result<Client> {
        let begun = Instant::now();
        loop {
            let client = TcpStream::connect(format!("127.0.0.1:{PORT}")).and_then(|stream| {
                stream.set_nodelay(true)?;
                let mut client = Client { server, stream: BufReader::new(stream) };
                client.has("nobodyis")?;
                Ok(client)
            });
            match client {
                Err(error) if begun.elapsed() > Duration::from_secs(20) => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
                Ok(client) => return Ok(client),
            }
        }
    }

    fn put(&mut self, key: &str) -> Result<()> {
        match self.server {
            Server::Redis(_) => self.redis(&format!("SET {key} 1"), "+OK").map(drop),
            Server::Etcd => self.etcd("put", &format!("{{\"key\":\"{key}\",\"value\":\"AAAA\"}}")).map(drop),
        }
    }

    fn has(&mut self, key: &str) -> Result<bool> {
        match self.server {
            Server::Redis(_) => Ok(self.redis(&format!("EXISTS {key}"), ":")? == ":1"),
            Server::Etcd => Ok(self.etcd("range", &format!("{{\"key\":\"{key}\"}}"))?.contains("kvs")),
        }
    }

    fn redis(&mut self, command: &str, expected: &str) -> Result<String> {
        self.stream.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        let answer = self.line()?;
        if answer.starts_with(expected) { Ok(answer) } else { Err(Error::other(answer)) }
    }

    /// etcd's JSON gateway takes keys in base64: ours, of letters and digits, are valid base64 as they are.
    fn etcd(&mut self, what: &str, body: &str) -> Result<String> {
        let head =
            format!("POST /v3/kv/{what} HTTP/1.1\r\nHost: etcd\r\nContent-Length: {}\r\n\r\n", body.len());
        self.stream.get_mut().write_all(format!("{head}{body}").as_bytes())?;
        let status = self.line()?;
        let mut length = 0;
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.parse().map_err(Error::other)?;
            }
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        let answer = String::from_utf8(answer).map_err(Error::other)?;
        if status.contains(" 200 ") { Ok(answer) } else { Err(Error::other(answer)) }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(Error::from(ErrorKind::UnexpectedEof)),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

fn lose(server: Server, crashes: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = Disk::mount(folder.path())?;
    let (mut with_loss, mut acknowledged, mut lost) = (0, 0, 0);
    for crash in 0..crashes {
        let mut running = server.start(folder.path())?;
        let mut client = Client::connect(server)?;
        let length = Duration::from_millis(300 + crash * 370 % 1000);
        let begun = Instant::now();
        let mut keys = Vec::new();
        // Not as a second begins, when Redis `everysec` fsyncs: a cut just after that rightly takes nothing.
        while begun.elapsed() < length || begin_of_second() {
            let key = format!("{:04}{:08}", crash, keys.len());
            client.put(&key)?;
            keys.push(key);
        }
        running.kill()?;
        disk.crash(None, crash)?;
        let mut running = server.start(folder.path())?;
        let mut client = Client::connect(server)?;
        let mut missing = 0;
        for key in &keys {
            missing += u64::from(!client.has(key)?);
        }
        running.kill()?;
        with_loss += u64::from(missing > 0);
        acknowledged += keys.len();
        lost += missing;
    }
    println!("{:15} {crashes:7}  {with_loss:9}  {acknowledged:12}  {lost}", server.name());
    Ok(())
}

fn begin_of_second() -> bool {
    SystemTime::now().duration_since(UNIX_EPOCH).is_ok_and(|time| time.subsec_millis() < 250)
}

fn benchmark(fsync: &'static str, on_disk: bool) -> Result<f64> {
    let folder = tempfile::tempdir()?;
    let _disk = if on_disk { Some(Disk::mount(folder.path())?) } else { None };
    let server = Server::Redis(fsync);
    let mut running = server.start(folder.path())?;
    Client::connect(server)?;
    let output = Command::new("redis-benchmark")
        .args(["-p", PORT, "-t", "set", "-n", "50000", "-c", "50", "--csv"])
        .stderr(Stdio::null())
        .output()?;
    running.kill()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = text.lines().last().and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok());
    rate.ok_or_else(|| Error::other(format!("redis-benchmark said {text:?}")))
}

fn median(pairs: &[(f64, f64)], of: fn(&(f64, f64)) -> f64) -> f64 {
    let mut values: Vec<f64> = pairs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
