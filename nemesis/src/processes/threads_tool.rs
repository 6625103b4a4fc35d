//! The tool by which an agent stops one thread of a process, while the others go on. A tracer can do that to
//! a thread, and no signal can. A thread of the agent holds it: ptrace binds a tracee to its tracing thread.

use fencepost_cluster::agent::{Tool, ToolError};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

#[derive(Default)]
pub struct ThreadsTool {
    held: Mutex<HashMap<i32, Held>>,
}

/// A stopped thread: freed by a word, or when its holder's end is dropped with the agent.
struct Held {
    free: Sender<()>,
    holder: JoinHandle<()>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ThreadsCall {
    /// Gives a [`ThreadLook`].
    Stop { pid: i32, thread: Which },
    /// Gives a [`ThreadLook`], without a state where the thread is gone.
    Free { pid: i32, tid: i32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Which {
    /// The one that it began with: in many programs the event loop.
    Main,
    /// The one that began last: a thread that renews begins with the acquire.
    Last,
    /// The one that has used the processor most.
    Busiest,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ThreadLook {
    pub tid: i32,
    /// As the program, or the kernel, calls it.
    pub name: String,
    /// The letter in /proc: `t` is stopped by a tracer.
    pub state: Option<char>,
    /// How many other threads of the process are not stopped.
    pub others: usize,
}

/// A busy machine may leave a thread without its processor for so long.
const PATIENCE: Duration = Duration::from_secs(5);

impl Tool for ThreadsTool {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn call(&self, args: Value) -> Result<Value, ToolError> {
        let call =
            serde_json::from_value(args).map_err(|error| format!("the threads tool was misused: {error}"))?;
        Ok(match call {
            ThreadsCall::Stop { pid, thread } => json!(self.stop(pid, thread)?),
            ThreadsCall::Free { pid, tid } => json!(self.free(pid, tid)),
        })
    }
}

impl ThreadsTool {
    fn stop(&self, pid: i32, which: Which) -> Result<ThreadLook, String> {
        let threads = threads(pid);
        let chosen = match which {
            Which::Main => threads.iter().find(|thread| thread.tid == pid),
            Which::Last => threads.iter().max_by_key(|thread| (thread.began, thread.tid)),
            Which::Busiest => threads.iter().max_by_key(|thread| thread.used),
        };
        let tid = chosen.ok_or_else(|| format!("process {pid} has no such thread"))?.tid;
        let ((free, freed), (tell, stopped)) = (channel(), channel());
        let holder = std::thread::spawn(move || hold(tid, &tell, &freed));
        let outcome = stopped.recv().unwrap_or_else(|_| Err("its holder ended".to_owned()));
        self.held.lock().insert(tid, Held { free, holder });
        let stands = |look: &ThreadLook| look.state == Some('t');
        let seen = outcome.map(|()| await_look(pid, tid, stands));
        match seen {
            Ok(seen) if stands(&seen) => Ok(seen),
            failed => {
                // It may stop late.
                self.free(pid, tid);
                let why = failed.err().unwrap_or_else(|| "it does not stop".to_owned());
                Err(format!("thread {tid} of process {pid} cannot be stopped: {why}"))
            }
        }
    }

    fn free(&self, pid: i32, tid: i32) -> ThreadLook {
        if let Some(Held { free, holder }) = self.held.lock().remove(&tid) {
            // It has ended already where it could not stop the thread.
            let _ = free.send(());
            let _ = holder.join();
        }
        await_look(pid, tid, |look| look.state != Some('t'))
    }
}

/// Stops a thread until it is to be freed, or nothing is left that could say so.
fn hold(tid: i32, tell: &Sender<Result<(), String>>, freed: &Receiver<()>) {
    let tid = Pid::from_raw(tid);
    let begun = Instant::now();
    let mut seized = ptrace::seize(tid, ptrace::Options::empty());
    // The look at its clocks traces it, too, for a moment, four times a second.
    while seized == Err(Errno::EPERM) && begun.elapsed() < PATIENCE {
        sleep(Duration::from_millis(1));
        seized = ptrace::seize(tid, ptrace::Options::empty());
    }
    let seized = seized.and_then(|()| ptrace::interrupt(tid));
    let is_held = seized.is_ok();
    let _ = tell.send(seized.map_err(|errno| errno.desc().to_owned()));
    if is_held {
        let _ = freed.recv();
        // A signal that stopped it before this stop did is the program's.
        let of_program = |info: &libc::siginfo_t| info.si_code >> 8 != libc::PTRACE_EVENT_STOP;
        let signal = ptrace::getsiginfo(tid).ok().filter(of_program);
        let signal = signal.and_then(|info| Signal::try_from(info.si_signo).ok());
        // Fails where it was killed, and then there is nothing to free.
        let _ = ptrace::detach(tid, signal);
    }
}

struct Thread {
    tid: i32,
    state: char,
    /// In ticks of the kernel: user and system time, and when it began.
    used: u64,
    began: u64,
}

/// Those that have not ended.
fn threads(pid: i32) -> Vec<Thread> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        let tid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let number = |place: usize| fields.get(place - 3)?.parse::<u64>().ok();
        let state = fields.first()?.chars().next()?;
        // `man 5 proc_pid_stat` counts from 1.
        Some(Thread { tid, state, used: number(14)? + number(15)?, began: number(22)? })
    };
    entries.filter_map(read).filter(|thread| !matches!(thread.state, 'Z' | 'X')).collect()
}

fn look(pid: i32, tid: i32) -> ThreadLook {
    let threads = threads(pid);
    let stands = |thread: &&Thread| matches!(thread.state, 't' | 'T');
    let others = threads.iter().filter(|thread| thread.tid != tid).filter(|thread| !stands(thread)).count();
    let state = threads.iter().find(|thread| thread.tid == tid).map(|thread| thread.state);
    let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
    ThreadLook { tid, name: name.trim().to_owned(), state, others }
}

fn await_look(pid: i32, tid: i32, wanted: impl Fn(&ThreadLook) -> bool) -> ThreadLook {
    let begun = Instant::now();
    loop {
        let seen = look(pid, tid);
        if wanted(&seen) || begun.elapsed() > PATIENCE {
            return seen;
        }
        sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The process itself cannot be traced from within: a child with two threads is.
    #[test]
    fn one_thread_stands_still_while_the_other_goes_on() {
        let script = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\nthreading.Event().wait()";
        let mut child = Command::new("python3").args(["-c", script]).spawn().expect("python3");
        let pid = child.id() as i32;
        while threads(pid).len() < 2 {
            std::thread::yield_now();
        }
        let tool = ThreadsTool::default();
        let seen = tool.stop(pid, Which::Last);
        let freed = seen.as_ref().ok().map(|seen| tool.free(pid, seen.tid));
        let _ = child.kill();
        let _ = child.wait();
        let (seen, freed) = (seen.unwrap(), freed.unwrap());
        assert_eq!((seen.state, seen.others), (Some('t'), 1));
        assert!(seen.tid != pid && freed.state != Some('t'), "{seen:?} {freed:?}");
    }

    #[test]
    fn the_threads_of_a_process_are_read_from_proc() {
        let (pid, turns) = (std::process::id() as i32, Arc::new(AtomicU64::new(0)));
        let counted = turns.clone();
        std::thread::spawn(move || while counted.fetch_add(1, Ordering::Relaxed) < u64::MAX {});
        while turns.load(Ordering::Relaxed) < 1000 {
            std::thread::yield_now();
        }
        let all = threads(pid);
        assert!(all.len() >= 2 && all.iter().any(|thread| thread.tid == pid), "{}", all.len());
        // Of another program: other tests begin and end threads of this one.
        let mut child = Command::new("sh").args(["-c", "read it"]).stdin(Stdio::piped()).spawn().unwrap();
        let of_child = child.id() as i32;
        let (all, seen) = (threads(of_child), look(of_child, of_child));
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!((all.len(), seen.others), (1, 0));
    }
}
