//! `fencepost check`: is this history possible?

use crate::exit::{BAD_USAGE, FAILED};
use crate::output::{Output, complain, say};
use anyhow::Result;
use clap::Args;
use fencepost_checker::read::{
    ArrayLines, ColumnLines, Edn, JsonLines, Lines, ReadError, ReadOptions, looks_like_columns,
};
use fencepost_checker::{Algorithm, Budget, CheckOptions, KeyVerdict, ModelName, Outcome, check_lines};
use fencepost_engine::{check_range, refuse, refuse_option};
use fencepost_history::run::write_whole;
use fencepost_history::{decompressed, printable};
use serde::Serialize;
use std::fs::File;
use std::io::{Read, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is to be checked, and how.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Model of the object: mutex, owner-mutex, fenced-mutex, reentrant-mutex, shared-lock, lease-mutex,
    /// register or cas-register.
    #[arg(long)]
    pub model: ModelName,
    /// auto uses the model's own algorithm if it applies, and otherwise searches.
    #[arg(long, value_enum, default_value = "auto")]
    pub algorithm: AlgorithmArg,
    /// Print one JSON object for each file.
    #[arg(long)]
    pub json: bool,
    /// Explain each violation by a few operations that have no order.
    #[arg(long)]
    pub explain: bool,
    /// Print for each valid history an order of its operations.
    #[arg(long)]
    pub witness: bool,
    /// Draw the first violation as a picture.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Seconds after which the answer for a file is "unknown".
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    pub budget_s: f64,
    /// Memory for searching, past which the answer is "unknown".
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub memory_mb: usize,
    /// Values are [key value], as Jepsen's independent keys write them.
    #[arg(long)]
    pub independent: bool,
    /// Operations to leave out, separated by commas.
    #[arg(long, value_delimiter = ',', value_name = "F")]
    pub skip: Vec<String>,
    /// Names of operations in the file and in the model, separated by commas: get=read,put=write.
    #[arg(long, value_delimiter = ',', value_name = "FILE=MODEL", value_parser = pair)]
    pub rename: Vec<(String, String)>,
    /// Names of fields of values in the model and in the file: token=fence.
    #[arg(long, value_delimiter = ',', value_name = "MODEL=FILE", value_parser = pair)]
    pub field: Vec<(String, String)>,
    /// JSON value that a register or cas-register starts with [default: null].
    #[arg(long, value_name = "VALUE")]
    pub initial: Option<String>,
    /// Histories: .jsonl, .json, .edn, or Jepsen's history.txt or jepsen.log, plain or compressed (.gz,
    /// .zst); - for standard input.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum AlgorithmArg {
    Auto,
    FastPath,
    Search,
}

#[derive(Serialize)]
struct FileVerdict<'a> {
    file: &'a str,
    model: &'a str,
    outcome: Outcome,
    operations: usize,
    ms: f64,
    keys: Vec<KeyVerdict>,
}

/// In seconds, up to a year. docs/running.md has the ranges, too.
const BUDGET: RangeInclusive<f64> = 0.001..=31_536_000.0;

const MEMORY: RangeInclusive<usize> = 1..=1 << 20;

/// Keys of a file that are explained at most.
const EXPLAINED_MAX: usize = 3;

/// Checks all files. Exit code: 0 valid, 1 a violation, 2 unknown or vacuous, 254 no history.
pub fn check(args: &CheckArgs) -> Result<i32> {
    check_range("--budget-s", args.budget_s, &BUDGET)?;
    check_range("--memory-mb", args.memory_mb, &MEMORY)?;
    if let Some(initial) = &args.initial {
        check_initial(args.model, initial)?;
    }
    let mut worst = Outcome::Valid;
    let (mut refused, mut unwritten) = (false, None);
    let mut svg = args.svg.as_deref();
    for file in &args.files {
        let name = file.display().to_string();
        match check_file(args, file, svg.is_some()) {
            Ok(verdict) => {
                worst = worst.max(verdict.outcome);
                print(args, &verdict)?;
                let evidence = verdict.keys.iter().find_map(|key| key.evidence.as_ref());
                if let (Some(path), Some(evidence)) = (svg, evidence) {
                    let drawn = write_whole(path, fencepost_report::conflict(evidence).as_bytes());
                    unwritten = drawn.err();
                    svg = None;
                }
            }
            Err(error) => {
                refused = true;
                Output.flush()?;
                // "FILE, line 3: …", as compilers say it.
                match error.downcast_ref() {
                    Some(ReadError::Malformed { line, reason }) => {
                        complain!("fencepost: {name}, line {line}: {}", printable(reason))
                    }
                    _ => complain!("fencepost: {name}: {error:#}"),
                }
            }
        }
    }
    let code = if refused { BAD_USAGE } else { i32::from(worst.exit_code()) };
    Ok(match unwritten {
        Some(error) => {
            complain!("fencepost: the answers above are right, but the picture is not written: {error}");
            if code == 0 { FAILED } else { code }
        }
        None => code,
    })
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((one, other)) if !one.is_empty() && !other.is_empty() => Ok((one.to_owned(), other.to_owned())),
        _ => Err(format!("{text:?} is not NAME=NAME")),
    }
}

