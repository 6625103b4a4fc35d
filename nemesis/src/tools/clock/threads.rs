//! Stops, inspects and releases threads of another process. All on one thread, since ptrace binds a tracee to
//! the thread that seized it, whose end ([`on_own_thread`]) frees all tracees.

use super::ClockError;
use super::processor::{Registers, VECTORS};
use super::vdso::Memory;
use nix::errno::Errno;
use nix::libc;
use std::fs;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::time::{Duration, Instant};

/// How long a thread may take to stop: spinning ones needed 0.6 s; one that hangs in the kernel never does.
const STOP_LIMIT: Duration = Duration::from_secs(10);
const STACK_SEARCHED: usize = 64 << 10;
/// The kernel's number of a thread's registers, and requests that libc lacks on some architectures.
const NT_PRSTATUS: usize = 1;
const GETSIGMASK: libc::c_uint = 0x420a;
const SETSIGMASK: libc::c_uint = 0x420b;

/// Runs `work` on a thread that ends with it.
pub fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Stopped threads of one process. When dropped they go on, each with the signal that it was about to take. A
/// process under SIGSTOP stays stopped: the kernel puts a freed thread back into the stop of its group.
pub struct Stopped {
    pid: i32,
    pub threads: Vec<Thread>,
}

impl Stopped {
    pub fn all(pid: i32) -> Result<Stopped, ClockError> {
        let mut stopped = Stopped { pid, threads: Vec::new() };
        // A stopped thread starts no other: once a listing shows none that is new, there are no more.
        loop {
            let known = stopped.threads.len();
            for tid in living(pid)? {
                if stopped.threads.iter().all(|thread| thread.tid != tid) {
                    stopped.threads.extend(Thread::seize(pid, tid)?);
                }
            }
            if stopped.threads.len() == known {
                break;
            }
            let deadline = Instant::now() + STOP_LIMIT;
            for thread in &mut stopped.threads[known..] {
                thread.wait(deadline)?;
            }
            stopped.threads.retain(|thread| !thread.ended);
        }
        if stopped.threads.is_empty() { Err(ClockError::Gone { pid }) } else { Ok(stopped) }
    }

    /// Stops one thread. One that sleeps in a system call is preferred, since it is in the middle of nothing.
    pub fn one(pid: i32) -> Result<Stopped, ClockError> {
        let mut candidates = living(pid)?;
        // Asked once for each: a state that changes while they are sorted is no order.
        candidates.sort_by_cached_key(|&tid| state(pid, tid) != Some('S'));
        for tid in candidates {
            if let Some(stopped) = Stopped::thread(pid, tid)? {
                return Ok(stopped);
            }
        }
        Err(ClockError::Gone { pid })
    }

    pub fn thread(pid: i32, tid: i32) -> Result<Option<Stopped>, ClockError> {
        let Some(mut thread) = Thread::seize(pid, tid)? else { return Ok(None) };
        thread.wait(Instant::now() + STOP_LIMIT)?;
        Ok((!thread.ended).then(|| Stopped { pid, threads: vec![thread] }))
    }

    /// Writes through the page's protection, as a tracer may: word by word, with the bytes around kept.
    pub fn write(&self, memory: &Memory, at: u64, bytes: &[u8]) -> Result<(), ClockError> {
        if memory.write(at, bytes)? {
            return Ok(());
        }
        let begin = at - at % 8;
        let before = (at - begin) as usize;
        let mut words = memory.read(begin, (before + bytes.len()).next_multiple_of(8))?;
        words[before..before + bytes.len()].copy_from_slice(bytes);
        self.threads[0].poke(begin, &words)
    }

    /// Steps every thread out of these addresses. `false`: a signal handler will return to them.
    pub fn leave(&mut self, ranges: &[Range<u64>], memory: &Memory) -> Result<bool, ClockError> {
        let within = |address: u64| ranges.iter().any(|range| range.contains(&address));
        for thread in &mut self.threads {
            let mut steps = 0;
            while within(thread.registers()?.at()) {
                if steps == 1000 {
                    return Ok(false);
                }
                steps += 1;
                thread.step()?;
            }
            let stack = memory.read_some(thread.registers()?.stack(), STACK_SEARCHED);
            let mut words =
                stack.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
            if words.any(within) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for thread in self.threads.iter().filter(|thread| !thread.ended) {
            thread.detach();
        }
        log::trace!("let go of {} threads of process {}", self.threads.len(), self.pid);
    }
}

pub struct Thread {
    pid: i32,
    tid: i32,
    signal: Option<libc::siginfo_t>,
    /// Whether it slept before it was stopped, or was stopped by a signal.
    pub slept: bool,
    ended: bool,
}

impl Thread {
    /// `None` if the thread has ended meanwhile.
    fn seize(pid: i32, tid: i32) -> Result<Option<Thread>, ClockError> {
        let slept = matches!(state(pid, tid), Some('S' | 'T'));
        match ptrace(libc::PTRACE_SEIZE, tid, 0, 0).and_then(|()| ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0)) {
            Ok(()) => Ok(Some(Thread { pid, tid, signal: None, slept, ended: false })),
            Err(_) if matches!(state(pid, tid), None | Some('Z' | 'X')) => Ok(None),
            Err(Errno::EPERM) => match tracer(pid, tid) {
                0 => Err(ClockError::NotAllowed { pid }),
                by => Err(ClockError::Traced { pid, by }),
            },
            Err(errno) => Err(self::failed(pid, errno)),
        }
    }

