//! `move_clock PROGRAM [ARGUMENT...]` moves the clocks of a program, which prints its wall and monotonic
//! clock, in seconds, for each line that it reads, as in `tools/emulated/programs`. Needs the right to trace.

use fencepost_nemesis::tools::clock::{self, ClockError, Skew};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

const SECOND: i64 = 1_000_000_000;
const AHEAD_S: i64 = 1000;
const SLACK_S: i64 = 20;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<ExitCode> {
    let mut words = std::env::args().skip(1);
    let program = words.next().ok_or("usage: move_clock PROGRAM [ARGUMENT...]")?;
    let mut command = Command::new(program);
    let mut child = command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("no standard input")?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no standard output")?);
    let mut shown = || -> Outcome<[i64; 2]> {
        writeln!(input, "?")?;
        let mut line = String::new();
        output.read_line(&mut line)?;
        let mut clocks = line.split_whitespace().map(str::parse);
        let mut next = || clocks.next().ok_or("the program has ended, or printed no clock");
        Ok([next()??, next()??])
    };
    // Its first answer: then it has become the program that it is to be, and has begun to read clocks.
    shown()?;
    let pid = i32::try_from(child.id())?;
    let moved = try_program(pid, &mut shown);
    let _ = child.kill();
    let _ = child.wait();
    Ok(match moved? {
        Ok(true) => {
            println!("moved by {AHEAD_S} s");
            ExitCode::SUCCESS
        }
        Ok(false) => {
            println!("not moved");
            ExitCode::FAILURE
        }
        Err(sentence) => {
            println!("said before: {sentence}");
            ExitCode::SUCCESS
        }
    })
}

/// Whether the program shows that each of its clocks was moved and put right; or why a run could not do that.
fn try_program(pid: i32, shown: &mut dyn FnMut() -> Outcome<[i64; 2]>) -> Outcome<Result<bool, ClockError>> {
    if let Err(sentence) = clock::check(pid) {
        return Ok(Err(sentence));
    }
    let patched = clock::install(pid)?;
    let mut all = true;
    for ahead_s in [[AHEAD_S, 0], [0, AHEAD_S], [0, 0]] {
        let before = shown()?;
        let was = patched.skew()?;
        let [wall_ns, monotonic_ns] = ahead_s.map(|seconds| seconds * SECOND);
        patched.set(Skew { wall_ns, monotonic_ns, ..Skew::default() })?;
        let after = shown()?;
        let was_s = [was.wall_ns, was.monotonic_ns].map(|ns| ns / SECOND);
        let seen = clock::observe(pid)?;
        eprintln!("clocks {before:?} to {after:?}, to be ahead by {ahead_s:?} s; observed {seen:?}");
        for clock in 0..2 {
            let leap_s = after[clock] - before[clock] - (ahead_s[clock] - was_s[clock]);
            all &= (-1..=SLACK_S).contains(&leap_s);
        }
        all &= (seen.wall_ns - wall_ns).unsigned_abs() <= seen.error_ns + 1_000_000;
        all &= (seen.monotonic_ns - monotonic_ns).unsigned_abs() <= seen.error_ns + 1_000_000;
        std::thread::sleep(Duration::from_millis(100));
    }
    patched.remove()?;
    Ok(Ok(all))
}
