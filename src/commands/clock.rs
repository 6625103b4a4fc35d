//! `fencepost clock`: the clocks of programs that Fencepost did not start.

use crate::output::Output;
use crate::runtime::runtime;
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use console::style;
use fencepost_cluster::first_process_in;
use fencepost_engine::{BadUsage, refuse_option};
use fencepost_history::TimeSpan;
use fencepost_nemesis::clock_by_hand::{ClockChange, ProcessClock, change, look, reset, with_descendants};
use fencepost_nemesis::tools::clock::{ClockError, Skew};
use std::io::Write;
use std::str::FromStr;

/// What is to be done, and to whose clocks.
#[derive(Debug, Args)]
pub struct ClockArgs {
    #[command(subcommand)]
    pub what: ClockCommand,
}

#[derive(Debug, Subcommand)]
pub enum ClockCommand {
    /// Show how far the clocks of a program are ahead of the true ones, as the program itself sees them.
    Show(ClockTarget),
    /// Let clocks jump: +30s forward, -1h back, from where they are.
    Jump {
        /// How far: +30s, -1h, +500ms.
        #[arg(allow_hyphen_values = true)]
        by: ClockStep,
        #[command(flatten)]
        target: ClockTarget,
    },
    /// Let clocks run at another rate: 1.05 gains 50 ms in a second, 0.5 loses half of each.
    Drift {
        /// The rate, from 0 to 100; 1 is that of a true clock.
        #[arg(allow_negative_numbers = true)]
        rate: f64,
        #[command(flatten)]
        target: ClockTarget,
    },
    /// Let clocks stand still.
    Freeze(ClockTarget),
    /// Set clocks right again, and take the patch out of the program.
    Reset(ClockTarget),
}

/// Whose clocks.
#[derive(Debug, Args)]
pub struct ClockTarget {
    /// A process of this machine, with all processes that it started.
    #[arg(long, value_name = "N", required_unless_present = "container")]
    pub pid: Option<i32>,
    /// All processes of a container of Docker or Podman.
    #[arg(long, value_name = "NAME", conflicts_with = "pid")]
    pub container: Option<String>,
    /// Which clock: the date (wall), the clock that only counts up (monotonic), or both.
    #[arg(long, value_enum, default_value_t)]
    pub clock: WhichClock,
    /// Print one line of JSON for each process.
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub enum WhichClock {
    #[default]
    Wall,
    Monotonic,
    Both,
}

/// A length of time with its direction, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockStep(i64);

impl FromStr for ClockStep {
    type Err = String;

