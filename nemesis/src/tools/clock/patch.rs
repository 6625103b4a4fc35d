//! Puts the stub into a process, sets it, takes it out, and asks the process what it sees.

use super::inject::BorrowedThread;
use super::processor::{self, jump};
use super::reach;
use super::stub::{self, Entry};
use super::threads::{Stopped, Thread, living, on_own_thread};
use super::vdso::{Mapping, Memory, Vdso};
use super::{ClockError, Observed, Skew, now_ns};
use nix::libc;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

/// A process whose clocks can be set. Dropping it leaves the patch, which [`install`] finds again. The patch
/// survives fork and is lost by exec; after an exec, or the end of the process, every call fails with
/// [`ClockError::Gone`], even if its number is another's. Two at a time must not set the same process.
#[derive(Debug)]
pub struct Patched {
    pid: i32,
    memory: Memory,
    vdso: u64,
    stub: u64,
}

/// Makes the clocks of a process settable, without changing what they show. A process that was patched
/// before, by this program or another, keeps its skew. Stops all threads for a moment (0.3 to 5 ms, or more).
pub fn install(pid: i32) -> Result<Patched, ClockError> {
    same_time_offset(pid)?;
    if let Some(patched) = Patched::find(pid)? {
        return Ok(patched);
    }
    with_all_stopped(pid, |stopped| {
        // Only now: before the stop the process might have been about to exec.
        let memory = Memory::open(pid)?;
        let vdso = vdso(pid, &memory)?;
        let entries = entries(pid, &vdso)?;
        let begins = entries.iter().map(|&(entry, _)| vdso.base + entry as u64);
        let within: Vec<Range<u64>> = begins.map(|at| at + 1..at + jump(0, 0).len() as u64).collect();
        if !stopped.leave(&within, &memory)? {
            return Ok(None);
        }
        // A stub that `remove` had to leave is the same code; any other was put there by something else.
        let at = vdso.find(stub::MAGIC, 16).unwrap_or_else(|| vdso.room());
        let mut stub = stub::bytes().to_vec();
        match vdso.image.get(at..at + stub.len()) {
            None => return Err(ClockError::NotPatchable { pid, why: "its vDSO has no room" }),
            Some(there)
                if there.iter().all(|&byte| byte == 0) || there[stub::CODE..] == stub[stub::CODE..] => {}
            Some(_) => return Err(ClockError::NotPatchable { pid, why: "another program has patched it" }),
        }
        for ((entry, _), record) in entries.iter().zip(stub[stub::ORIGINALS].chunks_exact_mut(16)) {
            record[..8].copy_from_slice(&(*entry as u64).to_le_bytes());
            record[8..].copy_from_slice(&vdso.image[*entry..entry + 8]);
        }
        stopped.write(&memory, vdso.base + at as u64, &stub)?;
        for (entry, target) in entries {
            stopped.write(&memory, vdso.base + entry as u64, &jump(entry, at + target))?;
        }
        let stub = vdso.base + at as u64;
        Ok(Some(Patched { pid, memory, vdso: vdso.base, stub }))
    })
}

/// Finds out whether [`install`] works and reaches the program; changes nothing. Errors: why it does not.
pub fn check(pid: i32) -> Result<(), ClockError> {
    same_time_offset(pid)?;
    let memory = Memory::open(pid)?;
    let vdso = vdso(pid, &memory)?;
    if let Some(why) = reach::asks_kernel(pid, &memory, &vdso, clock_of(pid, &vdso)?)? {
        return Err(ClockError::NotReached { pid, why });
    }
    if Patched::find(pid)?.is_some() { Ok(()) } else { install(pid)?.remove() }
}

/// What the patch makes its clocks show, drift included; `None` without. What is seen: [`observe`].
pub fn read_skew(pid: i32) -> Result<Option<Skew>, ClockError> {
    Patched::find(pid)?.map(|patched| patched.skew()).transpose()
}

/// Asks the process for its time: stops one thread, preferably one that sleeps, and makes it call the
/// process's own vDSO, as its program would. A program that does not use the vDSO sees true clocks all the
/// same. A system call which that thread sleeps in may end with EINTR, as after any stop.
pub fn observe(pid: i32) -> Result<Observed, ClockError> {
    same_time_offset(pid)?;
    on_own_thread(|| {
        let mut stopped = Stopped::one(pid)?;
        let vdso = vdso(pid, &Memory::open(pid)?)?;
        observe_in(pid, &mut stopped.threads[0], &vdso, clock_of(pid, &vdso)?)
    })
}

