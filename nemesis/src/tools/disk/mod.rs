//! A disk that loses its power on command, runs full, and gets slow: a FUSE file system over a folder.
//!
//! What is written stays in memory until an fsync makes it durable, and a crash drops everything else, as a
//! power cut does. `docs/disks.md` says what is modelled and what is not. All functions block.

mod content;
mod mount;
mod shared;
mod tree;
mod volume;

pub use content::Torn;
pub use shared::{DiskCallKind, Failing};
pub use volume::Lost;

use chacha20::ChaCha8Rng;
use fuser::{BackgroundSession, Config, INodeNo, MountOption, SessionACL};
use mount::Fuse;
use nix::mount::MntFlags;
use parking_lot::{Mutex, MutexGuard};
use rand::SeedableRng;
use serde::{Deserialize, Serialize};
use shared::{CallErrors, Delay, Delays, Lies, Shared};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tree::{InodeNumber, ROOT};
use volume::{Kind, Meta, Quota, Volume};

/// Threads that serve the kernel: a slow read must not hold up a write.
const THREADS: usize = 4;

/// A mounted disk. Dropping it unmounts it, and what was on it is gone.
pub struct Disk {
    shared: Arc<Shared>,
    folder: PathBuf,
    session: Option<BackgroundSession>,
}

/// How long the disk takes for each request, beyond what it takes anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Slow {
    /// For each read that the page cache does not answer, in milliseconds.
    pub read_ms: u64,
    /// For each write, in milliseconds.
    pub write_ms: u64,
    /// For each fsync of a file or folder, in milliseconds.
    pub fsync_ms: u64,
}

/// How many calls a full, slow or failing disk held up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounts {
    /// Calls refused with ENOSPC.
    pub refused: u64,
    /// Reads, writes and fsyncs that had to wait.
    pub delayed: u64,
    /// Calls that failed with EIO, and writes that were lost.
    #[serde(default)]
    pub failed: u64,
}

/// What a small file on the disk meets that is written, fsynced and read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskProbe {
    pub full: bool,
    /// EIO, or what was written is not there.
    #[serde(default)]
    pub failed: bool,
    /// How long write, fsync and read took together, in milliseconds.
    pub ms: f64,
}

