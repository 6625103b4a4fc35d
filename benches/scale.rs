//! What a large campaign costs after its runs: `cargo bench --bench scale`, as root (it copies one real run).
//! `FENCEPOST_RUNS` is the number of copies (100,000). Time and memory of the program count.

#[path = "../tests/all/common/server.rs"]
mod server;
#[path = "common/synthetic.rs"]
mod synthetic;

use fencepost_campaign::compare::{CellRecord, CompareCampaign};
use fencepost_campaign::parts::{CampaignKind, PartFile, PartWriter, RunKey, RunRecord, assign};
use fencepost_history::run::RunFile;
use fencepost_history::{Seed, Shard};
use fencepost_report::comparison::{Cell, Comparison, MadeRun, Row};
use fencepost_report::runs::Judgement;
use serde_json::json;
use server::Server;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use synthetic::{LOCKS, Original};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fencepost");
const NEMESES: usize = 18;
const PARTS: u32 = 8;

fn main() {
    let runs: usize =
        std::env::var("FENCEPOST_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(100_000);
    let original = Original::make();
    merging(&original, runs);
    serving(&original, runs);
}

fn merging(original: &Original, runs: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let begun = Instant::now();
    let all = parts(original, folder.path(), runs);
    println!("{all} records in {PARTS} parts were made in {:.1} s", begun.elapsed().as_secs_f64());
    let (parts, out) = (folder.path().join("parts"), folder.path().join("out"));
    for what in ["merge", "merge again, into the same folder", "merge with --csv and --junit"] {
        let mut merge = Command::new(PROGRAM);
        merge.arg("merge").arg(&parts).arg("--out").arg(&out).stdout(Stdio::null());
        if what.contains("--csv") {
            let file = |name: &str| folder.path().join(name);
            merge.arg("--csv").arg(file("c.csv")).arg("--junit").arg(file("c.xml"));
        }
        let begun = Instant::now();
        let mut child = merge.spawn().expect("the program starts");
        let mut peak_kib = 0;
        let status = loop {
            peak_kib = peak_kib.max(memory_kib(child.id()));
            if let Some(status) = child.try_wait().expect("a child") {
                break status;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(0), "{what}");
        let mib = peak_kib / 1024;
        println!("{what:<44} {:>8.1} s, {mib} MiB at most", begun.elapsed().as_secs_f64());
    }
    for name in ["compare.html", "compare.json", "records.jsonl", "merge.json"] {
        let bytes = fs::metadata(out.join(name)).expect("it was written").len();
        println!("{name:<44} {:>8.1} MB", bytes as f64 / 1e6);
    }
}

fn memory_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Writes the parts of a comparison as `compare --shard` writes them. Gives the number of runs.
fn parts(original: &Original, folder: &Path, runs: usize) -> usize {
    let file: RunFile = toml::from_str(&original.run).expect("settings of a run");
    let judgement: Arc<Judgement> = serde_json::from_str(&original.verdict).expect("a verdict");
    let nemeses: Vec<String> = (0..NEMESES).map(|number| format!("nemesis-{number}")).collect();
    let locks: Vec<String> = (0..3).flat_map(|more| LOCKS.map(|lock| format!("{lock}-{more}"))).collect();
    let row = |lock: &String| Row {
        lock: lock.clone(),
        guard: "none".to_owned(),
        settings: String::new(),
        servers: Vec::new(),
        cells: vec![Cell::default(); NEMESES],
    };
    let layout = Comparison {
        fencepost: env!("CARGO_PKG_VERSION").to_owned(),
        command: String::new(),
        rows: locks.iter().map(row).collect(),
        nemeses,
        against: None,
        left_out: Vec::new(),
        missing: Vec::new(),
    };
    let runs = runs.div_ceil(locks.len() * NEMESES);
    let campaign = CompareCampaign { layout, runs, matrix: json!({}) };
    let of = Shard::new(1, PARTS).expect("a part").of();
    let all = campaign.possible_runs();
    let assignment = assign(&vec![Some(10_000); all], of);
    for shard in Shard::all(of) {
        let place = folder.join(format!("parts/part-{}", shard.number()));
        fs::create_dir_all(&place).expect("a folder");
        let common = serde_json::to_value(&campaign).expect("JSON");
        let command = "fencepost compare --seed 7".to_owned();
        let part = PartFile::begun(CampaignKind::Compare, command, Seed(7), shard, &assignment, common);
        let runs = assignment.runs(shard.number());
        let key = |number: &u64| RunKey {
            number: *number,
            label: number.to_string(),
            name: campaign.name(*number).unwrap_or_default(),
        };
        let keys: Vec<RunKey> = runs.iter().map(key).collect();
        let writer = PartWriter::begin(&place, part, keys.iter(), Vec::new()).expect("a part");
        for run in runs {
            let made = MadeRun {
                name: format!("run-{run}"),
                seed: Seed(run),
                command: file.command.clone(),
                servers: file.servers.clone(),
                judgement: judgement.clone(),
                path: PathBuf::new(),
            };
            let record = RunRecord::new(run, true, Some(10_000), &CellRecord::Made(made)).expect("a record");
            writer.add(&record).expect("a writable folder");
        }
        writer.end(true).expect("a writable folder");
    }
    all
}

fn serving(original: &Original, runs: usize) {
    let results = tempfile::tempdir().expect("a temporary folder");
    original.fill(results.path(), runs);
    // What changed a moment ago is read again at each look; that is no run's usual state.
    std::thread::sleep(Duration::from_secs(3));
    let begun = Instant::now();
    let server = Server::start(results.path());
    println!("{:<44} {:>8.2} s", format!("serve: start, {runs} runs"), begun.elapsed().as_secs_f64());
    for what in ["first page, the first time", "first page, again", "first page, once more"] {
        let begun = Instant::now();
        get(&server.address);
        println!("{what:<44} {:>8.0} ms", begun.elapsed().as_secs_f64() * 1e3);
    }
}

fn get(address: &str) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("run-"), "no page");
}
