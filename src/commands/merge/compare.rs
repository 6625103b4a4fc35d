//! The parts of a comparison as one.

use super::args::MergeArgs;
use super::sources::Sources;
use crate::commands::compare::{SUBJECT, name_files, tell, write};
use crate::exit::FAILED;
use crate::output::complain;
use crate::unwritten::with_files;
use anyhow::{Context, Result};
use fencepost_report::comparison::{CellRecord, CompareCampaign, PlacedRecord, merged};

/// Writes the comparison, and gives its exit code.
pub fn merge(args: &MergeArgs, sources: &Sources) -> Result<i32> {
    let baseline = args.files.read_baseline()?;
    let file = &sources.union.file;
    let campaign: CompareCampaign =
        serde_json::from_value(file.campaign.clone()).context("the parts are of another version")?;
    let record = |run: u64| -> Result<Option<PlacedRecord>> {
        let Some(record) = sources.record(run)? else { return Ok(None) };
        let record: CellRecord = serde_json::from_str(record.value.get())
            .with_context(|| format!("the record of run {run} is damaged"))?;
        Ok(Some(PlacedRecord { record, runs_in: sources.runs_in(run) }))
    };
    let mut comparison = merged(&campaign, record)?;
    comparison.command.clone_from(&file.command);
    comparison.missing = sources.missing();
    let code = tell(&comparison, baseline.as_ref());
    let parts = sources.write(&args.out, |run| campaign.name(run));
    let code = write(&args.files, &comparison, Some(&args.out), code);
    let code = with_files(SUBJECT, [parts], code);
    name_files(&args.out);
    let failures: usize =
        comparison.rows.iter().flat_map(|row| &row.cells).map(|cell| cell.failures.len()).sum();
    if failures > 0 && code == 0 {
        complain!(
            "fencepost: runs that failed: {failures}; the same parts, made again where they were, try them again"
        );
        return Ok(FAILED);
    }
    Ok(code)
}
