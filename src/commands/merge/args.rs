//! The options of `fencepost merge`.

use crate::commands::compare::ComparisonFiles;
use clap::Args;
use std::path::PathBuf;

/// Makes one result of the parts that `--shard` made: one report, one exit code. Merges can be merged again,
/// in any order.
///
/// Exit code: 2 if a part or a run is missing; otherwise that of the whole command.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Folders of parts, result folders or object stores that contain parts, or earlier merges.
    #[arg(required = true, value_name = "PART")]
    pub parts: Vec<PathBuf>,
    /// Folder of the result; it is made if it is missing.
    #[arg(long, value_name = "FOLDER")]
    pub out: PathBuf,
    #[command(flatten)]
    pub files: ComparisonFiles,
}
