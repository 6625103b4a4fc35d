//! The tool by which an agent moves the clocks of its node's process.

use crate::clocks::clock_schedule::ClockSchedule;
use crate::clocks::motion::Motions;
use crate::tools::clock::faketime::Faketime;
use crate::tools::clock::{self, ClockError, Observed, Skew};
use fencepost_cluster::ClockMechanism;
use fencepost_cluster::agent::{Tool, ToolError, descendants};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Takes a `ClockCall` as JSON. Motions go on by themselves, on a thread of the agent's.
#[derive(Default)]
pub struct ClockTool {
    shared: Arc<SharedTool>,
}

#[derive(Default)]
struct SharedTool {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    epoch: Instant,
    schedule: ClockSchedule,
    pid: Option<i32>,
    faketime: Option<Faketime>,
    played: bool,
}

impl Default for State {
    fn default() -> State {
        State {
            epoch: Instant::now(),
            schedule: ClockSchedule::default(),
            pid: None,
            faketime: None,
            played: false,
        }
    }
}

/// How long a process may be traced by somebody else before that is an error.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(2);

/// libfaketime knows offsets, and no rates that could be changed: a drift is made of steps of that length.
const FAKED_STEP: Duration = Duration::from_millis(10);

/// A request to the clock tool; `pid` is the process that stands for the node now, or none while it is down.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum ClockCall {
    /// Sets the clocks of the process in motion. Gives a [`ClockLook`].
    Begin { id: u64, pid: i32, motions: Motions },
    /// Takes that out again, and nothing else. Gives a [`ClockLook`]; null where there is no process.
    End { id: u64, pid: Option<i32> },
    /// Gives a [`ClockLook`] without a change.
    Look { pid: i32 },
    /// Finds out whether the clocks of the process can be moved. Gives nothing but an error.
    Check { pid: i32 },
    /// This new process goes on with the clocks of the one before it.
    Resume { pid: i32 },
    /// Before the service starts. Gives the environment with which libfaketime moves its clocks.
    Fake { monotonic: bool },
}

/// What a process saw of its own clocks before and after a change, each against the true clocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClockLook {
    pub before: Observed,
    pub after: Observed,
    pub mechanism: ClockMechanism,
    /// Where all faults in force put the wall clock, in nanoseconds ahead of the true one.
    pub due_wall_ns: i64,
    pub due_monotonic_ns: i64,
}

impl Tool for ClockTool {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn call(&self, args: Value) -> Result<Value, ToolError> {
        let call =
            serde_json::from_value(args).map_err(|error| format!("the clock tool was misused: {error}"))?;
        let answer = self.shared.state.lock().carry_out(call);
        self.shared.play();
        Ok(answer?)
    }
}

impl SharedTool {
    fn play(self: &Arc<SharedTool>) {
        let mut state = self.state.lock();
        if state.next_wake().is_some() && !state.played {
            state.played = true;
            let shared = self.clone();
            std::thread::spawn(move || shared.play_on());
        }
        self.changed.notify_all();
    }

    fn play_on(&self) {
        let mut state = self.state.lock();
        loop {
            match state.next_wake() {
                None => self.changed.wait(&mut state),
                Some(wait) if wait.is_zero() => {
                    let begun = Instant::now();
                    // An ended process gets its clocks when it is back; other causes show in the next look.
                    let _ = state.apply();
                    // On a slow machine a move can take longer than the motion leaves until the next: the
                    // call that ends the motion and the program itself then have every other moment.
                    self.changed.wait_for(&mut state, begun.elapsed());
                }
                Some(wait) => {
                    self.changed.wait_for(&mut state, wait);
                }
            }
        }
    }
}

