//! A mirror of Debian for other machines: Debian's own image names one, if the engine reaches a registry.

use super::containers::remove_container;
use super::engine::{Engine, failed};
use super::labels::{lock, of_making};
use crate::debian::architecture;
use crate::images::{self, Image};
use crate::{ClusterError, DownloadSettings, Progress};
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CreateContainerOptions, CreateImageOptionsBuilder, DownloadFromContainerOptionsBuilder,
};
use futures_util::{StreamExt, TryStreamExt};
use std::io::Read;
use std::time::Duration;

const REGISTRY: Duration = Duration::from_secs(15);

/// The settings, with a mirror where one is needed for this image and can be found.
pub(crate) async fn known(
    engine: &Engine,
    settings: &DownloadSettings,
    image: &Image,
    progress: &Progress,
) -> DownloadSettings {
    if !is_needed(settings, image) {
        return settings.clone();
    }
    match engine.sources_of_image(&format!("debian:{}-slim", image.suite.release()), progress).await {
        Ok(sources) => settings.with_sources(&sources),
        Err(error) => {
            log::debug!("no mirror of Debian is known from a registry: {error}");
            settings.clone()
        }
    }
}

/// The same, by the engine of this machine, if one answers.
pub(crate) async fn known_by_any(
    settings: &DownloadSettings,
    image: &Image,
    progress: &Progress,
) -> DownloadSettings {
    if is_needed(settings, image)
        && let Ok(engine) = Engine::connect().await
    {
        return known(&engine, settings, image, progress).await;
    }
    settings.clone()
}

fn is_needed(settings: &DownloadSettings, image: &Image) -> bool {
    !settings.knows_a_mirror() && !images::is_unpacked(image)
}

impl Engine {
    async fn sources_of_image(&self, image: &str, progress: &Progress) -> Result<String, ClusterError> {
        self.pull(image, ", which knows a mirror of Debian", progress).await?;
        let lock_name = "mirror.lock";
        let _alone = lock(lock_name).await?;
        let (image, labels) = (Some(image.to_owned()), Some(of_making(lock_name)?));
        // It is never started.
        let cmd = Some(vec!["true".to_owned()]);
        let body = ContainerCreateBody { image, labels, cmd, ..Default::default() };
        let created = self.docker.create_container(None::<CreateContainerOptions>, body).await;
        let container = created.map_err(failed("make a container"))?.id;
        let options = DownloadFromContainerOptionsBuilder::default().path("/etc/apt").build();
        let archive = self.docker.download_from_container(&container, Some(options));
        let archive = archive.try_fold(Vec::new(), |mut all, part| async move {
            all.extend_from_slice(&part);
            Ok(all)
        });
        let archive = archive.await;
        remove_container(&self.docker, &container).await;
        let archive = archive.map_err(failed("read the sources of Debian's image"))?;
        let mut sources = String::new();
        let cannot = |error: std::io::Error| ClusterError::new(error.to_string());
        for entry in tar::Archive::new(&archive[..]).entries().map_err(cannot)? {
            let mut entry = entry.map_err(cannot)?;
            let is_of_sources = entry.path().is_ok_and(|path| path.to_string_lossy().contains("sources"));
            if is_of_sources && entry.header().entry_type().is_file() {
                entry.read_to_string(&mut sources).map_err(cannot)?;
                sources.push('\n');
            }
        }
        Ok(sources)
    }

    /// The user's image, pulled where missing. Errors: it cannot be had, or is for another machine.
    pub(super) async fn of_user(&self, image: &str, progress: &Progress) -> Result<String, ClusterError> {
        self.pull(image, "", progress).await?;
        let failed = failed(format!("look at the image {image}"));
        let found = self.docker.inspect_image(image).await.map_err(failed)?;
        let own = architecture();
        match found.architecture.filter(|architecture| !architecture.is_empty() && architecture != own) {
            Some(other) => Err(ClusterError::new(format!(
                "the image {image} is for {other}, and this machine is {own}; pull the one for {own}"
            ))),
            None => Ok(found.id.unwrap_or_else(|| image.to_owned())),
        }
    }

    /// Pulls an image, unless it is there. `why` ends the line that says so.
    async fn pull(&self, image: &str, why: &str, progress: &Progress) -> Result<(), ClusterError> {
        if self.has(image).await? {
            return Ok(());
        }
        let options = CreateImageOptionsBuilder::default().from_image(image).build();
        let mut pull = Box::pin(self.docker.create_image(Some(options), None, None));
        let what = format!("pull {image}");
        // If no registry answers this must show at once; a slow one may take its time after its first word.
        let first = tokio::time::timeout(REGISTRY, pull.next()).await;
        let first = first.map_err(|_| format!("cannot {what}: no registry answers"))?;
        if let Some(first) = first {
            first.map_err(failed(&what))?;
        }
        progress(&format!("pulling {image}{why}"));
        pull.try_for_each(|_| async { Ok(()) }).await.map_err(failed(&what))
    }
}
