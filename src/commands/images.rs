//! `fencepost images`: the images that the nodes are made of.

use crate::output::say;
use anyhow::Result;
use clap::{Args, Subcommand};
use fencepost_cluster::{DriverOptions, image_store, images};
use fencepost_engine::BadUsage;

/// What to do with the images.
#[derive(Debug, Args)]
pub struct ImagesArgs {
    #[command(subcommand)]
    pub command: ImagesCommand,
}

#[derive(Debug, Subcommand)]
pub enum ImagesCommand {
    /// Make the images that are not there yet.
    Build {
        /// Names of images [default: all].
        names: Vec<String>,
    },
    /// List images and unpacked root file systems.
    List,
    /// Remove all images and root file systems of Fencepost.
    Remove,
}

pub async fn images(command: ImagesCommand) -> Result<i32> {
    match command {
        ImagesCommand::Build { names } => {
            for name in &names {
                images::find(name).map_err(|error| BadUsage::new(error.0))?;
            }
            image_store::build(&names, &DriverOptions::new()?).await?
        }
        ImagesCommand::Remove => image_store::remove(&fencepost_cluster::progress_to_stderr()).await?,
        ImagesCommand::List => {}
    }
    let made = image_store::list().await?;
    if made.is_empty() {
        say!("no images; a test makes the ones it needs, and `fencepost images build` makes all");
    }
    let width = made.iter().map(|each| each.name.len()).max().unwrap_or(0);
    for each in made {
        let note = match (each.current, each.kind) {
            (true, _) => "",
            (false, images::Kind::PreparedFolder) => "  (its folder is gone)",
            (false, _) => "  (of another version of Fencepost, or its folder is gone)",
        };
        let kind = match each.kind {
            images::Kind::EngineImage => "image",
            images::Kind::EngineImageWithProgram => "image with this program",
            images::Kind::RootFileSystem => "root file system",
            images::Kind::PreparedFolder => "prepared folder",
        };
        let megabytes = each.bytes as f64 / 1e6;
        say!("{:<width$} {kind:<23} {megabytes:>7.1} MB  {}{note}", each.name, each.place);
    }
    Ok(0)
}