/// As [`observe`], but by the `clock_gettime` of a `library` that the process has loaded ahead of the vDSO.
/// Such a library takes locks, so only a thread is asked that waits in the kernel and cannot hold one.
/// libfaketime shows the truth to a thread in its own functions, so threads are asked until one sees a skew.
pub fn observe_by(pid: i32, library: &Path) -> Result<Observed, ClockError> {
    same_time_offset(pid)?;
    let why = "it has not loaded the library that is to move its clocks";
    let function = function_of(pid, library, "clock_gettime").ok_or(ClockError::NotPatchable { pid, why })?;
    on_own_thread(|| {
        for attempt in 0..50 {
            let vdso = vdso(pid, &Memory::open(pid)?)?;
            let mut seen: Option<Observed> = None;
            for tid in living(pid)? {
                let Some(mut stopped) = Stopped::thread(pid, tid)? else { continue };
                if !stopped.threads[0].waits()? {
                    continue;
                }
                let look = observe_in(pid, &mut stopped.threads[0], &vdso, function)?;
                if look.wall_ns.unsigned_abs().max(look.monotonic_ns.unsigned_abs()) > TRUE_NS + look.error_ns
                {
                    return Ok(look);
                }
                seen = seen.or(Some(look));
            }
            if let Some(look) = seen {
                return Ok(look);
            }
            std::thread::sleep(Duration::from_millis(1 + attempt));
        }
        Err(ClockError::NotPatchable { pid, why: "none of its threads ever waits, so none can be asked" })
    })
}

/// What a true clock may seem to be off.
const TRUE_NS: u64 = 1_000_000;

fn observe_in(pid: i32, thread: &mut Thread, vdso: &Vdso, function: u64) -> Result<Observed, ClockError> {
    let why = "its vDSO has no system call";
    let (instruction, align) = processor::SYSTEM_CALL;
    let gate = vdso.find(&instruction, align).ok_or(ClockError::NotPatchable { pid, why })?;
    let gate = vdso.base + gate as u64;
    let mut thread = BorrowedThread::new(pid, thread)?;
    let page = thread.map_page(gate)?;
    let wall = thread.ahead_ns(libc::CLOCK_REALTIME, function, page);
    let monotonic = thread.ahead_ns(libc::CLOCK_MONOTONIC, function, page);
    thread.unmap_page(gate, page)?;
    let ((wall_ns, wall_error), (monotonic_ns, monotonic_error)) = (wall?, monotonic?);
    Ok(Observed { wall_ns, monotonic_ns, error_ns: wall_error.max(monotonic_error) })
}

fn function_of(pid: i32, library: &Path, name: &str) -> Option<u64> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    // The first mapping of a library begins at its beginning.
    let is_it = |mapping: &Mapping<'_>| library.to_str().is_some_and(|path| mapping.path.ends_with(path));
    let base = maps.lines().filter_map(Mapping::parse).find(is_it)?.begin;
    let image = fs::read(library).ok()?;
    let (at, _) = Vdso { base, image }.function(name)?;
    Some(base + at as u64)
}

impl Patched {
    fn find(pid: i32) -> Result<Option<Patched>, ClockError> {
        let memory = Memory::open(pid)?;
        let Some(vdso) = Vdso::of(pid, &memory)? else { return Ok(None) };
        let Some(at) = vdso.find(stub::MAGIC, 16) else { return Ok(None) };
        let code = stub::bytes();
        let same = vdso.image.get(at + stub::CODE..at + code.len()) == Some(&code[stub::CODE..]);
        let active = entries(pid, &vdso)?
            .iter()
            .all(|&(entry, to)| vdso.image[entry..].starts_with(&jump(entry, at + to)));
        let stub = vdso.base + at as u64;
        Ok((same && active).then_some(Patched { pid, memory, vdso: vdso.base, stub }))
    }

    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Makes the clocks show this from now on, counted from the true clocks. Stops nothing, or one thread for
    /// a moment where only a tracer may write (Linux with `proc_mem.force_override=never` or `ptrace`).
    pub fn set(&self, skew: Skew) -> Result<(), ClockError> {
        for drift in [skew.wall_drift_ppm, skew.monotonic_drift_ppm] {
            if !(Skew::FROZEN_PPM..=Skew::DRIFT_PPM_MAX).contains(&drift) {
                return Err(ClockError::Drift(drift));
            }
        }
        let next = self.generation()?.wrapping_add(1);
        let slot = stub::slot(skew, now_ns).map_err(ClockError::Range)?;
        let parts: [(u64, &[u8]); 2] =
            [(self.stub + stub::slot_at(next) as u64, &slot), (self.stub + stub::GENERATION as u64, &[next])];
        if self.memory.write(parts[0].0, parts[0].1)? && self.memory.write(parts[1].0, parts[1].1)? {
            return Ok(());
        }
        on_own_thread(|| {
            let stopped = Stopped::one(self.pid)?;
            parts.into_iter().try_for_each(|(at, bytes)| stopped.write(&self.memory, at, bytes))
        })
    }

