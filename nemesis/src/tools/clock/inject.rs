//! Asks a process for its time from within: one of its threads is made to call the process's own
//! `__vdso_clock_gettime`, patched or not, and gets everything back as it was.
//!
//! What makes this safe:
//! - The call runs on a page of its own, mapped for it and unmapped afterwards. Room below the thread's stack
//!   would not do: a goroutine's stack ends anywhere, and what lies beneath belongs to somebody else.
//! - The call returns to address 0, where nothing is, and the fault stops the thread. So no breakpoint is
//!   written.
//! - A library that stands between the program and the vDSO (libfaketime) may take locks and memory. A thread
//!   that sleeps in a system call holds neither.
//! - All signals but that of the fault and that of a step are blocked meanwhile.
//! - A system call in which the thread was stopped is restarted, or fails with EINTR, as after any stop: how,
//!   is the processor's business (`processor::Registers`).

use super::processor::Registers;
use super::threads::Thread;
use super::{ClockError, now_ns};
use nix::libc;

/// Room for a function that calls others; what is not touched costs nothing.
const PAGE: u64 = 256 << 10;
const RESULT: u64 = PAGE - 1024;
const STACK: u64 = PAGE - 2048;

pub struct BorrowedThread<'a> {
    thread: &'a mut Thread,
    saved: Registers,
    next: Vec<u8>,
    /// The registers of floating point and vectors: a library may use them.
    vectors: Vec<u8>,
    blocked: u64,
    pid: i32,
}

impl<'a> BorrowedThread<'a> {
    pub fn new(pid: i32, thread: &'a mut Thread) -> Result<BorrowedThread<'a>, ClockError> {
        let (saved, vectors, blocked) = (thread.registers()?, thread.vectors()?, thread.blocked()?);
        let next = super::vdso::Memory::open(pid)?.read_some(saved.at(), 4);
        let ours = [libc::SIGTRAP, libc::SIGSEGV].iter().fold(0, |mask, signal| mask | 1 << (signal - 1));
        thread.block(!ours)?;
        Ok(BorrowedThread { thread, saved, next, vectors, blocked, pid })
    }

    /// How far a clock of the process is ahead of the true one, and the error, in ns; best of three.
    pub fn ahead_ns(&mut self, clock: i32, function: u64, page: u64) -> Result<(i64, u64), ClockError> {
        let mut best = (0, u64::MAX);
        for _ in 0..3 {
            let memory = super::vdso::Memory::open(self.pid)?;
            let before = now_ns(clock);
            self.call(function, [clock as u64, page + RESULT], page)?;
            let after = now_ns(clock);
            let read = memory.read(page + RESULT, 16)?;
            let word = |at: usize| i64::from_le_bytes(read[at..at + 8].try_into().expect("eight bytes"));
            let seen = word(0).wrapping_mul(1_000_000_000).wrapping_add(word(8));
            let error = after.abs_diff(before).div_ceil(2);
            if error < best.1 {
                best = (seen - (before + (after - before) / 2), error);
            }
        }
        Ok(best)
    }

    /// Maps a page for [`Self::ahead_ns`]. `gate` is the address of a `syscall` instruction.
    pub fn map_page(&mut self, gate: u64) -> Result<u64, ClockError> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        self.syscall(gate, libc::SYS_mmap, [0, PAGE, access as u64, flags as u64, u64::MAX, 0])
    }

    pub fn unmap_page(&mut self, gate: u64, page: u64) -> Result<(), ClockError> {
        self.syscall(gate, libc::SYS_munmap, [page, PAGE, 0, 0, 0, 0]).map(drop)
    }

    fn syscall(&mut self, gate: u64, number: i64, arguments: [u64; 6]) -> Result<u64, ClockError> {
        self.thread.set_registers(&self.saved.system_call(gate, number, arguments))?;
        // A stop of the whole group may come between: then the instruction is still to be executed.
        while self.thread.registers()?.at() == gate {
            self.thread.step_quietly()?;
        }
        let result = self.thread.registers()?.result();
        if (-4095..0).contains(&result) {
            let source = std::io::Error::from_raw_os_error(-result as i32);
            return Err(ClockError::Io { pid: self.pid, doing: "map a page in it", source });
        }
        Ok(result as u64)
    }

    fn call(&mut self, function: u64, arguments: [u64; 2], page: u64) -> Result<(), ClockError> {
        self.thread.set_registers(&self.saved.call(function, arguments, page + STACK))?;
        // Stops for other reasons than the fault at address 0 are ours to pass over.
        for _ in 0..100 {
            self.thread.run()?;
            if self.thread.registers()?.at() == 0 {
                return Ok(());
            }
        }
        Err(ClockError::NotPatchable {
            pid: self.pid,
            why: "the function that tells it the time does not return",
        })
    }
}

impl Drop for BorrowedThread<'_> {
    fn drop(&mut self) {
        let saved = self.saved.to_resume(self.thread.slept, &self.next);
        // A function that waits for ever must not go on with these registers.
        if self.thread.set_registers(&saved).is_err() {
            self.thread.interrupt();
        }
        // These fail only if the thread was killed meanwhile, and then it misses nothing. Vectors that are as
        // they were stay alone: on some processors what is put back is less than what there is.
        let _ = self.thread.set_registers(&saved);
        if self.thread.vectors().is_ok_and(|vectors| vectors != self.vectors) {
            let _ = self.thread.set_vectors(&self.vectors);
        }
        let _ = self.thread.block(self.blocked);
    }
}
