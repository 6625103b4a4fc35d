//! Everything that reads what others wrote: it takes or refuses any bytes, and neither panics nor hangs.

use fencepost_checker::read::{Edn, JsonLines, Lines, ReadOptions};
use fencepost_checker::{Algorithm, Budget, CheckOptions, ModelName, check_lines};
use fencepost_engine::client_connection::{ClientConnection, ClientEnd, ClientEvents};
use fencepost_history::run::RunFolder;
use fencepost_locks::protocol::{Command, Hello, Notice};
use fencepost_nemesis::{Plan, PlannedFault, RecipePoint, ServerFaults, Topology};
use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Reads some bytes.
pub type Reader = fn(&[u8]);

/// Every reader, by name; the folders of `fuzz/corpus` and of `tools/fuzz` bear the same names.
pub const READERS: [(&str, Reader); 10] = [
    ("histories", |input| history(input, &mut JsonLines::new(input))),
    ("edn", |input| history(input, &mut Edn::new(input))),
    ("plans", |input| plan(&String::from_utf8_lossy(input))),
    ("scenarios", |input| fencepost_engine::scenario::fuzz(&String::from_utf8_lossy(input))),
    ("locks", |input| fencepost_locks::folder::fuzz(&String::from_utf8_lossy(input))),
    ("config", |input| fencepost::fuzzing::config(&String::from_utf8_lossy(input))),
    ("runs", run),
    ("clients", client),
    ("serve", serve),
    // Fails on an input that has to be found letter by letter: a fuzzer that does not find it is blind.
    ("canary", |input| assert!(!input.starts_with(b"fence"), "the canary was found")),
];

pub fn reader(name: &str) -> Option<Reader> {
    READERS.iter().find(|(known, _)| *known == name).map(|(_, reader)| *reader)
}

fn history(input: &[u8], lines: &mut dyn Lines) {
    let choice: usize = input.iter().map(|byte| usize::from(*byte)).sum();
    let models = ModelName::ALL;
    let reading =
        ReadOptions { independent: (choice / models.len()).is_multiple_of(4), ..Default::default() };
    let budget = Budget::new(Duration::from_millis(50), 1 << 24);
    let options = CheckOptions { algorithm: Algorithm::Auto, budget, evidence: true, witness: true };
    for key in check_lines(models[choice % models.len()], lines, &reading, &options).into_iter().flatten() {
        if let Some(evidence) = key.evidence {
            assert!(!evidence.to_string().is_empty());
            fencepost_report::conflict(&evidence);
        }
    }
}

fn plan(text: &str) {
    let names = |letter: &str, count| (1..=count).map(|number| format!("{letter}{number}")).collect();
    let topology = Topology {
        servers: names("n", 5),
        server_faults: ServerFaults::All,
        by_name: true,
        clients: names("c", 5),
        storage: Some("storage".to_owned()),
        has_leader: true,
        orders: &["error-replies:readonly"],
        points: vec![RecipePoint { name: "between-check-and-write".to_owned(), is_acquiring: false }],
        ttl: Duration::from_secs(2),
    };
    if let Ok(plan) = Plan::parse(text, &topology) {
        let _: Vec<_> = plan.faults.iter().map(PlannedFault::motions).collect();
        let written = plan.to_toml();
        let again = Plan::parse(&written, &topology);
        assert_eq!(again.map(|plan| plan.to_toml()), Ok(written));
    }
}

static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir_in("/dev/shm").expect("a folder in memory"));

/// One file of a run's folder is made of the input: the first byte says which; the others are right.
fn run(input: &[u8]) {
    const FILES: [(&str, &[u8]); 4] = [
        ("run.toml", include_bytes!("../../docs/examples/redlock-clock-jump/run.toml")),
        ("history.jsonl", include_bytes!("../corpus/histories/lock.jsonl")),
        ("clocks.jsonl", b""),
        ("verdict.json", include_bytes!("../../docs/examples/redlock-clock-jump/verdict.json")),
    ];
    let Some((choice, content)) = input.split_first() else { return };
    for (at, (name, usual)) in FILES.into_iter().enumerate() {
        let is_chosen = at == usize::from(*choice) % FILES.len();
        let written = std::fs::write(FOLDER.path().join(name), if is_chosen { content } else { usual });
        written.expect("a file in memory");
    }
    look_at(FOLDER.path());
}

fn look_at(folder: &Path) {
    if let Some(run) = fencepost_report::runs::read(folder) {
        let _ = (run.file().map(|file| file.date()), run.judgement().is_some(), run.problem().is_some());
    }
    if let Ok(folder) = RunFolder::open(folder) {
        let _ = fencepost_report::judge(&folder);
    }
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
});

struct Ignored;

impl ClientEvents for Ignored {
    fn notice(&self, notice: Notice) {
        let _ = format!("{notice:?}");
    }

    fn gone(&self, _: &str, end: ClientEnd) {
        let _ = format!("{end:?}");
    }
}

fn client(input: &[u8]) {
    RUNTIME.block_on(async {
        let hello = Hello { client: "c1".to_owned(), ..Hello::default() };
        let (stdout, patience) = (Cursor::new(input.to_vec()), Duration::from_millis(20));
        let opened =
            ClientConnection::open(&hello, tokio::io::sink(), stdout, patience, Arc::new(Ignored)).await;
        let Ok(connection) = opened else { return };
        for f in ["acquire", "holds", "release"] {
            let command = Command {
                id: 0,
                process: 1,
                f: f.into(),
                key: "k0".into(),
                value: Default::default(),
                ttl_ms: None,
                timeout_ms: None,
            };
            let _ = connection.call(command, Duration::from_millis(2), None).await;
        }
        let _ = connection.unanswered();
    });
}

/// What somebody sends to `fencepost serve`, over one connection.
fn serve(input: &[u8]) {
    static RESULTS: LazyLock<()> = LazyLock::new(|| {
        let run = FOLDER.path().join("redlock-a");
        std::fs::create_dir_all(&run).expect("a folder in memory");
        let settings = include_bytes!("../../docs/examples/redlock-clock-jump/run.toml");
        std::fs::write(run.join("run.toml"), settings).expect("a file in memory");
        std::fs::write(run.join("history.jsonl"), include_bytes!("../corpus/histories/lock.jsonl"))
            .expect("a file in memory");
        std::os::unix::fs::symlink("/etc", run.join("outside")).expect("a link in memory");
    });
    LazyLock::force(&RESULTS);
    let answer = RUNTIME.block_on(fencepost::fuzzing::serve(FOLDER.path(), input));
    let answer = String::from_utf8_lossy(&answer);
    assert!(!answer.contains("root:x:0:0"), "a file outside of the folder was served");
    assert!(!answer.contains("500 Internal Server Error"), "{answer}");
}