fn check_initial(model: ModelName, initial: &str) -> Result<()> {
    if !matches!(model, ModelName::Register | ModelName::CasRegister) {
        let model = model.name();
        refuse_option!("initial", "--initial is for register and cas-register, and the model is {model}");
    }
    if serde_json::from_str::<serde_json::Value>(initial).is_err() {
        refuse!("invalid --initial {initial:?}: expected JSON, such as 0, null or '\"text\"'");
    }
    Ok(())
}

fn check_file<'a>(args: &'a CheckArgs, file: &'a Path, draw: bool) -> Result<FileVerdict<'a>> {
    let began = Instant::now();
    let time = Duration::from_secs_f64(args.budget_s);
    let reading = ReadOptions {
        independent: args.independent,
        skip: args.skip.clone(),
        rename: args.rename.clone(),
        fields: args.field.clone(),
        initial: args.initial.clone(),
    };
    fencepost_report::prepare_threads();
    // Keys are judged at the same time, and share the memory.
    let memory_bytes = (args.memory_mb << 20) / rayon::current_num_threads().max(1);
    let options = CheckOptions {
        algorithm: match args.algorithm {
            AlgorithmArg::Auto => Algorithm::Auto,
            AlgorithmArg::FastPath => Algorithm::FastPath,
            AlgorithmArg::Search => Algorithm::Search,
        },
        budget: Budget::new(time, memory_bytes),
        evidence: args.explain || args.json || draw,
        witness: args.witness,
    };
    let mut lines = open(file)?;
    let mut keys = check_lines(args.model, &mut *lines, &reading, &options)?;
    let operations: usize = keys.iter().map(|key| key.operations).sum();
    // Nothing was judged where no operation of any key succeeded.
    let judged = keys.iter().map(|key| key.outcome).filter(|outcome| *outcome != Outcome::Vacuous);
    let outcome = judged.max().filter(|_| operations > 0);
    let outcome = outcome.unwrap_or(Outcome::Vacuous);
    keys.retain(|key| args.witness || key.outcome != Outcome::Valid);
    let ms = began.elapsed().as_secs_f64() * 1e3;
    let file = file.to_str().unwrap_or("(a name that is not UTF-8)");
    Ok(FileVerdict {
        file,
        model: args.model.name(),
        outcome,
        operations,
        ms: (ms * 1e3).round() / 1e3,
        keys,
    })
}

fn open(file: &Path) -> Result<Box<dyn Lines>> {
    let raw: Box<dyn Read> =
        if file == Path::new("-") { Box::new(std::io::stdin()) } else { Box::new(File::open(file)?) };
    let mut text = decompressed(raw)?;
    let name = file.to_string_lossy();
    let name = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
    let edn = name.ends_with(".edn") || !name.ends_with(".jsonl") && looks_like_edn(text.fill_buf()?);
    let is_array = is_json_array(text.fill_buf()?);
    if looks_like_columns(text.fill_buf()?) {
        return Ok(Box::new(Edn::new(ColumnLines::new(text))));
    }
    Ok(match edn && !is_array {
        true => Box::new(Edn::new(text)),
        false if is_array => Box::new(JsonLines::new(ArrayLines::new(text))),
        false => Box::new(JsonLines::new(text)),
    })
}

/// An array of JSON objects begins with `[{"`, or is empty.
fn is_json_array(text: &[u8]) -> bool {
    let signs: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).take(3).collect();
    signs.starts_with(b"[{\"") || signs == b"[]"
}

/// JSON lines begin with `{"`; EDN with anything else.
fn looks_like_edn(text: &[u8]) -> bool {
    let mut bytes = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    match (bytes.next(), bytes.next()) {
        (Some(b'{'), second) => second == Some(&b':'),
        (first, _) => matches!(first, Some(b'[' | b'(' | b';' | b'#')),
    }
}

fn print(args: &CheckArgs, verdict: &FileVerdict) -> Result<()> {
    if args.json {
        serde_json::to_writer(Output, verdict)?;
        writeln!(Output)?;
        return Ok(());
    }
    let FileVerdict { file, outcome, operations, ms, .. } = verdict;
    say!("{file}  {outcome}  {operations} operations  {ms:.1} ms");
    let mut explained = 0;
    for key in &verdict.keys {
        let of_key = key.key.as_ref().map_or(String::new(), |key| format!("key {}: ", printable(key)));
        match (key.outcome, &key.evidence) {
            (Outcome::Violation, Some(evidence)) if args.explain => {
                explained += 1;
                if explained <= EXPLAINED_MAX {
                    say!("\n{of_key}{evidence}");
                }
            }
            (Outcome::Unknown, _) => {
                complain!("fencepost: {file}: {of_key}{}", key.reason.as_deref().unwrap_or("no reason"));
            }
            _ => {}
        }
        for (at, step) in key.witness.iter().flatten().enumerate() {
            let unseen = if step.indeterminate { " (its end was not observed)" } else { "" };
            say!("  {of_key}{}  process {}: {}{unseen}", at + 1, step.process, step.operation);
        }
    }
    if explained > EXPLAINED_MAX {
        say!("and {} more keys with violations\n", explained - EXPLAINED_MAX);
    }
    Ok(())
}