    /// What the clocks are made to show now, drift included: setting this again keeps them where they are.
    pub fn skew(&self) -> Result<Skew, ClockError> {
        let at = self.stub + stub::slot_at(self.generation()?) as u64;
        let slot = self.memory.read(at, stub::SLOT_LENGTH)?;
        let entry = |clock: i32| Entry::read(&slot, clock as usize);
        let (wall, monotonic) = (entry(libc::CLOCK_REALTIME), entry(libc::CLOCK_MONOTONIC));
        Ok(Skew {
            wall_ns: wall.ahead_ns(now_ns(libc::CLOCK_REALTIME)),
            monotonic_ns: monotonic.ahead_ns(now_ns(libc::CLOCK_MONOTONIC)),
            wall_drift_ppm: wall.drift_ppm(),
            monotonic_drift_ppm: monotonic.drift_ppm(),
        })
    }

    /// Takes the patch out: the vDSO is, byte for byte, as it was. Stops all threads for a moment. Only if a
    /// signal handler stays on top of an interrupted stub, the stub's code is left, which nothing reaches.
    pub fn remove(self) -> Result<(), ClockError> {
        let stub = self.stub..self.stub + stub::bytes().len() as u64;
        let originals = self.memory.read(self.stub + stub::ORIGINALS.start as u64, stub::ORIGINALS.len())?;
        let restore = |stopped: &Stopped| {
            for record in originals.chunks_exact(16).take(processor::replacements().len()) {
                let (entry, bytes) = record.split_at(8);
                let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
                stopped.write(&self.memory, self.vdso + entry, bytes)?;
            }
            Ok(())
        };
        let wiped = with_all_stopped(self.pid, |stopped| {
            if !stopped.leave(std::slice::from_ref(&stub), &self.memory)? {
                return Ok(None);
            }
            restore(stopped)?;
            stopped.write(&self.memory, stub.start, &vec![0; stub::bytes().len()]).map(Some)
        });
        match wiped {
            // No thread is in the middle of a jump, since that is one instruction.
            Err(ClockError::Busy { .. }) => with_all_stopped(self.pid, |stopped| restore(stopped).map(Some)),
            other => other,
        }
    }

    fn generation(&self) -> Result<u8, ClockError> {
        Ok(self.memory.read(self.stub + stub::GENERATION as u64, 1)?[0])
    }
}

/// Runs `work` while all threads stand still, again if it gives `None`: some thread is where it must not be.
fn with_all_stopped<T: Send>(
    pid: i32,
    mut work: impl FnMut(&mut Stopped) -> Result<Option<T>, ClockError> + Send,
) -> Result<T, ClockError> {
    on_own_thread(|| {
        for attempt in 0..8 {
            if let Some(done) = work(&mut Stopped::all(pid)?)? {
                return Ok(done);
            }
            std::thread::sleep(Duration::from_millis(1 + attempt));
        }
        Err(ClockError::Busy { pid })
    })
}

fn clock_of(pid: i32, vdso: &Vdso) -> Result<u64, ClockError> {
    let why = "its vDSO has no clock_gettime";
    let (at, _) =
        vdso.function(processor::replacements()[0].0).ok_or(ClockError::NotPatchable { pid, why })?;
    Ok(vdso.base + at as u64)
}

fn vdso(pid: i32, memory: &Memory) -> Result<Vdso, ClockError> {
    Vdso::of(pid, memory)?.ok_or(ClockError::NotPatchable { pid, why: "it has no vDSO" })
}

/// Where in the vDSO the jumps to the replacements are put, and where in the stub they lead.
fn entries(pid: i32, vdso: &Vdso) -> Result<Vec<(usize, usize)>, ClockError> {
    let entry = |(name, target): (&str, usize)| match vdso.function(name) {
        // Eight bytes are kept and put back, and the jump may stand behind one instruction.
        Some((at, length)) if length >= 12 && at + length <= vdso.image.len() => {
            Ok(processor::detour(&vdso.image, at, target))
        }
        _ => Err(ClockError::NotPatchable { pid, why: "its vDSO lacks a function that tells the time" }),
    };
    processor::replacements().into_iter().map(entry).collect()
}

/// Its `ns/time` may shift the monotonic clock: what is true there cannot be known from here.
fn same_time_offset(pid: i32) -> Result<(), ClockError> {
    let time_of = |who: &str| fs::read_link(format!("/proc/{who}/ns/time")).ok();
    match time_of(&pid.to_string()).zip(time_of("self")) {
        Some((theirs, ours)) if theirs != ours => Err(ClockError::NotPatchable {
            pid,
            why: "its monotonic clock is shifted by the kernel (`ns/time`)",
        }),
        _ => Ok(()),
    }
}
