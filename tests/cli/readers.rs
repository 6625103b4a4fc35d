//! Every reader of what others wrote, given the fuzzer's corpus and hundreds of inputs made from it.
//! `tools/fuzz` makes millions, by night; this keeps its readers in order by day.

use fencepost_history::Seed;
use rand::RngExt;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

#[path = "../../fuzz/src/readers.rs"]
mod targets;

/// Inputs made from each file of the corpus.
const CHANGED: usize = 40;

/// The corpus of a reader: files of its own folder, and of the project.
fn corpus(reader: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = |folder: &str, ending: &str| -> Vec<PathBuf> {
        let listed = std::fs::read_dir(root.join(folder)).into_iter().flatten();
        let paths = listed.map(|entry| entry.expect("a readable folder").path());
        paths.filter(|path| path.is_file() && path.to_string_lossy().ends_with(ending)).collect()
    };
    let mut paths = files(&format!("fuzz/corpus/{reader}"), "");
    paths.extend(match reader {
        "edn" => files("fuzz/corpus/histories", ".edn"),
        "scenarios" => files("scenarios", ".toml"),
        "locks" => vec![root.join("kits/python/example/lock.toml")],
        "runs" => vec![root.join("docs/examples/redlock-clock-jump/run.toml")],
        _ => Vec::new(),
    });
    paths.sort();
    let read =
        |path: PathBuf| std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    paths.into_iter().map(read).collect()
}

#[test]
fn no_reader_panics_on_the_corpus_of_the_fuzzer_nor_on_what_is_made_of_it() {
    let mut random = Seed(7).stream("readers");
    for (name, read) in targets::READERS.iter().filter(|(name, _)| *name != "canary") {
        let corpus = corpus(name);
        assert!(!corpus.is_empty(), "the reader {name} has no corpus");
        for input in &corpus {
            read(input);
            for _ in 0..CHANGED {
                let mut input = input.clone();
                for _ in 0..random.random_range(1..=4) {
                    let at = random.random_range(0..input.len().max(1));
                    match random.random_range(0..3) {
                        0 => input.truncate(at),
                        1 => input.insert(at.min(input.len()), random.random()),
                        _ => input.iter_mut().skip(at).take(1).for_each(|byte| *byte = random.random()),
                    }
                }
                read(&input);
            }
        }
    }
}

#[test]
fn a_reader_that_fails_is_noticed() {
    let canary = targets::reader("canary").expect("it is there for this");
    assert!(catch_unwind(|| canary(b"fencepost")).is_err());
    canary(b"post");
}
