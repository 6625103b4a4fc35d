//! `fencepost explain`: walks through the proof of each violation of a run, event by event.

use crate::output::say;
use anyhow::{Context, Result};
use clap::Args;
use fencepost_checker::{RunIndex, check_index};
use fencepost_engine::refuse;
use fencepost_history::read_history;
use fencepost_history::run::RunFolder;
use fencepost_report::{Proof, proofs};
use std::path::PathBuf;

/// Which violation of which run.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The run's folder: results/latest, for instance.
    pub run: PathBuf,
    /// Explain only the violation with this number, as in the output without this option.
    #[arg(long, value_name = "N")]
    pub finding: Option<usize>,
}

/// Exit code 0, whatever the run shows. Errors: the run cannot be read, or lacks the violation.
pub fn explain(args: &ExplainArgs) -> Result<i32> {
    let history = RunFolder::open(&args.run)?.history();
    let events = read_history(&history)?;
    let run = RunIndex::new(&events).with_context(|| format!("{} is malformed", history.display()))?;
    let verdict = check_index(&run);
    let proofs = proofs(&run, &verdict);
    let count = proofs.len();
    if let Some(number) = args.finding.filter(|number| *number == 0 || *number > count) {
        refuse!("there is no finding {number} in {}: it has {count}", args.run.display());
    }
    if proofs.is_empty() {
        say!("{} shows no violation: there is nothing to explain", args.run.display());
    }
    for (at, proof) in proofs.iter().enumerate() {
        if args.finding.is_none_or(|number| number == at + 1) {
            say!("{}", text(at + 1, count, proof));
        }
    }
    Ok(0)
}

fn text(number: usize, count: usize, proof: &Proof) -> String {
    let mut text = format!("finding {number} of {count}: {}\n\n", proof.claim);
    for (at, step) in proof.steps.iter().enumerate() {
        text += &format!("  {}. {step}\n", at + 1);
    }
    if !proof.ledger.is_empty() {
        text += &format!("\nthe ledger of the grants\n{}", proof.ledger);
    }
    if !proof.whose.is_empty() {
        text += &format!("\nwhose  {}\n", proof.whose);
    }
    text
}
