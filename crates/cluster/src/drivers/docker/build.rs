//! Images in the engine: imported root file systems of Debian's packages, and a layer with this very program.

use super::archive::{TarArchive, add_file, archive, cannot_pack, packed};
use super::engine::{Engine, failed, has_status};
use super::labels::lock;
use super::mirror;
use crate::environment::source_is_gone;
use crate::images::{self, Image, Kind, StoredItem};
use crate::program::Program;
use crate::{ClusterError, DriverOptions, Progress};
use bollard::query_parameters::{
    BuildImageOptionsBuilder, CreateImageOptionsBuilder, ListImagesOptions, RemoveImageOptionsBuilder,
};
use futures_util::{StreamExt, TryStreamExt};
use std::path::Path;

pub(super) const REPOSITORY: &str = "fencepost";

impl Engine {
    /// The tag of the image; made now if missing, out of the root file system of the driver `local`.
    pub(crate) async fn image(&self, image: &Image, options: &DriverOptions) -> Result<String, ClusterError> {
        let repository = format!("{REPOSITORY}/{}", image.name);
        let tag = format!("{repository}:{}", image.hash());
        let make = async {
            let root = self.root(image, options).await?;
            let progress = &options.progress;
            progress(&format!("importing the image {} into the Docker engine", image.title()));
            self.import(&root.folder, &repository, &image.hash()).await
        };
        self.make_once(&tag, &format!("{}.lock", image.name), make).await?;
        Ok(tag)
    }

    /// Makes the image of this tag, unless it is there: under this lock, since others may make it as well.
    pub(super) async fn make_once(
        &self,
        tag: &str,
        lock_name: &str,
        make: impl Future<Output = Result<(), ClusterError>>,
    ) -> Result<(), ClusterError> {
        if self.has(tag).await? {
            return Ok(());
        }
        let _alone = lock(lock_name).await?;
        if self.has(tag).await? { Ok(()) } else { make.await }
    }

    pub(super) async fn root(
        &self,
        image: &Image,
        options: &DriverOptions,
    ) -> Result<images::UnpackedRoot, ClusterError> {
        let downloads = mirror::known(self, &options.downloads, image, &options.progress).await;
        images::root_file_system(image, &downloads, &options.progress).await
    }

    pub(super) async fn has(&self, tag: &str) -> Result<bool, ClusterError> {
        match self.docker.inspect_image(tag).await {
            Ok(_) => Ok(true),
            Err(error) if has_status(&error, 404) => Ok(false),
            Err(error) => Err(failed(format!("look for the image {tag}"))(error)),
        }
    }

    async fn import(&self, root: &Path, repository: &str, hash: &str) -> Result<(), ClusterError> {
        let failed = failed(format!("import {}", root.display()));
        // The tag in the name: Podman 4.3 ignores it anywhere else.
        let name = format!("{repository}:{hash}");
        let options = CreateImageOptionsBuilder::default().from_src("-").repo(&name).build();
        let imported = self.docker.create_image(
            Some(options),
            Some(bollard::body_try_stream(archive(root).map_ok(Into::into))),
            None,
        );
        imported.try_for_each(|_| async { Ok(()) }).await.map_err(failed)
    }

    /// The tag of the image with this program, made if missing; unused ones of its former builds are removed.
    pub(super) async fn layer(
        &self,
        base: &str,
        program: &Program,
        progress: &Progress,
    ) -> Result<String, ClusterError> {
        let tag = format!("{base}-{}", program.hash);
        let repository = base.split(':').next().unwrap_or(base);
        let name = repository.rsplit('/').next().unwrap_or(repository);
        let make = async {
            progress(&format!("adding this build of Fencepost to the image {repository}"));
            let mut context = tar::Builder::new(Vec::new());
            add_file(&mut context, "Dockerfile", &format!("FROM {base}\nCOPY fencepost /fencepost\n"))?;
            context.append_dir_all("fencepost", &program.folder).map_err(|error| cannot_pack(&error))?;
            self.build("Dockerfile", packed(context)?, &tag, |_| ()).await?;
            self.remove_former_layers(repository, program).await
        };
        self.make_once(&tag, &format!("{name}-layer.lock"), make).await?;
        Ok(tag)
    }

    pub(super) async fn build(
        &self,
        dockerfile: &str,
        context: TarArchive,
        tag: &str,
        mut print: impl FnMut(&str),
    ) -> Result<(), ClusterError> {
        let options =
            BuildImageOptionsBuilder::default().dockerfile(dockerfile).t(tag).rm(true).forcerm(true).build();
        let mut built = self.docker.build_image(
            options,
            None,
            Some(bollard::body_try_stream(context.map_ok(Into::into))),
        );
        while let Some(line) = built.next().await {
            let line = line.map_err(failed(format!("build the image {tag}")))?;
            print(&line.stream.unwrap_or_default());
        }
        Ok(())
    }