impl State {
    fn carry_out(&mut self, call: ClockCall) -> Result<Value, ClockError> {
        match call {
            ClockCall::Begin { id, pid, motions } => {
                self.pid = Some(pid);
                let before = self.observe(pid)?;
                let now_ns = self.now_ns();
                self.schedule.begin(id, motions.wall, motions.monotonic, now_ns);
                if let Err(reason) = self.apply() {
                    self.schedule.end(id, now_ns);
                    return Err(reason);
                }
                let after = self.observe(pid)?;
                Ok(self.look(before, after))
            }
            ClockCall::End { id, pid } => {
                let before = pid.map(|pid| self.observe(pid)).transpose();
                self.schedule.end(id, self.now_ns());
                self.pid = pid;
                let Some(pid) = pid.filter(|pid| lives(*pid)) else { return Ok(Value::Null) };
                let ended = before.and_then(|before| {
                    self.apply()?;
                    Ok((before.expect("there is a process"), self.observe(pid)?))
                });
                match ended {
                    Ok((before, after)) => Ok(self.look(before, after)),
                    // It was killed meanwhile: the next one starts without this motion.
                    Err(_) if !lives(pid) => Ok(Value::Null),
                    Err(reason) => Err(reason),
                }
            }
            ClockCall::Look { pid } => {
                let now = self.observe(pid)?;
                Ok(self.look(now, now))
            }
            ClockCall::Check { pid } => {
                self.check(pid)?;
                Ok(Value::Null)
            }
            ClockCall::Resume { pid } => {
                self.pid = Some(pid);
                if !self.schedule.is_empty() {
                    self.apply()?;
                }
                Ok(Value::Null)
            }
            ClockCall::Fake { monotonic } => {
                let (faketime, env) = Faketime::prepare(monotonic)?;
                self.faketime = Some(faketime);
                Ok(json!(env))
            }
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn look(&mut self, before: Observed, after: Observed) -> Value {
        self.schedule.advance(self.now_ns());
        let Skew { wall_ns: due_wall_ns, monotonic_ns: due_monotonic_ns, .. } = self.schedule.skew();
        let mechanism = if self.faketime.is_some() { ClockMechanism::Faketime } else { ClockMechanism::Vdso };
        json!(ClockLook { before, after, mechanism, due_wall_ns, due_monotonic_ns })
    }

    fn observe(&self, pid: i32) -> Result<Observed, ClockError> {
        patiently(|| match &self.faketime {
            Some(faketime) if self.serves(pid) => clock::observe_by(pid, &faketime.library),
            _ => clock::observe(pid),
        })
    }

    /// Whether libfaketime is in this process: the node's service, and nothing else.
    fn serves(&self, pid: i32) -> bool {
        self.pid.is_none_or(|served| served == pid)
    }

    fn next_wake(&self) -> Option<Duration> {
        let due =
            self.schedule.due_ns().map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(self.now_ns())));
        let Skew { wall_drift_ppm, monotonic_drift_ppm, .. } = self.schedule.skew();
        let drifts = wall_drift_ppm != 0 || monotonic_drift_ppm != 0;
        let step = self.faketime.as_ref().filter(|_| drifts).map(|it| FAKED_STEP.saturating_sub(it.age()));
        [due, step].into_iter().flatten().min()
    }

    fn apply(&mut self) -> Result<(), ClockError> {
        self.schedule.advance(self.now_ns());
        let skew = self.schedule.skew();
        if let Some(faketime) = &mut self.faketime {
            let ahead_ns = if skew.wall_ns != 0 { skew.wall_ns } else { skew.monotonic_ns };
            return faketime.set(ahead_ns);
        }
        let Some(pid) = self.pid else { return Ok(()) };
        // Each process has its own clocks. One that is forked from now on begins with a copy.
        with_descendants(pid, |pid| self.patch(pid, skew)).map(drop)
    }

    /// Whether the clocks of this process and its descendants can be moved; libfaketime was tried before.
    fn check(&self, pid: i32) -> Result<(), ClockError> {
        if self.faketime.is_some() && self.serves(pid) {
            return Ok(());
        }
        with_descendants(pid, |pid| patiently(|| clock::check(pid))).map(drop)
    }

    fn patch(&self, pid: i32, skew: Skew) -> Result<(), ClockError> {
        patiently(|| {
            let patched = clock::install(pid)?;
            if self.schedule.is_empty() { patched.remove() } else { patched.set(skew) }
        })
    }
}