    /// Waits until it stands still, without `waitpid`: the reaper on another thread gets the stops, too.
    fn wait(&mut self, deadline: Instant) -> Result<(), ClockError> {
        for attempt in 0u32.. {
            let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
            match ptrace(libc::PTRACE_GETSIGINFO, self.tid, 0, info.as_mut_ptr() as usize) {
                Ok(()) => {
                    // SAFETY: zeroed is a valid siginfo_t, and the kernel has filled it in.
                    self.keep_signal(unsafe { info.assume_init() });
                    return Ok(());
                }
                // ESRCH means "not stopped" as well as "not there".
                Err(Errno::ESRCH) if attempt < 20 => std::thread::yield_now(),
                Err(Errno::ESRCH) => {
                    if matches!(state(self.pid, self.tid), None | Some('Z' | 'X')) {
                        self.ended = true;
                        return Ok(());
                    }
                    if Instant::now() > deadline {
                        return Err(ClockError::Stuck { pid: self.pid, tid: self.tid, limit: STOP_LIMIT });
                    }
                    std::thread::sleep(Duration::from_micros(if attempt < 200 { 20 } else { 1000 }));
                }
                Err(errno) => return Err(failed(self.pid, errno)),
            }
        }
        unreachable!("the loop ends by its deadline")
    }

    /// Keeps what stopped it if that was a signal meant for the program, and not this stop or a step of ours.
    fn keep_signal(&mut self, info: libc::siginfo_t) {
        let (signal, code) = (info.si_signo, info.si_code);
        let event_stop = code >> 8 == libc::PTRACE_EVENT_STOP;
        // A fault raises its signal again when its instruction is executed again, so it need not be kept.
        let trap_or_fault = code > 0 && (signal == libc::SIGTRAP || signal == libc::SIGSEGV);
        // ARM64 reports a step over a system call as a signal that process 0 sent.
        // SAFETY: a signal with this code has the number of a process.
        let step = code == libc::SI_USER && signal == libc::SIGTRAP && unsafe { info.si_pid() } == 0;
        if !event_stop && !trap_or_fault && !step {
            self.signal = Some(info);
        }
    }

    /// Executes one instruction, or enters the handler of a signal that was pending.
    pub fn step(&mut self) -> Result<(), ClockError> {
        let signal = self.signal.take().map_or(0, |info| info.si_signo as usize);
        self.resume(libc::PTRACE_SINGLESTEP, signal)
    }

    /// Stops it again, whatever it does: for when it did not stop by itself.
    pub fn interrupt(&mut self) {
        if ptrace(libc::PTRACE_INTERRUPT, self.tid, 0, 0).is_ok() {
            let _ = self.wait(Instant::now() + STOP_LIMIT);
        }
    }

    pub fn waits(&self) -> Result<bool, ClockError> {
        Ok(self.registers()?.waits(self.slept))
    }

    /// Lets it run until it stops again. Signals that arrive are kept for later.
    pub fn run(&mut self) -> Result<(), ClockError> {
        self.resume(libc::PTRACE_CONT, 0)
    }

    /// Executes one instruction, keeping signals for later.
    pub fn step_quietly(&mut self) -> Result<(), ClockError> {
        self.resume(libc::PTRACE_SINGLESTEP, 0)
    }

    fn resume(&mut self, how: libc::c_uint, signal: usize) -> Result<(), ClockError> {
        ptrace(how, self.tid, 0, signal).map_err(|errno| failed(self.pid, errno))?;
        self.wait(Instant::now() + STOP_LIMIT)?;
        if self.ended { Err(ClockError::Gone { pid: self.pid }) } else { Ok(()) }
    }

