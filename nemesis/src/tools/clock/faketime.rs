//! The other way to move clocks: libfaketime, preloaded before the program starts, and a file that tells it
//! how far ahead it is to be. For programs that cannot bear a patched vDSO (a JVM), and for comparison.

use super::ClockError;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where Debian's package libfaketime puts it, and where others do. The one for programs with threads.
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// Of the node's own: neither its data, which a fault may crash, nor the image.
const FOLDER: &str = "/tmp/fencepost-clock";

/// Debian's Redis is linked to a jemalloc that asks for the time before libfaketime is ready: a deadlock.
/// This, in jemalloc's place, leaves the program the allocator of libc. Compiled by build.rs.
const NO_JEMALLOC: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libjemalloc.so.2"));

/// A node whose service has libfaketime in it.
#[derive(Debug)]
pub struct Faketime {
    /// The library's file, as its process has mapped it.
    pub library: PathBuf,
    file: PathBuf,
    written: Instant,
}

impl Faketime {
    /// Puts everything in place, with true clocks, and gives the environment for the service.
    pub fn prepare(monotonic: bool) -> Result<(Faketime, Vec<(String, String)>), ClockError> {
        let library = LIBRARIES.iter().map(Path::new).find(|path| path.exists());
        let library = library.ok_or(ClockError::Unsupported(
            "this node has no libfaketime, by which the clocks of its server are to be moved; install the Debian \
             package libfaketime, or use --clock-mechanism vdso",
        ))?;
        let folder = Path::new(FOLDER);
        let cannot = |source| ClockError::Faketime { path: FOLDER.into(), source };
        fs::create_dir_all(folder).map_err(cannot)?;
        fs::write(folder.join("libjemalloc.so.2"), NO_JEMALLOC).map_err(cannot)?;
        let file = folder.join("ahead");
        let mut faketime = Faketime { library: library.to_owned(), file, written: Instant::now() };
        faketime.set(0)?;
        let text = |path: &Path| path.display().to_string();
        let mut env = vec![
            ("LD_PRELOAD".to_owned(), text(library)),
            ("LD_LIBRARY_PATH".to_owned(), FOLDER.to_owned()),
            ("FAKETIME_TIMESTAMP_FILE".to_owned(), text(&faketime.file)),
            // It would look into the file every ten seconds.
            ("FAKETIME_NO_CACHE".to_owned(), "1".to_owned()),
            // Times of files are no clock.
            ("NO_FAKE_STAT".to_owned(), "1".to_owned()),
        ];
        if !monotonic {
            env.push(("FAKETIME_DONT_FAKE_MONOTONIC".to_owned(), "1".to_owned()));
        }
        Ok((faketime, env))
    }

    /// How long ago the clocks were set.
    pub fn age(&self) -> Duration {
        self.written.elapsed()
    }

    /// Puts the clocks that far ahead. By renaming, so that no reader sees half a number.
    pub fn set(&mut self, ahead_ns: i64) -> Result<(), ClockError> {
        let next = self.file.with_extension("next");
        let text = format!("{:+.9}\n", ahead_ns as f64 / 1e9);
        fs::write(&next, text)
            .and_then(|()| fs::rename(&next, &self.file))
            .map_err(|source| ClockError::Faketime { path: self.file.clone(), source })?;
        self.written = Instant::now();
        Ok(())
    }
}
