//! Debian's packages: from a suite that is named, with its updates, whatever this machine's own system is.
//!
//! ```text
//! settings.rs (mirror) ─► lists.rs ─► apt.rs (checks lists, resolves packages; in base.rs) ─► store.rs ─► unpack.rs ─► a root
//!                              └───────────── download.rs (pace.rs) ───────────────────────────┘
//! ```
//!
//! Fencepost downloads everything by itself; apt sees files alone. So proxies, certificates, retries and
//! progress are the same for all, and what was downloaded once is there for all images.

mod apt;
mod base;
mod download;
mod inside;
mod lists;
mod pace;
mod root;
mod settings;
mod store;
mod suite;
#[cfg(test)]
mod tests;
mod unpack;
mod users;

pub(crate) use root::make;
pub use settings::{DownloadSettings, MIRROR};
pub(crate) use suite::architecture;
pub use suite::{DEFAULT_SUITE, SUITES, Suite};

/// What tests of downloads with a real mirror put together in another way than [`download`] does.
pub(crate) mod for_tests {
    pub use super::Downloads;
    pub use super::download::{Downloader, Limits};
    pub use super::settings::Mirror;
    pub use super::store::Store;
    pub use super::suite::{Archive, architecture};
}

use crate::{ClusterError, Progress, cache, file_lock};
use apt::{Apt, Runner};
use download::{Downloader, Failure, Limits};
use settings::Mirror;
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Store;

pub(crate) const FOLDER: &str = "debian";

const LISTS_AGE_MAX: Duration = Duration::from_secs(3600);

pub(crate) fn mirror_in_use(settings: &DownloadSettings) -> Result<String, ClusterError> {
    Mirror::find(settings).map(|mirror| mirror.name(suite::Archive::Main).to_owned())
}

/// Downloads packages with all that they need, and gives their files. One caller at a time.
async fn download(
    suite: Suite,
    packages: &[&str],
    settings: &DownloadSettings,
    progress: &Progress,
) -> Result<Vec<PathBuf>, ClusterError> {
    let all = cache::folder()?.join(FOLDER);
    let _alone = file_lock::lock_blocking(all.with_extension("lock")).await?;
    let downloads = Downloads {
        mirror: Mirror::find(settings)?,
        downloader: Downloader::new(settings, Limits::default())?,
        store: Store::open(all.join("store"))?,
        old_lists: settings.old_lists,
        all,
        progress,
    };
    downloads.packages(suite, packages).await
}

/// What all steps of a download share.
pub struct Downloads<'a> {
    pub all: PathBuf,
    pub mirror: Mirror,
    pub downloader: Downloader,
    pub store: Store,
    pub old_lists: bool,
    pub progress: &'a Progress,
}

impl Downloads<'_> {
    pub async fn packages(&self, suite: Suite, packages: &[&str]) -> Result<Vec<PathBuf>, ClusterError> {
        let apt = self.apt(suite).await?;
        let is_new = self.refresh(&apt, suite, LISTS_AGE_MAX).await?;
        match self.fetch(&apt, packages).await {
            // The mirror has newer packages than its lists of an hour ago say.
            Err(Fetching::Failed(Failure::Missing(_))) if !is_new => {
                self.refresh(&apt, suite, Duration::ZERO).await?;
                Ok(self.fetch(&apt, packages).await?)
            }
            fetched => Ok(fetched?),
        }
    }

    async fn fetch(&self, apt: &Apt, packages: &[&str]) -> Result<Vec<PathBuf>, Fetching> {
        let files = apt.resolve(packages, &self.mirror).await.map_err(Fetching::Refused)?;
        self.store.fetch(&self.downloader, &files, self.progress).await.map_err(Fetching::Failed)
    }

    pub async fn apt(&self, suite: Suite) -> Result<Apt, ClusterError> {
        let make = || base::make(&self.all, &self.mirror, &self.downloader, &self.store, self.progress);
        let made = match make().await {
            // A mirror that changes just now may say so of one file, once.
            Err(Failure::Missing(_)) => make().await,
            made => made,
        };
        let runner = match made {
            Ok(root) => Runner::Base(root),
            Err(Failure::Missing(reason)) if Path::new("/usr/bin/apt-get").exists() => {
                (self.progress)(&format!("this machine's own apt resolves the packages ({reason})"));
                Runner::Machine
            }
            Err(Failure::Missing(reason)) => {
                return Err(ClusterError::new(format!(
                    "{reason}: the mirror no longer has a package that this version of Fencepost begins with; use a newer Fencepost, or \
                     set {MIRROR} to a snapshot of the archive"
                )));
            }
            Err(failure) => return Err(failure.into()),
        };
        Apt::open(runner, &self.all, suite, self.old_lists || self.mirror.is_snapshot())
    }

    /// Brings lists no older than this, and says if they are new; former ones if the mirror is silent.
    pub async fn refresh(&self, apt: &Apt, suite: Suite, age_max: Duration) -> Result<bool, ClusterError> {
        if apt.age(&self.mirror).is_some_and(|age| age < age_max) {
            return Ok(false);
        }
        (self.progress)(&format!("downloading the lists of Debian's packages ({suite})"));
        match self.download_lists(apt, suite).await {
            Ok(()) => apt.update(&self.mirror).await.map(|()| true),
            Err(Fetching::Failed(Failure::Unreachable(reason))) if apt.age_of_any().is_some() => {
                (self.progress)(&format!("the lists of packages of an earlier run are used: {reason}"));
                Ok(false)
            }
            Err(fetching) => Err(fetching.into()),
        }
    }

    /// Nothing that a signed list describes is downloaded before its signature was checked.
    async fn download_lists(&self, apt: &Apt, suite: Suite) -> Result<(), Fetching> {
        let releases = lists::releases(suite, &self.mirror, &self.downloader).await;
        let releases = releases.map_err(Fetching::Failed)?;
        apt.check(&releases, &self.mirror).await.map_err(Fetching::Refused)?;
        let downloaded = lists::download(&releases, &self.downloader, &apt.lists(), self.progress).await;
        downloaded.map_err(Fetching::Failed)
    }
}

enum Fetching {
    Refused(ClusterError),
    Failed(Failure),
}

impl From<Fetching> for ClusterError {
    fn from(fetching: Fetching) -> ClusterError {
        match fetching {
            Fetching::Refused(error) => error,
            Fetching::Failed(failure) => failure.into(),
        }
    }
}
