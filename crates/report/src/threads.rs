//! The threads that judge: as many as the machine gives (`ulimit`, `pids.max`), or the calling one.

use rayon::{ThreadBuilder, ThreadPoolBuilder};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// The address space that a thread reserves: its stack, and the memory that the allocator sets aside for it.
const OF_A_THREAD: u64 = 72 << 20;

/// Makes sure that threads can share work. Call it first: rayon ends the program if none can start.
pub fn prepare_threads() {
    static SHARED: OnceLock<bool> = OnceLock::new();
    // A thread that has threads to share with, or is one of them.
    if rayon::current_thread_index().is_some() || *SHARED.get_or_init(start_shared) {
        return;
    }
    // This thread becomes the only one of its own, for as long as it lives.
    if let Ok(alone) = ThreadPoolBuilder::new().num_threads(1).use_current_thread().build() {
        std::mem::forget(alone);
    }
}

fn start_shared() -> bool {
    let threads = start(wanted().min(affordable()));
    if threads.is_empty() {
        return false;
    }
    // A thread that runs already cannot be refused any more.
    let count = threads.len();
    let mut threads = threads.into_iter();
    let give_work = |work: ThreadBuilder| {
        let thread = threads.next().ok_or_else(|| std::io::Error::other("one thread too many"))?;
        thread.send(work).map_err(|_| std::io::Error::other("a thread ended before its work"))
    };
    ThreadPoolBuilder::new().num_threads(count).spawn_handler(give_work).build_global().is_ok()
}

/// As many threads as the machine has processors, or as the user says to the library.
fn wanted() -> usize {
    let named = std::env::var("RAYON_NUM_THREADS").ok().and_then(|text| text.parse().ok());
    let processors = || thread::available_parallelism().map_or(1, usize::from);
    named.filter(|count| *count > 0).unwrap_or_else(processors)
}

/// How many threads leave half of the address space that is left to what they do.
fn affordable() -> usize {
    // Without a limit, the word `unlimited` stands in the place of the number.
    let limit = field("/proc/self/limits", "Max address space");
    limit.map_or(usize::MAX, |limit| affordable_within(limit, address_space()))
}

fn affordable_within(limit: u64, used: u64) -> usize {
    usize::try_from(limit.saturating_sub(used) / 2 / OF_A_THREAD).unwrap_or(usize::MAX)
}

/// The address space of this process, in bytes; all there is where it cannot be known.
fn address_space() -> u64 {
    field("/proc/self/status", "VmSize:").map_or(u64::MAX, |kib| kib << 10)
}

fn field(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Starts threads that wait for their work, as many of these as the system allows.
fn start(count: usize) -> Vec<Sender<ThreadBuilder>> {
    let start = |_| {
        let (hand, take) = channel::<ThreadBuilder>();
        let wait = move || {
            if let Ok(work) = take.recv() {
                work.run();
            }
        };
        thread::Builder::new().name("judging".to_owned()).spawn(wait).ok().map(|_| hand)
    };
    (0..count).map_while(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;

    #[test]
    fn little_address_space_is_left_to_the_judgement() {
        let megabytes = |count: u64| count << 20;
        assert_eq!(affordable_within(megabytes(300), megabytes(200)), 0);
        assert_eq!(affordable_within(megabytes(1000), megabytes(100)), 6);
        assert_eq!(affordable_within(megabytes(100), megabytes(200)), 0);
        assert!(address_space() > megabytes(1) && address_space() < u64::MAX);
    }

    #[test]
    fn work_is_shared_out_from_any_thread() {
        let sum = || {
            prepare_threads();
            (0..1000_u64).into_par_iter().sum::<u64>()
        };
        let sums =
            thread::scope(|scope| [(); 4].map(|()| scope.spawn(sum)).map(|thread| thread.join().unwrap()));
        assert_eq!(sums, [499_500; 4]);
    }
}
