//! Limits how much goes on side by side, over all test programs on this machine that share the target folder:
//! under `cargo test` tests are threads of one process, under `cargo nextest` each is a process of its own.
//! So turns are locks on files, which the kernel releases however a test ends.
//!
//! Scarce are nodes, each a tree of processes that wants its share of the cores, and runs of an engine. How
//! many of both go on at once depends on the cores, and a run begins only where the cores have time for it,
//! also beside other programs; so a pass on a small or busy machine is slow, and not different.

use super::waiting::await_turn;
use std::fs::{File, TryLockError, create_dir_all, read_to_string};
use std::path::Path;
use std::sync::{LazyLock, Once};
use std::thread::available_parallelism;

/// Nodes for each core. Most of them wait most of the time.
const NODES_PER_CORE: usize = 40;

/// Runs of an engine at once, at most: it miscounts when many containers come and go (docs/field-notes.md).
const ENGINE: usize = 3;

/// A server in Java needs as much as so many others.
const JAVA: usize = 4;

/// Threads for each core that want to run: where there are more, no run begins beside another one.
const RUNNABLE_PER_CORE: usize = 4;

/// Looks in a row that must find it so. A run needs the cores most when it begins, and one look may find all
/// of its threads waiting.
const LOOKS: usize = 4;

/// What there is on this machine.
static BUDGET: LazyLock<Weight> = LazyLock::new(|| {
    let cores = available_parallelism().map_or(1, usize::from);
    Weight { nodes: cores * NODES_PER_CORE, engine: cores.min(ENGINE) }
});

/// How much of the machine a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    pub nodes: usize,
    /// Runs in an engine.
    pub engine: usize,
}

impl Weight {
    /// The whole machine: with nothing beside it.
    pub fn alone() -> Weight {
        *BUDGET
    }

    /// What a call of the program with these arguments needs: for each run at once its servers, its clients
    /// and the storage.
    pub fn of(args: &[&str]) -> Weight {
        let value = |option: &str| {
            let at = args.iter().position(|arg| *arg == option)?;
            args.get(at + 1).copied()
        };
        let number = |option: &str| value(option).and_then(|value| value.parse::<usize>().ok());
        let checked = value("check");
        let lock = checked.or(value("--lock")).or(value("--locks")).unwrap_or("redlock");
        let servers = number("--nodes").unwrap_or_else(|| servers_of(lock));
        let clients = if checked.is_some() { 1 } else { number("--clients").unwrap_or(5) };
        let is_java = ["zookeeper", "hadoop", "chubby"].iter().any(|name| lock.starts_with(name));
        let of_one = servers * if is_java { JAVA } else { 1 } + clients + 1;
        // Each of the drivers is tried, where none is named.
        let engine = usize::from(value("--driver") != Some("local"));
        Weight { nodes: of_one * number("--jobs").unwrap_or(1), engine }
    }

    /// What three runs of this driver need, side by side.
    pub fn of_three(driver: &str) -> Weight {
        let one = Weight::of(&["test", "--driver", driver]);
        Weight { nodes: 3 * one.nodes, ..one }
    }

    pub fn uses_engine(self) -> bool {
        self.engine > 0
    }
}

/// How many servers a lock has: of one in a folder, as many as most locks.
fn servers_of(lock: &str) -> usize {
    let name = lock.split(['@', ',']).next().unwrap_or_default();
    let known = fencepost_locks::registry().iter().find(|known| known.name == name);
    known.map_or(3, |known| known.service.default_nodes())
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
        if weight.uses_engine() {
            held.extend(take_of(&folder, "engine", BUDGET.engine, weight.engine));
        }
        held.extend(take_of(&folder, "node", BUDGET.nodes, weight.nodes));
        Turn(held)
    }
}

/// Makes all images before the first run. While they are unpacked every program that writes waits for the
/// disk. Whatever cannot be made is missed by the tests that need it, which say so.
fn make_images(folder: &Path) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let lock = File::create(folder.join("images")).expect("a writable target folder");
        lock.lock().expect("a file system that knows locks");
        let made = super::fencepost(&["images", "build"]).output().expect("the program starts");
        eprintln!("{}", String::from_utf8_lossy(&made.stderr));
    });
}

/// Waits until it has taken so many of the locks of this kind; a run that needs more than there are takes
/// all. A run keeps what it has taken while it waits for the rest, or lighter ones would pass by it to the
/// end. Only one run at a time does so: two that took half each would both wait for ever.
fn take_of(folder: &Path, kind: &str, all: usize, count: usize) -> Vec<File> {
    let count = count.min(all);
    let open = |name: String| File::create(folder.join(name)).expect("a writable target folder");
    let gate = open(format!("{kind}-gate"));
    gate.lock().expect("a file system that knows locks");
    let mut files: Vec<File> = (0..all).map(|number| open(format!("{kind}-{number}"))).collect();
    let mut taken = Vec::new();
    let mut looks = 0;
    await_turn(|| {
        let wanted = count - taken.len();
        taken.extend(files.extract_if(.., |file| is_free(file)).take(wanted));
        looks = if has_time() || are_free(&files) { looks + 1 } else { 0 };
        taken.len() == count && looks >= LOOKS
    });
    taken
}

/// Whether the cores have time for another run.
fn has_time() -> bool {
    let cores = available_parallelism().map_or(1, usize::from);
    // As `0.20 0.18 0.12 1/80 11206`: of 80 threads, one wants to run.
    let loads = read_to_string("/proc/loadavg").unwrap_or_default();
    let runnable = loads.split([' ', '/']).nth(3).and_then(|count| count.parse::<usize>().ok());
    runnable.is_none_or(|count| count <= cores * RUNNABLE_PER_CORE)
}

/// Whether no run holds any of these.
fn are_free(files: &[File]) -> bool {
    files.iter().all(|file| is_free(file) && file.unlock().is_ok())
}

/// Whether it could be locked, which it then is.
fn is_free(file: &File) -> bool {
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(error)) => panic!("cannot lock a turn: {error}"),
    }
}

#[test]
fn a_run_needs_a_turn_for_each_of_its_nodes() {
    let of = |args: &str| Weight::of(&args.split_whitespace().collect::<Vec<_>>());
    assert_eq!(of("test --driver local"), Weight { nodes: 11, engine: 0 });
    assert_eq!(of("test --lock redis-single --clients 2"), Weight { nodes: 4, engine: 1 });
    assert_eq!(of("test --driver local --lock etcd --nodes 5 --clients 3"), Weight { nodes: 9, engine: 0 });
    assert_eq!(
        of("hunt --driver local --lock redis-single@valkey-8 --jobs 2"),
        Weight { nodes: 14, engine: 0 }
    );
    assert_eq!(of("test --driver local --lock zookeeper-sequential"), Weight { nodes: 18, engine: 0 });
    assert_eq!(of("lock check kits/python/example --driver local"), Weight { nodes: 5, engine: 0 });
}