    pub fn registers(&self) -> Result<Registers, ClockError> {
        let mut registers = MaybeUninit::<Registers>::zeroed();
        let length = size_of::<Registers>();
        self.get_set(libc::PTRACE_GETREGSET, NT_PRSTATUS, registers.as_mut_ptr().cast(), length)?;
        // SAFETY: all zeros are valid registers, and the kernel has filled them in.
        Ok(unsafe { registers.assume_init() })
    }

    pub fn set_registers(&self, registers: &Registers) -> Result<(), ClockError> {
        let from = std::ptr::from_ref(registers).cast_mut().cast();
        self.get_set(libc::PTRACE_SETREGSET, NT_PRSTATUS, from, size_of::<Registers>()).map(drop)
    }

    /// The registers of floating point and vectors, as the processor saves them.
    pub fn vectors(&self) -> Result<Vec<u8>, ClockError> {
        let mut vectors = vec![0; VECTORS.1];
        let length =
            self.get_set(libc::PTRACE_GETREGSET, VECTORS.0, vectors.as_mut_ptr().cast(), VECTORS.1)?;
        vectors.truncate(length);
        Ok(vectors)
    }

    pub fn set_vectors(&self, vectors: &[u8]) -> Result<(), ClockError> {
        let from = vectors.as_ptr().cast_mut().cast();
        self.get_set(libc::PTRACE_SETREGSET, VECTORS.0, from, vectors.len()).map(drop)
    }

    /// Reads or writes one set of registers; gives its length.
    fn get_set(
        &self,
        request: libc::c_uint,
        set: usize,
        at: *mut libc::c_void,
        length: usize,
    ) -> Result<usize, ClockError> {
        let mut area = libc::iovec { iov_base: at, iov_len: length };
        let area_at = std::ptr::from_mut(&mut area) as usize;
        ptrace(request, self.tid, set, area_at).map_err(|errno| failed(self.pid, errno))?;
        Ok(area.iov_len)
    }

    fn poke(&self, at: u64, words: &[u8]) -> Result<(), ClockError> {
        for (index, word) in words.chunks_exact(8).enumerate() {
            let word = usize::from_ne_bytes(word.try_into().expect("eight bytes"));
            let address = at as usize + 8 * index;
            ptrace(libc::PTRACE_POKEDATA, self.tid, address, word)
                .map_err(|errno| failed(self.pid, errno))?;
        }
        Ok(())
    }

    /// The signals it blocks, one bit each.
    pub fn blocked(&self) -> Result<u64, ClockError> {
        let mut mask = 0u64;
        let into = std::ptr::from_mut(&mut mask) as usize;
        ptrace(GETSIGMASK, self.tid, 8, into).map_err(|errno| failed(self.pid, errno))?;
        Ok(mask)
    }

    pub fn block(&self, mask: u64) -> Result<(), ClockError> {
        let from = std::ptr::from_ref(&mask) as usize;
        ptrace(SETSIGMASK, self.tid, 8, from).map_err(|errno| failed(self.pid, errno))
    }

    fn detach(&self) {
        let mut signal = 0;
        if let Some(info) = &self.signal {
            // So that the program still sees who sent it. Refused outside of a signal's stop.
            let _ = ptrace(libc::PTRACE_SETSIGINFO, self.tid, 0, std::ptr::from_ref(info) as usize);
            signal = info.si_signo as usize;
        }
        // Fails only if it was killed meanwhile, and then there is nothing to free.
        let _ = ptrace(libc::PTRACE_DETACH, self.tid, 0, signal);
    }
}

fn failed(pid: i32, errno: Errno) -> ClockError {
    match errno {
        Errno::ESRCH => ClockError::Gone { pid },
        Errno::EPERM => ClockError::NotAllowed { pid },
        other => ClockError::Io { pid, doing: "trace it", source: other.into() },
    }
}

fn ptrace(request: libc::c_uint, tid: i32, address: usize, data: usize) -> Result<(), Errno> {
    // SAFETY: every caller passes, where the request wants a pointer, one to a live value of the right type.
    Errno::result(unsafe { libc::ptrace(request, tid, address, data) }).map(drop)
}

/// Whether a futex operation waits for a condition (a bitset): a waiter for a lock may hold another.
pub fn waits_for_condition(operation: u64) -> bool {
    operation & 0x7f == libc::FUTEX_WAIT_BITSET as u64
}

/// Threads of the process that have not ended.
pub fn living(pid: i32) -> Result<Vec<i32>, ClockError> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| ClockError::Gone { pid })?;
    let tids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(tids.filter(|&tid| !matches!(state(pid, tid), None | Some('Z' | 'X'))).collect())
}

fn state(pid: i32, tid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn tracer(pid: i32, tid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}
