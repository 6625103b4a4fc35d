//! What the report of a large run costs: `cargo bench --bench report`, as root, with `chromium` and
//! `chromedriver`. The program judges and draws a million events, and headless Chromium opens the page: how
//! long until something is seen, and how long a step of zooming takes. The worst measurement counts.

#[path = "../tests/all/common/browser.rs"]
mod browser;
#[path = "common/played.rs"]
mod played;
#[path = "../crates/report/src/synthetic.rs"]
mod synthetic;
#[path = "../tests/all/common/waiting.rs"]
#[allow(dead_code, reason = "tests wait for more than pages")]
mod waiting;

use browser::{in_browser, run, wait_until};
use fencepost_history::PHASE;
use played::play;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use synthetic::{SyntheticSize, redlock};

const PROGRAM: &str = env!("CARGO_BIN_EXE_fencepost");
const EVENTS: usize = 1_000_000;
const OPENINGS: usize = 5;
const ZOOM_STEPS: usize = 40;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_run(folder.path());
    written(folder.path());
    opened(&folder.path().join("report.html"));
}

fn write_run(folder: &Path) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples/redlock-clock-jump/run.toml");
    std::fs::copy(example, folder.join("run.toml")).expect("the settings of the example");
    std::fs::create_dir(folder.join("plots")).expect("a writable folder");
    let mut events =
        redlock(SyntheticSize { processes: 30, keys: 8, seconds: 1200, hold_ms: 10, unsure: 500 });
    assert!(events.len() >= EVENTS, "only {} events", events.len());
    // A run that ends in order closes; what is cut off here are the last sections before.
    let closing = events.iter().rposition(|event| event.f == PHASE).expect("a phase");
    let rest = events.split_off(closing);
    events.truncate(EVENTS - rest.len());
    let mut file =
        std::io::BufWriter::new(std::fs::File::create(folder.join("history.jsonl")).expect("a file"));
    for event in events.iter().chain(&rest) {
        serde_json::to_writer(&mut file, event).expect("a writable file");
        file.write_all(b"\n").expect("a writable file");
    }
}

fn written(folder: &Path) {
    let played = play(Command::new(PROGRAM).arg("analyze").arg(folder));
    assert_eq!(played.code, Some(1), "clocks jumped, and nothing was violated");
    let bytes = std::fs::metadata(folder.join("report.html")).expect("a report").len();
    let took_s = played.took.as_secs_f64();
    println!("history of {EVENTS} events: judged, report and plots written in {took_s:.2} s");
    println!("memory at most {} MiB, report.html {:.1} MB", played.most_memory_mib, bytes as f64 / 1e6);
}

fn opened(report: &Path) {
    in_browser(async |client| {
        let (mut paints, mut readies) = (Vec::new(), Vec::new());
        for _ in 0..OPENINGS {
            client.goto(&format!("file://{}", report.display())).await.expect("the page opens");
            let ready = "return !document.querySelector('.explorer').hidden";
            wait_until(client, ready).await;
            let paint = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? -1";
            wait_until(client, &format!("return (() => {{ {paint} }})() >= 0")).await;
            paints.push(run(client, paint).await.as_f64().expect("a time"));
            let drawn = "return performance.getEntriesByName('timeline-ready')[0].startTime";
            readies.push(run(client, drawn).await.as_f64().expect("a time"));
        }
        let mut steps = Vec::new();
        for step in 0..ZOOM_STEPS {
            // In, and out again; from the key to the frame after the one that shows it.
            let key = if step < ZOOM_STEPS / 2 { "+" } else { "-" };
            let script = format!(
                "const done = arguments[0], canvas = document.querySelector('canvas'), begun = performance.now();
                 canvas.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}'}}));
                 requestAnimationFrame(() => requestAnimationFrame(() => done(
                     [performance.now() - begun, Number(canvas.dataset.drawMs)])));"
            );
            let times = client.execute_async(&script, Vec::new()).await.expect("a zoom step");
            steps.push((times[0].as_f64().expect("a time"), times[1].as_f64().expect("a time")));
        }
        println!("first paint {} (of {OPENINGS} openings)", spread(&paints));
        println!("timeline drawn {}", spread(&readies));
        println!(
            "zoom step, until the frame after it {}",
            spread(&steps.iter().map(|step| step.0).collect::<Vec<_>>())
        );
        println!("zoom step, drawing alone {}", spread(&steps.iter().map(|step| step.1).collect::<Vec<_>>()));
    });
}

fn spread(ms: &[f64]) -> String {
    let mut sorted = ms.to_vec();
    sorted.sort_by(f64::total_cmp);
    format!("median {:.0} ms, most {:.0} ms", sorted[sorted.len() / 2], sorted[sorted.len() - 1])
}
