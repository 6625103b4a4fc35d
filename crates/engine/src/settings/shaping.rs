//! Options that shape faults. Those of some nemeses are refused in a run without these: no effect would come.

use crate::settings::names::BadUsage;
use crate::settings::options::RunOptions;
use fencepost_history::prose::and;
use fencepost_nemesis::{Nemesis, NemesisOptions, NemesisSettings, Refusal, Topology, registry};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    Drawn,
    /// Read from a plan or a scenario, which says all about them.
    Written,
}

impl RunOptions {
    /// Options for a command whose runs have faults of these nemeses. Unused ones that `is_usual` names (from
    /// `fencepost.toml`) are left out. Errors: another option that none of these nemeses takes.
    pub fn shaped_for(
        mut self,
        nemeses: &[&dyn Nemesis],
        faults: Faults,
        is_usual: impl Fn(&str) -> bool,
    ) -> Result<RunOptions, BadUsage> {
        for option in self.nemesis_options.changed() {
            if is_usual(&option) && !is_taken(&option, nemeses, faults) {
                self.nemesis_options.leave_out(&option);
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

    /// The settings that all nemeses draw by. Errors: an option that the run's nodes do not allow.
    pub fn nemesis_settings(&self, topology: &Topology) -> Result<NemesisSettings, BadUsage> {
        self.nemesis_options
            .check(topology)
            .map_err(|Refusal { key, sentence, .. }| BadUsage { key, sentence })?;
        Ok(NemesisSettings {
            time_limit: self.time_limit.0,
            interval: self.nemesis_interval.0,
            options: self.nemesis_options.clone(),
        })
    }

    /// Refuses an option that none of these nemeses takes, or that only drawn faults take.
    pub(crate) fn check_shaping(&self, nemeses: &[&dyn Nemesis], faults: Faults) -> Result<(), BadUsage> {
        for option in self.nemesis_options.changed() {
            if faults == Faults::Written && NemesisOptions::only_draws(&option) {
                let sentence = format!(
                    "--{option} shapes faults that are drawn, and the faults of this run are written down; say it in them, \
                     and leave --{option} out"
                );
                return Err(BadUsage::at(&option, sentence));
            }
            if !is_taken(&option, nemeses, faults) {
                return Err(refusal(&option));
            }
        }
        Ok(())
    }
}

fn is_taken(option: &str, nemeses: &[&dyn Nemesis], faults: Faults) -> bool {
    (faults == Faults::Drawn || !NemesisOptions::only_draws(option))
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
    use crate::settings::command_line::tests::each_option;
    use fencepost_history::TimeSpan;
    use fencepost_nemesis::find;

    fn with(nemesis_options: NemesisOptions) -> RunOptions {
        RunOptions { nemesis_options, ..RunOptions::default() }
    }

    fn options() -> RunOptions {
        with(NemesisOptions {
            restart_after: Some(TimeSpan::from_secs(1)),
            partition: Some("c1|n1".to_owned()),
            ..NemesisOptions::default()
        })
    }

    #[test]
    fn each_option_of_nemeses_can_be_left_out() {
        let of_nemeses = NemesisOptions::names();
        for (name, options) in each_option().into_iter().filter(|(name, _)| of_nemeses.contains(name)) {
            assert_eq!(options.nemesis_options.changed(), [name.as_str()]);
            assert!(options.check_shaping(registry(), Faults::Drawn).is_ok(), "no nemesis has --{name}");
            assert_eq!(options.without_unused(&[]), RunOptions::default(), "{name}");
        }
        for option in registry().iter().flat_map(|nemesis| nemesis.description().options) {
            assert!(of_nemeses.iter().any(|name| name == option), "{option} is no option of nemeses");
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
                .contains("kill, terminate, power-loss, failover and leader-kill")
        );
        let fitted = refused(&[kill], "partition").unwrap();
        let (fitted, given) = (fitted.nemesis_options, options().nemesis_options);
        assert_eq!((fitted.partition, fitted.restart_after), (None, given.restart_after));
    }

    #[test]
    fn a_plan_says_all_about_its_faults_but_for_the_mechanism() {
        let jump = find("clock-jump").unwrap();
        let mechanism = with(NemesisOptions {
            clock_mechanism: Some(fencepost_cluster::ClockMechanism::Vdso),
            ..NemesisOptions::default()
        });
        assert!(mechanism.check_shaping(&[jump], Faults::Written).is_ok());
        assert!(mechanism.check_shaping(&[], Faults::Written).is_err());
        let written = options().check_shaping(registry(), Faults::Written).unwrap_err();
        assert!(written.sentence.contains("--restart-after shapes faults that are drawn"), "{written}");
    }
}
