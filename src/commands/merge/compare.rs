//! The parts of a comparison as one.

use super::args::MergeArgs;
use crate::commands::compare::{SUBJECT, name_files, tell, write};
use crate::exit::FAILED;
use crate::output::complain;
use crate::unwritten::with_files;
use anyhow::Result;
use fencepost_campaign::compare;
use fencepost_campaign::parts::Sources;

pub fn merge(args: &MergeArgs, sources: &Sources) -> Result<i32> {
    let baseline = args.files.read_baseline()?;
    let (campaign, comparison) = compare::merge(sources)?;
    let code = tell(&comparison, baseline.as_ref(), &args.files);
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