impl Disk {
    /// Mounts a disk over the folder, with its content. Needs the right to mount, and `/dev/fuse`.
    pub fn mount(folder: &Path) -> io::Result<Disk> {
        let beneath = File::open(folder)?;
        // Once the disk is mounted, this is the way to what lies beneath it.
        let backing = PathBuf::from(format!("/proc/self/fd/{}", beneath.as_raw_fd()));
        let mut volume = Volume::new(backing, meta(&beneath.metadata()?)?);
        copy_in(&mut volume, folder, ROOT)?;
        volume.sync_all().map_err(real)?;
        let shared = Shared {
            volume: Mutex::new(volume),
            delays: Delays::default(),
            lies: Lies::default(),
            errors: Mutex::default(),
            beneath,
        };
        let shared = Arc::new(shared);
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName("fencepost-disk".to_owned()), MountOption::DefaultPermissions];
        // Servers may run as users of their own.
        config.acl = SessionACL::All;
        config.n_threads = Some(THREADS);
        // A queue for each thread.
        config.clone_fd = true;
        let session = fuser::spawn_mount(Fuse::new(shared.clone()), folder, &config)?;
        Ok(Disk { shared, folder: folder.to_owned(), session: Some(session) })
    }

    /// Loses the power: drops what was not fsynced, but for what `torn` lets through, drawn from the seed.
    /// First kill the server, and await its end: a process with an open file gets ESTALE from then on.
    pub fn crash(&self, torn: Option<Torn>, seed: u64) -> io::Result<Lost> {
        self.volume().crash(torn, &mut ChaCha8Rng::seed_from_u64(seed))
    }

    /// Turns so many bits of what is stored in files whose path contains `path`, in pages that are not all
    /// zeros, drawn from the seed. Gives each place. To be called after a crash, when no file is open.
    pub fn flip(&self, bits: u32, path: &str, seed: u64) -> io::Result<Vec<String>> {
        self.volume().flip(bits, path, &mut ChaCha8Rng::seed_from_u64(seed)).map_err(real)
    }

    /// Lets files grow by so many bytes; then writes (with `copy_on_write` all of them) fail with ENOSPC.
    pub fn fill(&self, bytes_left: u64, copy_on_write: bool) {
        self.volume().quota = Quota { left: Some(bytes_left), copy_on_write, refused: 0 };
    }

    /// Makes the disk slow, or with the default as fast as it is.
    pub fn slow(&self, slow: Slow) {
        let Delays { read, write, sync } = &self.shared.delays;
        for (delay, ms) in [(read, slow.read_ms), (write, slow.write_ms), (sync, slow.fsync_ms)] {
            delay.ms.store(ms, Ordering::Relaxed);
        }
    }

    /// Lets each fsync from now on say yes and keep nothing, or no longer. Gives how many did.
    pub fn lie(&self, lies: bool) -> u64 {
        self.shared.lies.lying.store(lies, Ordering::Relaxed);
        self.shared.lies.lied.swap(0, Ordering::Relaxed)
    }

    /// Lets calls fail, counted anew. If reads are to fail, the kernel forgets its cache, which would answer.
    pub fn fail(&self, failing: Failing) {
        let reads = failing.call == DiskCallKind::Read;
        *self.shared.errors.lock() = CallErrors { failing: Some(failing), ..CallErrors::default() };
        let Some(session) = self.session.as_ref().filter(|_| reads) else { return };
        let (files, kernel) = (self.volume().files(), session.notifier());
        for file in files {
            // An error only says that the kernel does not know the file.
            let _ = kernel.inval_inode(INodeNo(file), 0, 0);
        }
    }

    /// Neither full nor slow any more, and without errors; counts the calls that were held up while it was.
    pub fn heal(&self) -> DiskCounts {
        let counts = self.counts();
        self.volume().quota = Quota::default();
        self.slow(Slow::default());
        self.shared.errors.lock().failing = None;
        counts
    }

    /// The calls that were held up since this was last called.
    pub fn counts(&self) -> DiskCounts {
        let refused = std::mem::take(&mut self.volume().quota.refused);
        let Delays { read, write, sync } = &self.shared.delays;
        let waited = |delay: &Delay| delay.waited.swap(0, Ordering::Relaxed);
        let failed = std::mem::take(&mut self.shared.errors.lock().failed);
        DiskCounts { refused, delayed: waited(read) + waited(write) + waited(sync), failed }
    }

    /// Looks what the disk does to somebody who writes so many bytes, and reads them past the kernel's cache.
    pub fn probe(&self, bytes: usize) -> io::Result<DiskProbe> {
        let path = self.folder.join(".fencepost-probe");
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true).custom_flags(nix::libc::O_DIRECT);
        let mut file = options.open(&path)?;
        // Without a name its fsync makes nothing else durable.
        fs::remove_file(&path)?;
        let begun = Instant::now();
        let (data, mut found) = (vec![1; bytes], vec![0; bytes]);
        let written = file.write_all(&data).and_then(|()| file.sync_data());
        let read = written.and_then(|()| file.read_exact_at(&mut found, 0));
        let ms = begun.elapsed().as_secs_f64() * 1000.0;
        match read {
            Ok(()) => Ok(DiskProbe { full: false, failed: found != data, ms }),
            Err(error) => {
                let full = error.kind() == io::ErrorKind::StorageFull;
                let failed = error.raw_os_error() == Some(nix::libc::EIO);
                if full || failed { Ok(DiskProbe { full, failed, ms }) } else { Err(error) }
            }
        }
    }

    /// Bytes that were written since the mount or the last crash.
    pub fn written(&self) -> u64 {
        self.volume().written()
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn volume(&self) -> MutexGuard<'_, Volume> {
        self.shared.volume.lock()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Detached: works while a file is still open. An error means that it is unmounted already.
        let _ = nix::mount::umount2(&self.folder, MntFlags::MNT_DETACH);
        drop(self.session.take());
    }
}

fn meta(found: &fs::Metadata) -> io::Result<Meta> {
    Ok(Meta {
        permissions: (found.mode() & 0o7777) as u16,
        user: found.uid(),
        group: found.gid(),
        accessed: found.accessed()?,
        modified: found.modified()?,
        changed: found.modified()?,
    })
}

fn real(error: fuser::Errno) -> io::Error {
    io::Error::from_raw_os_error(error.into())
}

fn copy_in(volume: &mut Volume, from: &Path, into: InodeNumber) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, found) = (entry.path(), entry.metadata()?);
        let kind = if found.is_dir() {
            Kind::Folder
        } else if found.is_symlink() {
            Kind::Link(fs::read_link(&path)?)
        } else if found.is_file() {
            Kind::File(volume.copied(&path)?)
        } else {
            continue;
        };
        let number = volume.create(into, &entry.file_name(), kind, meta(&found)?).map_err(real)?;
        // The kernel has not heard of it.
        volume.forget(number, 1);
        if found.is_dir() {
            copy_in(volume, &path, number)?;
        }
    }
    Ok(())
}
