//! Limits how much goes on side by side, over all test programs on this machine that share the target folder:
//! under `cargo test` tests are threads of one process, under `cargo nextest` each is a process of its own.
//! So turns are locks on files, which the kernel releases however a test ends.

use std::fs::{File, TryLockError, create_dir_all};
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

/// Units of work that go on at once. Most runs wait most of the time; two cores have room for several.
pub const CAPACITY: usize = 10;

/// Runs under docker that go on at once: the engine miscounts when many containers come and go (see
/// CONTRIBUTING.md).
const DOCKER: usize = 3;

/// How much of the machine a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    pub units: usize,
    pub docker: bool,
}

impl Weight {
    /// A few servers that mostly wait.
    pub const LIGHT: Weight = Weight { units: 1, docker: false };
    /// Runs whose assertions compare times: with little beside them.
    pub const PRECISE: Weight = Weight { units: 3, docker: false };
    /// With nothing beside it.
    pub const ALONE: Weight = Weight { units: CAPACITY, docker: true };

    /// What a run of these arguments needs.
    pub fn of(args: &str) -> Weight {
        let docker = !args.contains("--driver local");
        let java = ["zookeeper", "hadoop"].iter().any(|name| args.contains(name));
        Weight { units: if java { 3 } else { 1 }, docker }
    }

    /// The larger of the two.
    pub fn or(self, other: Weight) -> Weight {
        let docker = self.docker || other.docker;
        let units = self.units.max(other.units);
        // Runs under docker wait for each other already. They are the longest chain, and must not wait behind
        // light ones, too.
        Weight { units: if docker && units < CAPACITY { units.min(2) } else { units }, docker }
    }
}

/// The right to use the machine, until it is dropped. A thread must not take a second one while it holds one.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "the locks last as long as the files are open")] Vec<File>);

impl Turn {
    /// Waits for it.
    pub fn take(weight: Weight) -> Turn {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("turns");
        create_dir_all(&folder).expect("a writable target folder");
        make_images(&folder);
        let mut held = Vec::new();
        if weight.docker {
            let count = if weight == Weight::ALONE { DOCKER } else { 1 };
            held.extend(take_of(&folder, "docker", DOCKER, count));
        }
        held.extend(take_of(&folder, "unit", CAPACITY, weight.units));
        Turn(held)
    }
}

/// Makes all images before the first run. While they are unpacked every program that writes waits for the
/// disk, and tests that compare times would fail. Whatever cannot be made is missed by the tests that need
/// it, which say so.
fn make_images(folder: &Path) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let lock = File::create(folder.join("images")).expect("a writable target folder");
        lock.lock().expect("a file system that knows locks");
        let made = super::fencepost(&["images", "build"]).output().expect("the program starts");
        eprintln!("{}", String::from_utf8_lossy(&made.stderr));
    });
}

/// Waits until it has taken so many of the locks of this kind. A heavy run keeps what it has taken while it
/// waits for the rest, or light ones would pass by it to the end. Only one run at a time does so: two that
/// took half each would both wait for ever.
fn take_of(folder: &Path, kind: &str, all: usize, count: usize) -> Vec<File> {
    let open = |name: String| File::create(folder.join(name)).expect("a writable target folder");
    let gate = open(format!("{kind}-gate"));
    if count > 1 {
        gate.lock().expect("a file system that knows locks");
    }
    let mut files: Vec<File> = (0..all).map(|number| open(format!("{kind}-{number}"))).collect();
    let mut taken = Vec::new();
    loop {
        let wanted = count - taken.len();
        taken.extend(files.extract_if(.., |file| is_free(file)).take(wanted));
        if taken.len() == count {
            return taken;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether it could be locked, which it then is.
fn is_free(file: &File) -> bool {
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => panic!("cannot lock a turn: {error}"),
    }
}