/// The same for a process and its descendants, which have clocks of their own. Errors: one is unreachable.
pub fn with_descendants<T>(
    pid: i32,
    work: impl Fn(i32) -> Result<T, ClockError>,
) -> Result<Vec<T>, ClockError> {
    let mut done = vec![work(pid)?];
    for descendant in descendants(pid) {
        match work(descendant) {
            Ok(one) => done.push(one),
            Err(error) if lives(descendant) => return Err(error),
            Err(_) => {}
        }
    }
    Ok(done)
}

/// One that has ended has no memory, even where its parent has not noticed its end yet.
fn lives(pid: i32) -> bool {
    std::fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| !maps.is_empty())
}

/// Tries again while another tracer, a thread that has not quite ended yet, holds the process.
pub(crate) fn patiently<T>(work: impl Fn() -> Result<T, ClockError>) -> Result<T, ClockError> {
    let begun = Instant::now();
    loop {
        match work() {
            Err(ClockError::Traced { .. }) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clocks::motion::Motion;

    const HOUR_MS: i64 = 3_600_000;

    /// Whether a process has become the program that it is to be: an exec loses the patch.
    fn sleeps(pid: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n")
    }

    #[test]
    fn every_process_of_a_program_gets_the_skew_and_loses_it() {
        let mut program = std::process::Command::new("sh");
        let mut parent = program.args(["-c", "sleep 60 & exec sleep 60"]).spawn().expect("a shell");
        let pid = parent.id().cast_signed();
        let all = || -> Vec<i32> { [pid].into_iter().chain(descendants(pid)).collect() };
        while all().len() < 2 || !all().into_iter().all(sleeps) {
            std::thread::sleep(PAUSE);
        }
        let ahead_ms = |pid| clock::observe(pid).expect("it lives").wall_ns / 1_000_000;

        let mut state = State::default();
        let motions = Motions { wall: Some(Motion::Jump { by_ms: HOUR_MS }), monotonic: None };
        state.carry_out(ClockCall::Begin { id: 1, pid, motions }).expect("it can be patched");
        let during: Vec<i64> = all().into_iter().map(ahead_ms).collect();
        state.carry_out(ClockCall::End { id: 1, pid: Some(pid) }).expect("it can be healed");
        let after: Vec<i64> = all().into_iter().map(ahead_ms).collect();

        all().into_iter().for_each(|pid| {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        });
        let _ = parent.wait();
        assert!(during.iter().all(|ahead| (ahead - HOUR_MS).abs() < 1000), "{during:?}");
        assert!(after.iter().all(|ahead| ahead.abs() < 1000), "{after:?}");
    }

    #[test]
    fn a_strobe_that_is_faster_than_its_moves_can_be_ended() {
        // To move the clocks of so many takes longer than half a period.
        let script = "for each in $(seq 150); do sleep 60 & done; exec sleep 60";
        let mut parent = std::process::Command::new("sh").args(["-c", script]).spawn().expect("a shell");
        let pid = parent.id().cast_signed();
        let all = || -> Vec<i32> { [pid].into_iter().chain(descendants(pid)).collect() };
        while all().len() < 151 || !all().into_iter().all(sleeps) {
            std::thread::sleep(PAUSE);
        }
        let tool = ClockTool::default();
        let motions =
            Motions { wall: Some(Motion::Strobe { size_ms: HOUR_MS, period_ms: 10 }), monotonic: None };
        tool.call(json!(ClockCall::Begin { id: 1, pid, motions })).expect("it can be patched");
        std::thread::sleep(Duration::from_millis(300));
        let (ended, end) = std::sync::mpsc::channel();
        let shared = tool.shared.clone();
        std::thread::spawn(move || {
            let call = ClockCall::End { id: 1, pid: Some(pid) };
            let _ = ended.send(shared.state.lock().carry_out(call).is_ok());
        });
        let is_ended = end.recv_timeout(Duration::from_secs(20));
        let ahead_ms = clock::observe(pid).expect("it lives").wall_ns / 1_000_000;
        all().into_iter().for_each(|pid| {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        });
        let _ = parent.wait();
        assert_eq!(is_ended, Ok(true));
        assert!(ahead_ms.abs() < 1000, "{ahead_ms}");
    }
}
