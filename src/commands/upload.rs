//! `fencepost upload`: sends results to an object store.

use crate::exit::FAILED;
use crate::runtime::runtime;
use crate::store;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// What goes where.
#[derive(Debug, Args)]
pub struct UploadArgs {
    /// Folders of runs or of other results, or folders of such folders.
    #[arg(required = true, value_name = "FOLDER")]
    pub folders: Vec<PathBuf>,
    /// The object store: s3://BUCKET/PREFIX, gs://…, az://… or file:///FOLDER.
    #[arg(value_name = "STORE")]
    pub store: String,
}

/// Sends what is not there yet, each folder's marker last. The exit code is 255 if something was not sent.
pub fn upload(args: &UploadArgs) -> Result<i32> {
    match runtime()?.block_on(store::upload(&args.folders, &args.store))? {
        0 => Ok(0),
        _ => Ok(FAILED),
    }
}
