//! What a large campaign costs after its runs: `cargo bench --bench scale`, as root (it copies one real run).
//! `FENCEPOST_RUNS` is the number of copies (100,000). Time and memory of the program count.

#[path = "common/played.rs"]
mod played;
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
use played::{Played, play};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use synthetic::{LOCKS, Original};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fencepost");
const NEMESES: usize = 18;
const PARTS: u32 = 8;

fn main() {
    let runs: usize =
        std::env::var("FENCEPOST_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(100_000);
    let original = Original::make();
    merging(&original, runs);
    original.serve(runs);
}

fn merging(original: &Original, runs: usize) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let begun = Instant::now();
    let all = parts(original, folder.path(), runs);
    println!("{all} records in {PARTS} parts were made in {:.1} s", begun.elapsed().as_secs_f64());
    let (parts, out) = (folder.path().join("parts"), folder.path().join("out"));
    for what in ["merge", "merge again, into the same folder", "merge with --csv and --junit"] {
        let mut merge = Command::new(PROGRAM);
        merge.arg("merge").arg(&parts).arg("--out").arg(&out);
        if what.contains("--csv") {
            let file = |name: &str| folder.path().join(name);
            merge.arg("--csv").arg(file("c.csv")).arg("--junit").arg(file("c.xml"));
        }
        let Played { code, took, most_memory_mib } = play(&mut merge);
        assert_eq!(code, Some(0), "{what}");
        println!("{what:<44} {:>8.1} s, {most_memory_mib} MiB at most", took.as_secs_f64());
    }
    for name in ["compare.html", "compare.json", "records.jsonl", "merge.json"] {
        let bytes = fs::metadata(out.join(name)).expect("it was written").len();
        println!("{name:<44} {:>8.1} MB", bytes as f64 / 1e6);
    }
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
