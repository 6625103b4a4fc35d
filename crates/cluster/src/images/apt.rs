//! Debian's packages by apt, in a folder of our own: this machine's lists, caches and installed packages are neither
//! used nor changed; only its sources and its settings for the network are.

use super::commands::run;
use crate::file_lock::{self, FileLock};
use crate::{ClusterError, Progress, cache};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;

/// How long downloaded lists of packages are good for.
const LISTS_AGE_MAX: Duration = Duration::from_secs(3600);

/// A private apt.
pub(super) struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// With lists of packages that are recent. The caller must hold the lock on the folder.
    pub(super) async fn open(folder: PathBuf, progress: &Progress) -> Result<Apt, ClusterError> {
        for name in ["state/lists/partial", "cache/archives/partial", "no-archives/partial"] {
            make_folder(&folder.join(name))?;
        }
        // To apt this is a machine on which nothing is installed: it names everything, down to libc.
        write(&folder.join("status"), "")?;
        let apt = Apt { folder };
        let updated = apt.folder.join("updated");
        let age =
            std::fs::metadata(&updated).and_then(|it| it.modified()).ok().and_then(|it| it.elapsed().ok());
        if age.is_none_or(|age| age > LISTS_AGE_MAX) {
            progress("downloading the lists of Debian's packages");
            // By default apt calls an update a success that could fetch nothing.
            let update = ["-o", "APT::Update::Error-Mode=any", "update"];
            run(apt.command().args(update), "download the lists of Debian's packages").await?;
            write(&updated, "")?;
        }
        Ok(apt)
    }

    /// Downloads these packages, and all that they need, and gives their files.
    pub(super) async fn download(&self, packages: &[&str]) -> Result<Vec<PathBuf>, ClusterError> {
        let what = "download Debian's packages";
        let install = ["--yes", "--no-install-recommends", "install"];
        let nowhere = format!("Dir::Cache::archives={}", self.folder.join("no-archives").display());
        let listed = run(
            self.command().args(["-o", &nowhere, "--print-uris"]).args(install).args(packages),
            "find out which of Debian's packages are needed",
        )
        .await?;
        run(self.command().arg("--download-only").args(install).args(packages), what).await?;
        let archives = self.folder.join("cache/archives");
        // 'address' file size hash
        let files = listed.lines().filter(|line| line.starts_with('\''));
        let files: Vec<PathBuf> =
            files.filter_map(|line| Some(archives.join(line.split_whitespace().nth(1)?))).collect();
        match files.iter().find(|file| !file.exists()) {
            Some(file) => {
                Err(ClusterError::new(format!("cannot {what}: apt did not leave {}", file.display())))
            }
            None => Ok(files),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("apt-get");
        for (name, path) in
            [("Dir::State", "state"), ("Dir::Cache", "cache"), ("Dir::State::status", "status")]
        {
            command.arg("-o").arg(format!("{name}={}", self.folder.join(path).display()));
        }
        // The user that apt would fetch as need not be able to look into the folder. And no phased updates: two
        // machines make the same image.
        let settings = ["APT::Sandbox::User=root", "APT::Get::Always-Include-Phased-Updates=true"];
        for setting in settings.iter().chain(&["Acquire::Retries=2", "APT::Color=false"]) {
            command.args(["-o", setting]);
        }
        command.arg("-q").env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8");
        command
    }
}

/// The folder that all images share, and its lock.
pub(super) async fn folder() -> Result<(PathBuf, FileLock), ClusterError> {
    let cache = cache::folder()?;
    Ok((cache.join("apt"), file_lock::lock_aside(cache.join("apt.lock")).await?))
}

pub(super) fn make_folder(path: &Path) -> Result<(), ClusterError> {
    std::fs::create_dir_all(path)
        .map_err(|error| ClusterError::new(format!("cannot make the folder {}: {error}", path.display())))
}

pub(super) fn write(path: &Path, text: &str) -> Result<(), ClusterError> {
    std::fs::write(path, text)
        .map_err(|error| ClusterError::new(format!("cannot write {}: {error}", path.display())))
}