    fn from_str(text: &str) -> Result<ClockStep, String> {
        let (sign, length) = match text.strip_prefix('-') {
            Some(length) => (-1, length),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let length: TimeSpan =
            length.parse().map_err(|_| "expected a length of time, such as +30s or -1h".to_owned())?;
        let ns = i64::try_from(length.0.as_nanos()).map_err(|_| "it is too far for any clock".to_owned())?;
        Ok(ClockStep(sign * ns))
    }
}

/// Looks at clocks, or moves them. Errors: the process or container is not there, its clocks cannot be moved.
pub fn clock(args: &ClockArgs) -> Result<i32> {
    let (target, clocks) = match &args.what {
        ClockCommand::Show(target) => (target, at(target, &look)?),
        ClockCommand::Reset(target) => (target, at(target, &reset)?),
        ClockCommand::Jump { by: ClockStep(by), target } => {
            let jumped = |ns: i64| ns.saturating_add(*by);
            let clocks = moved(target, |skew, wall, monotonic| Skew {
                wall_ns: if wall { jumped(skew.wall_ns) } else { skew.wall_ns },
                monotonic_ns: if monotonic { jumped(skew.monotonic_ns) } else { skew.monotonic_ns },
                ..skew
            });
            (target, clocks?)
        }
        ClockCommand::Drift { rate, target } => (target, with_drift(target, drift_ppm(*rate)?)?),
        ClockCommand::Freeze(target) => (target, with_drift(target, Skew::FROZEN_PPM)?),
    };
    for one in &clocks {
        match target.json {
            true => writeln!(Output, "{}", serde_json::to_string(one)?)?,
            false => writeln!(Output, "{}", in_words(one))?,
        }
    }
    if !target.json && clocks.iter().any(|one| one.set.is_some()) {
        writeln!(Output, "{}", style(advice(target)).dim())?;
    }
    Ok(0)
}

fn advice(target: &ClockTarget) -> String {
    let of = match (&target.container, target.pid) {
        (Some(name), _) => format!("--container {name}"),
        (None, pid) => format!("--pid {}", pid.unwrap_or_default()),
    };
    format!(
        "`fencepost clock reset {of}` sets it right. The kernel's own timers (sleeps, time-outs of epoll) do not follow; a program \
         that is started by exec has true clocks."
    )
}

fn with_drift(target: &ClockTarget, ppm: i64) -> Result<Vec<ProcessClock>> {
    moved(target, |skew, wall, monotonic| Skew {
        wall_drift_ppm: if wall { ppm } else { skew.wall_drift_ppm },
        monotonic_drift_ppm: if monotonic { ppm } else { skew.monotonic_drift_ppm },
        ..skew
    })
}

fn drift_ppm(rate: f64) -> Result<i64, BadUsage> {
    match (0.0..=100.0).contains(&rate) {
        true => Ok(((rate - 1.0) * 1e6).round() as i64),
        false => Err(BadUsage::at("rate", format!("the rate of a clock is from 0 to 100, not {rate}"))),
    }
}

fn moved(target: &ClockTarget, to: impl Fn(Skew, bool, bool) -> Skew) -> Result<Vec<ProcessClock>> {
    let (wall, monotonic) = (target.clock != WhichClock::Monotonic, target.clock != WhichClock::Wall);
    let to: ClockChange<'_> = &|skew| to(skew, wall, monotonic);
    at(target, &|pid| change(pid, to))
}

fn at(
    target: &ClockTarget,
    work: &dyn Fn(i32) -> Result<ProcessClock, ClockError>,
) -> Result<Vec<ProcessClock>> {
    let pid = match (&target.container, target.pid) {
        (Some(name), _) => runtime()?.block_on(first_process_in(name))?,
        (None, pid) => pid.unwrap_or_default(),
    };
    if pid < 1 || !std::path::Path::new(&format!("/proc/{pid}")).exists() {
        refuse_option!("pid", "there is no process {pid} on this machine");
    }
    Ok(with_descendants(pid, work)?)
}

fn in_words(one: &ProcessClock) -> String {
    let set = one.set.unwrap_or_default();
    let clock = |name: &str, ahead_ns: i64, drift_ppm: i64| {
        let shows = match ahead_ns.unsigned_abs() <= 1_000_000 + one.seen.error_ns {
            true => "is true".to_owned(),
            false => {
                let direction = if ahead_ns < 0 { "behind" } else { "ahead" };
                format!("is {:.3} s {direction}", ahead_ns.unsigned_abs() as f64 / 1e9)
            }
        };
        let rate = match drift_ppm {
            0 => String::new(),
            Skew::FROZEN_PPM => ", and stands still".to_owned(),
            ppm => format!(", at a rate of {}", 1.0 + ppm as f64 / 1e6),
        };
        format!("the {name} clock {shows}{rate}")
    };
    let wall = clock("wall", one.seen.wall_ns, set.wall_drift_ppm);
    let monotonic = clock("monotonic", one.seen.monotonic_ns, set.monotonic_drift_ppm);
    let threads = match one.threads {
        1 => "its thread".to_owned(),
        many => format!("one of its {many} threads, which share the clocks"),
    };
    format!("process {} ({}): {wall}; {monotonic}; seen by {threads}", one.pid, one.program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_a_direction() {
        let step = |text: &str| text.parse::<ClockStep>().map(|ClockStep(ns)| ns);
        assert_eq!(step("+30s"), Ok(30_000_000_000));
        assert_eq!(step("-1h"), Ok(-3_600_000_000_000));
        assert_eq!(step("500ms"), Ok(500_000_000));
        assert!(step("later").is_err() && step("+").is_err() && step("999999999h").is_err());
    }

    #[test]
    fn a_rate_is_that_of_a_clock() {
        assert_eq!(drift_ppm(1.05).unwrap(), 50_000);
        assert_eq!(drift_ppm(0.0).unwrap(), Skew::FROZEN_PPM);
        assert!(drift_ppm(-1.0).is_err() && drift_ppm(f64::NAN).is_err() && drift_ppm(101.0).is_err());
    }

    #[test]
    fn what_a_program_sees_is_said() {
        let seen = fencepost_nemesis::tools::clock::Observed {
            wall_ns: -30_000_000_000,
            monotonic_ns: 12,
            error_ns: 5,
        };
        let set = Skew { wall_drift_ppm: 50_000, ..Skew::default() };
        let one =
            ProcessClock { pid: 7, program: "redis-server".to_owned(), threads: 5, set: Some(set), seen };
        assert_eq!(
            in_words(&one),
            "process 7 (redis-server): the wall clock is 30.000 s behind, at a rate of 1.05; the monotonic clock is true; \
             seen by one of its 5 threads, which share the clocks"
        );
    }
}