    /// Removes unused images of this source with another hash, and those of gone sources.
    pub(super) async fn remove_outdated(&self, source: &str, hash: &str) -> Result<(), ClusterError> {
        let mut outdated = self.list_images().await?;
        outdated.retain(|made| {
            let (repository, version) = made.place.split_once(':').unwrap_or_default();
            let of =
                repository.strip_prefix(REPOSITORY).and_then(|it| it.strip_prefix('/')).and_then(source_of);
            of.is_some_and(|of| source_is_gone(of) || (of == source && !version.starts_with(hash)))
        });
        // A layer holds on to what it lies on.
        outdated.sort_by_key(|made| made.kind != Kind::EngineImageWithProgram);
        for made in outdated {
            self.remove_image(&made.place).await?;
        }
        Ok(())
    }

    async fn remove_former_layers(&self, repository: &str, program: &Program) -> Result<(), ClusterError> {
        let former = self.list_images().await?.into_iter().filter(|made| {
            let (of, version) = made.place.split_once(':').unwrap_or_default();
            let hash = version.split_once('-').map(|(_, hash)| hash).unwrap_or_default();
            of == repository && made.kind == Kind::EngineImageWithProgram && program.is_former(hash)
        });
        for made in former {
            self.remove_image(&made.place).await?;
        }
        Ok(())
    }

    async fn remove_image(&self, tag: &str) -> Result<(), ClusterError> {
        let options = RemoveImageOptionsBuilder::default().build();
        let Err(error) = self.docker.remove_image(tag, Some(options), None).await else { return Ok(()) };
        if has_status(&error, 404) || has_status(&error, 409) {
            return Ok(());
        }
        // Another program that removes it at the same moment makes the engine fail with words of its own.
        match self.docker.inspect_image(tag).await {
            Err(gone) if has_status(&gone, 404) => Ok(()),
            _ => Err(failed(format!("remove the image {tag}"))(error)),
        }
    }

    pub(crate) async fn list_images(&self) -> Result<Vec<StoredItem>, ClusterError> {
        // All of the engine, and those of Fencepost are picked here: of several patterns Podman 4.3 lists
        // only what fits them all, and names that it completes by a registry fit no single one everywhere.
        let found =
            self.docker.list_images(None::<ListImagesOptions>).await.map_err(failed("list images"))?;
        let tags = found.into_iter().flat_map(|image| {
            let bytes = u64::try_from(image.size).unwrap_or(0);
            image.repo_tags.into_iter().map(move |tag| (tag, bytes))
        });
        let mut images: Vec<StoredItem> =
            tags.filter_map(|(tag, bytes)| describe(short(&tag), bytes)).collect();
        // One that bears two such names.
        images.sort_by(|a, b| a.place.cmp(&b.place));
        images.dedup_by(|a, b| a.place == b.place);
        Ok(images)
    }

    pub(crate) async fn remove_images(&self, progress: &Progress) -> Result<(), ClusterError> {
        let mut made = self.list_images().await?;
        // A layer holds on to what it lies on.
        made.sort_by_key(|made| made.kind != Kind::EngineImageWithProgram);
        for made in made {
            progress(&format!("removing the image {}", made.place));
            self.remove_image(&made.place).await?;
        }
        Ok(())
    }
}

/// What Podman puts in front of names that name no registry.
const REGISTRIES: [&str; 2] = ["docker.io/", "localhost/"];

fn short(tag: &str) -> &str {
    REGISTRIES.iter().find_map(|registry| tag.strip_prefix(registry)).unwrap_or(tag)
}

/// What an image is made of whose name is `lock-SOURCE`, or `base-SOURCE` for one of a Dockerfile.
fn source_of(name: &str) -> Option<&str> {
    name.strip_prefix("lock-").or(name.strip_prefix("base-"))
}

/// `fencepost/redis:HASH` or `fencepost/redis:HASH-PROGRAM`.
fn describe(tag: &str, bytes: u64) -> Option<StoredItem> {
    let (name, version) = tag.strip_prefix(REPOSITORY)?.strip_prefix('/')?.split_once(':')?;
    let hash = version.split('-').next()?;
    let kind = if version.contains('-') { Kind::EngineImageWithProgram } else { Kind::EngineImage };
    let source = source_of(name);
    let current = source.map_or_else(|| Image::is_current(name, hash), |source| !source_is_gone(source));
    let name = source.and_then(|source| source.rsplit_once('-')).map_or(name, |(name, _)| name).to_owned();
    Some(StoredItem { name, kind, place: tag.to_owned(), bytes, current })
}
