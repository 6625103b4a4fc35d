//! What was downloaded, by the hash of its content: shared by all suites, images and users' locks.

use super::download::{Downloader, Failure, RemoteFile, cannot_store};
use crate::Progress;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const AT_ONCE: usize = 4;

const SAY_EVERY: Duration = Duration::from_secs(3);

/// A folder of whole files. What is still missing of one lies beside it, and is kept.
pub struct Store {
    folder: PathBuf,
}

impl Store {
    pub fn open(folder: PathBuf) -> Result<Store, Failure> {
        std::fs::create_dir_all(&folder).map_err(cannot_store(&folder))?;
        Ok(Store { folder })
    }

    /// All these files, in their order; those that are missing are downloaded.
    pub(super) async fn fetch(
        &self,
        downloader: &Downloader,
        files: &[RemoteFile],
        progress: &Progress,
    ) -> Result<Vec<PathBuf>, Failure> {
        let missing: Vec<&RemoteFile> = files.iter().filter(|file| !self.has(file)).collect();
        let counter = DownloadCounter::of(&missing, progress);
        stream::iter(missing)
            .map(Ok)
            .try_for_each_concurrent(AT_ONCE, |file| self.bring(downloader, file, &counter))
            .await?;
        Ok(files.iter().map(|file| self.place(file)).collect())
    }

    async fn bring(
        &self,
        downloader: &Downloader,
        file: &RemoteFile,
        counter: &DownloadCounter<'_>,
    ) -> Result<(), Failure> {
        let place = self.place(file);
        let part = place.with_extension("part");
        let counted = AtomicU64::new(0);
        let count = |bytes: u64| counter.add(bytes.saturating_sub(counted.swap(bytes, Ordering::Relaxed)));
        downloader.file(file, &part, count).await?;
        std::fs::rename(&part, &place).map_err(cannot_store(&place))
    }

    /// A file that was renamed is whole, unless the machine lost its power just then.
    fn has(&self, file: &RemoteFile) -> bool {
        std::fs::metadata(self.place(file)).is_ok_and(|it| it.len() == file.bytes)
    }

    fn place(&self, file: &RemoteFile) -> PathBuf {
        self.folder.join(&file.hash)
    }

    /// Removes all but the file with this hash, and what there is of it.
    pub(super) fn keep_only(&self, hash: &str) {
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().starts_with(hash) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Forgets a file that turned out to be damaged: it is downloaded anew the next time.
    pub(super) fn forget(file: &Path) {
        let _ = std::fs::remove_file(file);
    }
}

struct DownloadCounter<'a> {
    all: u64,
    done: AtomicU64,
    said: Mutex<Instant>,
    progress: &'a Progress,
}

impl DownloadCounter<'_> {
    fn of<'a>(files: &[&RemoteFile], progress: &'a Progress) -> DownloadCounter<'a> {
        let all = files.iter().map(|file| file.bytes).sum();
        DownloadCounter { all, done: AtomicU64::new(0), said: Mutex::new(Instant::now()), progress }
    }

    fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let Ok(mut said) = self.said.lock() else { return };
        if said.elapsed() >= SAY_EVERY {
            *said = Instant::now();
            (self.progress)(&format!(
                "downloaded {} of {} MB",
                done / 1_000_000,
                self.all.div_ceil(1_000_000)
            ));
        }
    }
}
