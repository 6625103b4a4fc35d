//! Options that shape the faults of some nemeses only: they are refused where a run has none of these, since
//! its user expects an effect that will not come.

use crate::names::BadUsage;
use crate::options::RunOptions;
use fencepost_history::prose::and;
use fencepost_nemesis::{Clock, Nemesis, registry};

/// The option that says how clocks are moved, whether a fault was drawn or read from a plan.
const OF_PLANS_TOO: &str = "clock-mechanism";

/// Where the faults of a run come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// Drawn from the seed.
    Drawn,
    /// Read from a plan or a scenario, which says all about them.
    Written,
}

impl RunOptions {
    /// Options for a command whose runs have faults of these nemeses. Of those that none of them takes, the
    /// ones that `is_usual` names are left out: the user wrote them down for other runs, in `fencepost.toml`.
    ///
    /// # Errors
    /// One sentence: an option that none of these nemeses takes.
    pub fn shaped_for(
        mut self,
        nemeses: &[&dyn Nemesis],
        faults: Faults,
        is_usual: impl Fn(&str) -> bool,
    ) -> Result<RunOptions, BadUsage> {
        for option in self.shaping().filter(|option| is_usual(option)).collect::<Vec<_>>() {
            if !is_taken(option, nemeses, faults) {
                self.leave_out(option);
            }
        }
        self.check_shaping(nemeses, faults)?;
        Ok(self)
    }

    /// The same options for a run with faults of these nemeses, without those that belong to others.
    #[must_use]
    pub fn without_unused(self, nemeses: &[&dyn Nemesis]) -> RunOptions {
        self.shaped_for(nemeses, Faults::Drawn, |_| true).expect("everything that is not used was left out")
    }

    /// Refuses an option that none of these nemeses takes, or that only drawn faults take.
    pub(crate) fn check_shaping(&self, nemeses: &[&dyn Nemesis], faults: Faults) -> Result<(), BadUsage> {
        for option in self.shaping() {
            if faults == Faults::Written && option != OF_PLANS_TOO {
                let sentence = format!(
                    "--{option} shapes faults that are drawn, and the faults of this run are written down; say it in them, \
                     and leave --{option} out"
                );
                return Err(BadUsage::at(option, sentence));
            }
            if !is_taken(option, nemeses, faults) {
                return Err(refusal(option));
            }
        }
        Ok(())
    }

    /// The options that are given, and that shape the faults of some nemeses only.
    fn shaping(&self) -> impl Iterator<Item = &'static str> + use<> {
        let given = [
            ("clock", self.clock != Clock::default()),
            ("clock-amplitude", self.clock_amplitude.is_some()),
            ("clock-drift-ppm", self.clock_drift_ppm.is_some()),
            (OF_PLANS_TOO, self.clock_mechanism.is_some()),
            ("restart-after", self.restart_after.is_some()),
            ("torn-writes", self.torn_writes.is_some()),
            ("partition", self.partition.is_some()),
        ];
        given.into_iter().filter_map(|(option, is_given)| is_given.then_some(option))
    }

    fn leave_out(&mut self, option: &str) {
        match option {
            "clock" => self.clock = Clock::default(),
            "clock-amplitude" => self.clock_amplitude = None,
            "clock-drift-ppm" => self.clock_drift_ppm = None,
            OF_PLANS_TOO => self.clock_mechanism = None,
            "restart-after" => self.restart_after = None,
            "torn-writes" => self.torn_writes = None,
            "partition" => self.partition = None,
            _ => unreachable!("every option that shapes faults is listed here"),
        }
    }
}

fn is_taken(option: &str, nemeses: &[&dyn Nemesis], faults: Faults) -> bool {
    (faults == Faults::Drawn || option == OF_PLANS_TOO)
        && nemeses.iter().any(|nemesis| nemesis.description().options.contains(&option))
}

fn refusal(option: &str) -> BadUsage {
    let takers = registry().iter().filter(|nemesis| nemesis.description().options.contains(&option));
    let takers: Vec<&str> = takers.map(|nemesis| nemesis.name()).collect();
    let (noun, which) = match takers.len() {
        1 => ("the nemesis", "which"),
        _ => ("the nemeses", "none of which"),
    };
    let has = if takers.len() == 1 { "does not have" } else { "has" };
    let sentence = format!(
        "--{option} shapes the faults of {noun} {}, {which} this run {has}; name one with --nemesis, or leave --{option} out",
        and(&takers)
    );
    BadUsage::at(option, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_history::TimeSpan;
    use fencepost_nemesis::find;

    fn options() -> RunOptions {
        RunOptions {
            restart_after: Some(TimeSpan::from_secs(1)),
            partition: Some("c1|n1".to_owned()),
            ..RunOptions::default()
        }
    }

    #[test]
    fn each_option_is_of_some_nemesis_and_can_be_left_out() {
        let everything = RunOptions {
            clock: Clock::Both,
            clock_amplitude: Some(TimeSpan::from_secs(1)),
            clock_drift_ppm: std::num::NonZeroU32::new(5),
            clock_mechanism: Some(fencepost_cluster::ClockMechanism::Vdso),
            torn_writes: Some(fencepost_nemesis::tools::disk::Torn::Prefix),
            ..options()
        };
        assert_eq!(everything.shaping().count(), 7);
        assert!(everything.check_shaping(registry(), Faults::Drawn).is_ok());
        assert_eq!(everything.without_unused(&[]), RunOptions::default());
        let known: Vec<&str> = options().shaping().chain(["clock", "clock-amplitude"]).collect();
        let declared = registry().iter().flat_map(|nemesis| nemesis.description().options.iter());
        let undeclared = ["clock-drift-ppm", OF_PLANS_TOO, "torn-writes"];
        for option in declared {
            assert!(known.contains(option) || undeclared.contains(option), "{option} is not listed here");
        }
    }

    #[test]
    fn an_option_without_its_nemesis_is_refused_but_for_usual_ones() {
        let (kill, pause) = (find("kill").unwrap(), find("pause").unwrap());
        let refused = |nemeses: &[&dyn Nemesis], usual: &str| {
            options()
                .shaped_for(nemeses, Faults::Drawn, |option| option == usual)
                .map_err(|error| error.sentence)
        };
        assert_eq!(
            refused(&[pause, kill], "").unwrap_err(),
            "--partition shapes the faults of the nemesis partition, which this run does not have; name one with --nemesis, or \
             leave --partition out"
        );
        assert!(
            refused(&[pause], "partition")
                .unwrap_err()
                .contains("kill, power-loss, failover and leader-kill")
        );
        let fitted = refused(&[kill], "partition").unwrap();
        assert_eq!((fitted.partition, fitted.restart_after), (None, options().restart_after));
    }

    #[test]
    fn a_plan_says_all_about_its_faults_but_for_the_mechanism() {
        let jump = find("clock-jump").unwrap();
        let mechanism = RunOptions {
            clock_mechanism: Some(fencepost_cluster::ClockMechanism::Vdso),
            ..RunOptions::default()
        };
        assert!(mechanism.check_shaping(&[jump], Faults::Written).is_ok());
        assert!(mechanism.check_shaping(&[], Faults::Written).is_err());
        let written = options().check_shaping(registry(), Faults::Written).unwrap_err();
        assert!(written.sentence.contains("--restart-after shapes faults that are drawn"), "{written}");
    }
}
