//! What was made of images, in the container engine and in the cache: listing, making and removing it.

use crate::drivers::docker::{Engine, known_by_any};
use crate::drivers::local;
use crate::images::{self, ALL, Image, StoredItem};
use crate::{ClusterError, DriverOptions, Progress, Suite, cache, debian, program};
use std::path::Path;

/// Everything that was made, here and in the container engine.
pub async fn list() -> Result<Vec<StoredItem>, ClusterError> {
    let mut made = match Engine::connect().await {
        Ok(engine) => engine.list_images().await?,
        Err(error) => {
            log::debug!("{error}");
            Vec::new()
        }
    };
    made.extend(images::list_unpacked().await?);
    made.extend(local::list_prepared().await?);
    made.sort_by(|a, b| (&a.name, &a.place).cmp(&(&b.name, &b.place)));
    Ok(made)
}

/// Makes the images of these names (or all) for the engine that answers; else roots for the driver `local`.
pub async fn build(names: &[String], options: &DriverOptions) -> Result<(), ClusterError> {
    let wanted: Vec<&Image> = match names {
        [] => ALL.iter().collect(),
        names => names.iter().map(|name| images::find(name)).collect::<Result<_, _>>()?,
    };
    let engine = Engine::connect().await;
    let progress = &options.progress;
    for image in wanted {
        match &engine {
            Ok(engine) => {
                let tag = engine.image(image, options).await?;
                progress(&format!("the image {} is there: {tag}", image.name));
            }
            Err(_) => {
                let root = images::root_file_system(image, &options.downloads, progress).await?;
                progress(&format!("the root file system {} is there: {}", image.name, root.folder.display()));
            }
        }
    }
    Ok(())
}

/// A root file system with Debian packages in it, which stays as long as this lives.
#[derive(Debug)]
pub struct RootFileSystem(images::UnpackedRoot);

impl RootFileSystem {
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }
}

/// A root file system with these packages, for programs of this machine. Errors: they cannot be had.
pub async fn root_with(
    packages: &[&str],
    suite: Suite,
    options: &DriverOptions,
) -> Result<RootFileSystem, ClusterError> {
    let packages: Vec<String> = packages.iter().map(|name| (*name).to_owned()).collect();
    let image = Image::with_packages(&packages, suite);
    let downloads = known_by_any(&options.downloads, &image, &options.progress).await;
    images::root_file_system(&image, &downloads, &options.progress).await.map(RootFileSystem)
}

/// Removes all that was made, and its sources, unless in use. Errors: a `local` run uses a root.
pub async fn remove(progress: &Progress) -> Result<(), ClusterError> {
    let _unused = images::lock_unused()?;
    if let Ok(engine) = Engine::connect().await {
        engine.remove_images(progress).await?;
    }
    for name in ["rootfs", debian::FOLDER, "probes"] {
        let folder = cache::folder()?.join(name);
        if folder.exists() {
            progress(&format!("removing {}", folder.display()));
            images::remove_folder(&folder).await?;
        }
    }
    local::remove_prepared()?;
    program::remove_unused()
}
