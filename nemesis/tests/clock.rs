//! Breaks the clocks of a real program, `programs/clock.c`, and believes only what that program says.

use fencepost_cluster::for_tests::eventually;
use fencepost_nemesis::tools::clock::{ClockError, Skew, check, install, observe, read_skew};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const SECOND: i64 = 1_000_000_000;
/// How far a skewed clock may be from the sum of the true one and its skew.
const ROUNDING: i64 = SECOND / 50;

struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts it with this many threads that read the clock without a pause.
    fn start(threads: u32) -> Program {
        static COMPILED: OnceLock<PathBuf> = OnceLock::new();
        Program::start_at(COMPILED.get_or_init(|| Program::compile("clock", &[])), threads)
    }

    fn compile(name: &str, flags: &[&str]) -> PathBuf {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/clock.c");
        let mut cc = Command::new("cc");
        let status = cc.args(["-O1", "-pthread"]).args(flags).arg("-o").arg(&path).arg(source).status();
        assert!(status.expect("a C compiler, which building needs too").success());
        path
    }

    fn start_at(path: &Path, threads: u32) -> Program {
        let mut child = Command::new(path)
            .arg(threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut program = Program { child, input, output };
        program.hear();
        program
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the program lives");
    }

    fn hear(&mut self) -> Vec<i64> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the program has ended: {}", self.child.wait().unwrap());
        line.split_whitespace().map(|number| number.parse().unwrap()).collect()
    }

    fn ask(&mut self, line: &str) -> Vec<i64> {
        self.say(line);
        self.hear()
    }

    /// What it shows, and the true clocks before and after: however long the question took, the moment that
    /// is shown lies between them.
    fn look(&mut self, line: &str) -> Look {
        let before = truth();
        let shown = self.ask(line);
        Look { before, shown, after: truth() }
    }

    /// What it shows is ahead of the truth by so much.
    fn check(&mut self, line: &str, wall_ns: i64, monotonic_ns: i64) {
        let Look { before, shown, after } = self.look(line);
        assert_eq!(shown.len(), 9);
        let names = ["wall", "monotonic", "coarse wall", "raw", "boot", "TAI", "gettimeofday", "time"];
        // `time` cuts off what a coarse clock shows; that one is true as of the last tick.
        let cut_off = [0, 0, 0, 0, 0, 0, 1000, SECOND];
        for index in 0..8 {
            let expected = if [1, 3, 4].contains(&index) { monotonic_ns } else { wall_ns };
            let least = before[index] + expected - cut_off[index] - ROUNDING;
            let most = after[if index == 7 { WALL } else { index }] + expected + ROUNDING;
            let value = shown[index];
            assert!((least..=most).contains(&value), "{}: {least} <= {value} <= {most}", names[index]);
        }
        assert!((0..3600 * SECOND).contains(&shown[8]), "processor time has no skew");
    }

    fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    fn await_stop(&self) {
        eventually("the program is stopped", || self.state() == 'T');
    }

    /// It has stopped again behind the tool that looked into it, and stays so. The time that passes is for a
    /// program that was woken: it would show itself.
    fn assert_stopped(&self) {
        self.await_stop();
        pass(Duration::from_millis(100));
        assert_eq!(self.state(), 'T');
    }

    /// The bytes of its vDSO.
    fn vdso(&self) -> Vec<u8> {
        use std::os::unix::fs::FileExt;
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let line = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
        let (begin, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let (begin, end) = (u64::from_str_radix(begin, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        let mut bytes = vec![0; (end - begin) as usize];
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid())).unwrap();
        memory.read_exact_at(&mut bytes, begin).unwrap();
        bytes
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One answer of the program, in nanoseconds.
struct Look {
    before: [i64; 8],
    shown: Vec<i64>,
    after: [i64; 8],
}

/// The clocks in what the program shows.
const WALL: usize = 0;
const MONOTONIC: usize = 1;

impl Look {
    /// By how much the clock moved from this answer to the later one; and how much time passed between them,
    /// at least and at most.
    fn moved(&self, later: &Look, clock: usize) -> (i64, [i64; 2]) {
        let shown = later.shown[clock] - self.shown[clock];
        (shown, [later.before[clock] - self.after[clock], later.after[clock] - self.before[clock]])
    }

    /// The clock moved at this rate (in percent) from this answer to the later one.
    fn assert_rate(&self, later: &Look, clock: usize, percent: i64) {
        let (shown, passed) = self.moved(later, clock);
        let [least, most] = passed.map(|passed| passed * percent / 100);
        let expected = least - ROUNDING..=most + ROUNDING;
        assert!(expected.contains(&shown), "{shown} ns in {passed:?} ns, and not {percent} % of them");
    }
}

/// Lets so much time pass, or more.
fn pass(time: Duration) {
    std::thread::sleep(time);
}

/// True clocks, in the order in which the program shows its own.
fn truth() -> [i64; 8] {
    [0, 1, 5, 4, 7, 11, 0, 5].map(|id| {
        let now = nix::time::clock_gettime(id.into()).unwrap();
        now.tv_sec() * SECOND + now.tv_nsec()
    })
}

fn skew(wall_ns: i64, monotonic_ns: i64) -> Skew {
    Skew { wall_ns, monotonic_ns, ..Skew::default() }
}

fn signal(pid: i32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}

#[test]
fn each_clock_jumps_by_itself_forward_and_back_and_removal_restores_every_byte() {
    let mut program = Program::start(0);
    let untouched = program.vdso();
    let patched = install(program.pid()).unwrap();
    program.check("show", 0, 0);
    for (wall, monotonic) in
        [(60, 0), (-30, 0), (0, 20), (0, -5), (86_400, 3_600), (-86_400, -1), (-1, 1), (0, 0)]
    {
        let wanted = skew(wall * SECOND + 1, monotonic * SECOND - 1);
        patched.set(wanted).unwrap();
        assert_eq!(read_skew(program.pid()).unwrap(), Some(wanted));
        program.check("show", wanted.wall_ns, wanted.monotonic_ns);
    }
    patched.set(skew(60 * SECOND, 60 * SECOND)).unwrap();
    patched.remove().unwrap();
    program.check("show", 0, 0);
    assert!(program.vdso() == untouched, "the vDSO is not as it was");
    assert_eq!(read_skew(program.pid()).unwrap(), None);
}

#[test]
fn observing_agrees_with_what_the_program_says_patched_or_not() {
    let mut program = Program::start(2);
    let pid = program.pid();
    let look = || observe(pid).unwrap();
    let near = |seen: i64, expected: i64, error: u64| seen.abs_diff(expected) <= error + 1000;
    let before = look();
    assert!(
        near(before.wall_ns, 0, before.error_ns) && near(before.monotonic_ns, 0, before.error_ns),
        "{before:?}"
    );
    let patched = install(pid).unwrap();
    for (wall, monotonic) in [(0, 0), (60 * SECOND, -3 * SECOND), (-7, 7 * SECOND)] {
        patched.set(skew(wall, monotonic)).unwrap();
        let begun = Instant::now();
        let seen = look();
        let took = begun.elapsed();
        assert!(near(seen.wall_ns, wall, seen.error_ns), "{seen:?}");
        assert!(near(seen.monotonic_ns, monotonic, seen.error_ns), "{seen:?}");
        assert!(u128::from(seen.error_ns) <= took.as_nanos(), "{seen:?} in {took:?}");
        program.check("show", wall, monotonic);
    }
}

#[test]
fn a_clock_drifts_freezes_and_goes_on_from_there() {
    let mut program = Program::start(0);
    let patched = install(program.pid()).unwrap();

    patched.set(Skew { monotonic_drift_ppm: 3_000_000, ..Skew::default() }).unwrap();
    let first = program.look("show");
    pass(Duration::from_millis(500));
    let later = program.look("show");
    first.assert_rate(&later, MONOTONIC, 400);
    first.assert_rate(&later, WALL, 100);

    // What is read is what the clock shows now, so that setting it without the drift keeps the clock where it
    // is.
    let now = Skew { monotonic_drift_ppm: 0, ..patched.skew().unwrap() };
    let gained = later.shown[MONOTONIC] - later.after[MONOTONIC];
    assert!(now.monotonic_ns >= gained, "{now:?} after {gained}");
    patched.set(now).unwrap();
    program.check("show", 0, now.monotonic_ns);

    let frozen =
        Skew { wall_drift_ppm: Skew::FROZEN_PPM, monotonic_drift_ppm: Skew::FROZEN_PPM, ..skew(5, 5) };
    patched.set(frozen).unwrap();
    let first = program.ask("show");
    pass(Duration::from_millis(50));
    assert_eq!(program.ask("show")[..2], first[..2], "a frozen clock shows one value");

    patched.set(Skew { wall_drift_ppm: -500_000, ..Skew::default() }).unwrap();
    let first = program.look("show");
    pass(Duration::from_millis(300));
    first.assert_rate(&program.look("show"), WALL, 50);
}

#[test]
fn eight_threads_that_never_pause_survive_sixty_rounds() {
    let mut program = Program::start(8);
    let untouched = program.vdso();
    let end = untouched.iter().rposition(|&byte| byte != 0).unwrap();
    for round in 0..60 {
        let patched = install(program.pid()).unwrap();
        for step in 0..20 {
            patched.set(skew((step - 10) * SECOND, -step * SECOND / 20)).unwrap();
        }
        patched.set(skew(round * SECOND, SECOND)).unwrap();
        program.check("show", round * SECOND, SECOND);
        if round % 2 == 0 {
            patched.remove().unwrap();
            program.check("show", 0, 0);
            // Behind the end, dead code may stay if a signal handler seems to be on top of it.
            assert!(program.vdso()[..=end] == untouched[..=end], "the vDSO is not as it was");
        }
    }
}

#[test]
fn a_stopped_program_is_patched_and_observed_and_stays_stopped() {
    let mut program = Program::start(4);
    let pid = program.pid();
    signal(pid, nix::sys::signal::SIGSTOP);
    program.await_stop();
    let patched = install(pid).unwrap();
    patched.set(skew(60 * SECOND, 0)).unwrap();
    let seen = observe(pid).unwrap();
    assert!(seen.wall_ns.abs_diff(60 * SECOND) <= seen.error_ns + 1000, "{seen:?}");
    program.say("show");
    program.assert_stopped();
    let before = truth();
    signal(pid, nix::sys::signal::SIGCONT);
    let late = program.hear()[WALL] - 60 * SECOND;
    assert!(
        (before[WALL] - ROUNDING..=truth()[WALL] + ROUNDING).contains(&late),
        "it answered while stopped"
    );

    signal(pid, nix::sys::signal::SIGSTOP);
    program.await_stop();
    patched.remove().unwrap();
    program.assert_stopped();
    signal(pid, nix::sys::signal::SIGCONT);
    program.check("show", 0, 0);
}

#[test]
fn a_forked_child_keeps_the_skew_and_an_exec_loses_it() {
    let mut program = Program::start(0);
    let patched = install(program.pid()).unwrap();
    patched.set(skew(60 * SECOND, SECOND)).unwrap();
    program.check("fork", 60 * SECOND, SECOND);
    program.ask("exec");
    program.check("show", 0, 0);
    assert!(matches!(patched.set(Skew::default()), Err(ClockError::Gone { .. })));
    assert_eq!(read_skew(program.pid()).unwrap(), None);
    install(program.pid()).unwrap().set(skew(SECOND, 0)).unwrap();
    program.check("show", SECOND, 0);
}

#[test]
fn a_patch_is_found_again_with_its_skew() {
    let mut program = Program::start(0);
    let wanted = skew(9 * SECOND, 2 * SECOND);
    install(program.pid()).unwrap().set(wanted).unwrap();
    let again = install(program.pid()).unwrap();
    assert_eq!(again.skew().unwrap(), wanted);
    program.check("show", 9 * SECOND, 2 * SECOND);
    again.remove().unwrap();
    program.check("show", 0, 0);
}

#[test]
fn a_sleep_goes_on_after_being_observed_patched_and_restored() {
    let mut program = Program::start(0);
    program.say("sleep");
    let started = Instant::now();
    for _ in 0..10 {
        observe(program.pid()).unwrap();
        install(program.pid()).unwrap().remove().unwrap();
    }
    assert_eq!(program.hear(), [0], "neither EINTR nor an early end");
    assert!(started.elapsed() > Duration::from_millis(900));
}

#[test]
fn a_program_that_spins_is_observed_many_times_without_harm() {
    let mut program = Program::start(8);
    for _ in 0..100 {
        let seen = observe(program.pid()).unwrap();
        assert!(seen.wall_ns.abs_diff(0) <= seen.error_ns + 1000, "{seen:?}");
    }
    program.check("show", 0, 0);
}

#[test]
fn a_check_changes_nothing() {
    let mut program = Program::start(0);
    let untouched = program.vdso();
    check(program.pid()).unwrap();
    assert!(program.vdso() == untouched, "the vDSO is not as it was");
    install(program.pid()).unwrap().set(skew(SECOND, 0)).unwrap();
    check(program.pid()).unwrap();
    program.check("show", SECOND, 0);
}

#[test]
fn a_go_program_that_asks_the_kernel_is_not_reached() {
    let program = Program::start_at(&Program::compile("clock-of-go", &["-DBUILD_INFO_OF_GO"]), 0);
    assert!(matches!(check(program.pid()), Err(ClockError::NotReached { .. })));
}

#[test]
fn what_cannot_be_is_refused() {
    let program = Program::start(0);
    let patched = install(program.pid()).unwrap();
    let before_boot = skew(0, -truth()[1] - SECOND);
    assert!(matches!(patched.set(before_boot), Err(ClockError::Range("monotonic"))));
    assert!(matches!(patched.set(skew(i64::MIN, 0)), Err(ClockError::Range("wall"))));
    let backwards = Skew { wall_drift_ppm: Skew::FROZEN_PPM - 1, ..Skew::default() };
    assert!(matches!(patched.set(backwards), Err(ClockError::Drift(_))));
    assert_eq!(patched.skew().unwrap(), Skew::default(), "and nothing was set");
    assert!(matches!(install(i32::MAX), Err(ClockError::Gone { .. })));
    assert!(matches!(observe(i32::MAX), Err(ClockError::Gone { .. })));
}
