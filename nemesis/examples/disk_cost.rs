//! Measures what docs/disks.md states: what servers lose when they lose their power, and what the disk costs.
//!
//! `cargo run --release -p fencepost-nemesis --example disk_cost [crashes]`: as root, with redis-server,
//! redis-benchmark and etcd installed; 20 crashes each if not said. Takes about four minutes.

mod common;

use common::{Client, Outcome, Server, redis_benchmark};
use fencepost_nemesis::tools::disk::Disk;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PORT: u16 = 17979;

fn main() -> Outcome<()> {
    let crashes = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(20);
    println!("server          crashes  with loss  acknowledged  lost");
    for server in [Kind::Redis("always"), Kind::Etcd, Kind::Redis("everysec"), Kind::Redis("no")] {
        lose(server, crashes)?;
    }
    println!(
        "\nSET a second, 50 connections: on ext4 or whatever the temporary folder is, and on the disk above it"
    );
    for fsync in ["always", "everysec"] {
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..7 {
            rates[0].push(benchmark(fsync, false)?);
            rates[1].push(benchmark(fsync, true)?);
        }
        let [plain, on_disk] = rates.map(median);
        println!("Redis {fsync}: {plain:.0} and {on_disk:.0} (medians)");
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Kind {
    Redis(&'static str),
    Etcd,
}

impl Kind {
    fn name(self) -> String {
        match self {
            Kind::Redis(fsync) => format!("Redis {fsync}"),
            Kind::Etcd => "etcd".to_owned(),
        }
    }

    /// With its file rewritten, or a snapshot taken, many times within the measurement.
    fn start(self, folder: &Path) -> Outcome<(Server, Client)> {
        let mut command = match self {
            Kind::Redis(_) => common::redis(PORT, folder),
            Kind::Etcd => common::etcd(PORT, folder),
        };
        let server = Server::start(match self {
            Kind::Redis(fsync) => command
                .args(["--appendonly", "yes", "--appendfsync", fsync])
                .args(["--auto-aof-rewrite-min-size", "64kb"]),
            Kind::Etcd => command.args(["--snapshot-count", "1000"]),
        })?;
        Ok((server, Client::connect(PORT, |client| self.has(client, "nobodyis"))?))
    }

    fn put(self, client: &mut Client, key: &str) -> Outcome<()> {
        match self {
            Kind::Redis(_) => client.redis(&format!("SET {key} 1"))?,
            Kind::Etcd => client.etcd("kv/put", &format!("{{\"key\":\"{key}\",\"value\":\"AAAA\"}}"))?,
        };
        Ok(())
    }

    fn has(self, client: &mut Client, key: &str) -> Outcome<bool> {
        match self {
            Kind::Redis(_) => Ok(client.redis(&format!("EXISTS {key}"))? == ":1"),
            Kind::Etcd => Ok(client.etcd("kv/range", &format!("{{\"key\":\"{key}\"}}"))?.contains("kvs")),
        }
    }
}

fn lose(kind: Kind, crashes: u64) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let disk = Disk::mount(folder.path())?;
    let (mut with_loss, mut acknowledged, mut lost) = (0, 0, 0);
    for crash in 0..crashes {
        let (server, mut client) = kind.start(folder.path())?;
        let length = Duration::from_millis(300 + crash * 370 % 1000);
        let begun = Instant::now();
        let mut keys = Vec::new();
        // Not as a second begins, when Redis `everysec` fsyncs: a cut just after that rightly takes nothing.
        while begun.elapsed() < length || begin_of_second() {
            let key = format!("{:04}{:08}", crash, keys.len());
            kind.put(&mut client, &key)?;
            keys.push(key);
        }
        drop(server);
        disk.crash(None, crash)?;
        let (_server, mut client) = kind.start(folder.path())?;
        let mut missing = 0;
        for key in &keys {
            missing += u64::from(!kind.has(&mut client, key)?);
        }
        with_loss += u64::from(missing > 0);
        acknowledged += keys.len();
        lost += missing;
    }
    println!("{:15} {crashes:7}  {with_loss:9}  {acknowledged:12}  {lost}", kind.name());
    Ok(())
}

fn begin_of_second() -> bool {
    SystemTime::now().duration_since(UNIX_EPOCH).is_ok_and(|time| time.subsec_millis() < 250)
}

fn benchmark(fsync: &'static str, on_disk: bool) -> Outcome<f64> {
    let folder = tempfile::tempdir()?;
    let _disk = if on_disk { Some(Disk::mount(folder.path())?) } else { None };
    let _running = Kind::Redis(fsync).start(folder.path())?;
    Ok(redis_benchmark(&["-p", &PORT.to_string(), "-t", "set", "-n", "50000", "-c", "50"])?[0])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
