//! The result of a hunt: a violation, something undecided, too little to say anything, or nothing found.

use super::file::{Compared, FindingState, HuntFile, HuntFinding};
use fencepost_history::TimeSpan;
use fencepost_history::prose::counted;

/// A hunt that played fewer schedules says nothing of its lock.
pub const SCHEDULES_MIN: u64 = 10;

/// Nor does one that covered a smaller part of the situations that its schedules made possible, in percent.
pub const SITUATIONS_MIN_PERCENT: u64 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HuntWorth {
    /// The lock, or what it was compared with in vain, shows a violation.
    Violation,
    Undecided,
    TooLittle(String),
    NothingFound,
}

impl HuntFile {
    /// How long a hunt has to be to play enough schedules at the pace of this one, in whole minutes; none
    /// where it did not lack time.
    pub fn long_enough(&self) -> Option<TimeSpan> {
        let pace_ms = self.spent_ms.checked_div(self.schedules)?;
        let minutes = (pace_ms * (SCHEDULES_MIN + 1)).div_ceil(60_000).max(1);
        (self.schedules < SCHEDULES_MIN).then(|| TimeSpan::from_secs(minutes * 60))
    }

    pub fn worth(&self) -> HuntWorth {
        if self.has_own_violation() {
            return HuntWorth::Violation;
        }
        if self.undecided_findings().next().is_some() {
            return HuntWorth::Undecided;
        }
        self.too_little().map_or(HuntWorth::NothingFound, HuntWorth::TooLittle)
    }

    /// What was seen, and may be what any lock shows on these servers.
    pub fn undecided_findings(&self) -> impl Iterator<Item = &HuntFinding> {
        self.findings.iter().filter(|finding| self.is_undecided(finding))
    }

    /// Why a hunt that found nothing says nothing: a clause; none where it played enough.
    fn too_little(&self) -> Option<String> {
        let failed = match self.failed {
            0 => String::new(),
            count => format!(", and {} failed", counted(count, "schedule", "schedules")),
        };
        let (covered, possible) = (self.covered(), self.possible());
        if self.schedules < SCHEDULES_MIN {
            let played = counted(self.schedules, "schedule was", "schedules were");
            return Some(format!(
                "{played} played{failed}; fewer than {SCHEDULES_MIN} say nothing of a lock"
            ));
        }
        if covered == 0 {
            return Some(format!("no fault took effect in {} schedules{failed}", self.schedules));
        }
        (covered * 100 < possible * SITUATIONS_MIN_PERCENT).then(|| {
            format!(
                "{covered} of {possible} situations came about{failed}; less than {SITUATIONS_MIN_PERCENT} % say nothing of a lock"
            )
        })
    }
}

impl HuntFinding {
    pub fn how_sure(&self, against: Option<&str>) -> String {
        let again = match (self.state, self.reproduced) {
            (FindingState::Rare, _) => "it did not come again when its run was replayed".to_owned(),
            (_, Some((times, of))) => format!("reproduced in {times} of {of} plays"),
            _ => "one run shows it; there was no time to play that again".to_owned(),
        };
        let compared = match (self.compared, against) {
            (Some(Compared::Own), Some(lock)) if self.signature.causes.is_empty() => {
                format!(", and {lock} did not show it in the same run")
            }
            (Some(Compared::Own), Some(lock)) => {
                format!(", and {lock} did not show it under the same faults")
            }
            (Some(Compared::OfServers), Some(lock)) => format!(", and {lock} showed it, too"),
            (Some(Compared::Unknown), Some(lock)) => {
                format!(", and {lock} could not be tested for it")
            }
            (None, Some(lock)) if self.state != FindingState::Known => {
                format!(", and there was no time to test {lock} for it")
            }
            _ => String::new(),
        };
        format!("{again}{compared}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::hunt;
    use super::*;
    use fencepost_checker::Whose;

    fn nothing_found() -> HuntFile {
        HuntFile { findings: Vec::new(), ..hunt() }
    }

    #[test]
    fn a_hunt_that_could_not_play_says_nothing() {
        let worth = |schedules, failed| HuntFile { schedules, failed, ..nothing_found() }.worth();
        assert_eq!(worth(10, 5), HuntWorth::NothingFound);
        let HuntWorth::TooLittle(why) = worth(1, 5) else { panic!("one schedule of six") };
        assert_eq!(why, "1 schedule was played, and 5 schedules failed; fewer than 10 say nothing of a lock");
        assert!(matches!(worth(9, 0), HuntWorth::TooLittle(_)));
        let takes = |schedules, spent_ms| {
            let file = HuntFile { schedules, spent_ms, ..nothing_found() };
            file.long_enough().map(|time| time.to_string())
        };
        assert_eq!(
            [takes(3, 60_000), takes(0, 60_000), takes(10, 60_000)],
            [Some("240s".to_owned()), None, None]
        );
        // What was found stays found.
        assert_eq!(HuntFile { schedules: 1, failed: 5, ..hunt() }.worth(), HuntWorth::Violation);
    }

    #[test]
    fn a_hunt_whose_faults_hardly_took_effect_says_nothing() {
        let covering = |covered: usize, possible: usize| {
            let mut file = nothing_found();
            let template = file.situations.values().next().expect("one").clone();
            let situation = |number: usize| {
                let times = u64::from(number < covered);
                (format!("s{number}"), super::super::SituationCount { times, ..template.clone() })
            };
            file.situations = (0..possible).map(situation).collect();
            file.worth()
        };
        assert_eq!(covering(2, 40), HuntWorth::NothingFound);
        assert!(
            matches!(covering(0, 40), HuntWorth::TooLittle(why) if why.starts_with("no fault took effect"))
        );
        let HuntWorth::TooLittle(why) = covering(1, 40) else { panic!("one of forty") };
        assert!(why.starts_with("1 of 40 situations came about"), "{why}");
    }

    #[test]
    fn what_was_seen_and_not_decided_is_no_hunt_that_found_nothing() {
        let mut file = hunt();
        file.against = Some(super::super::HuntReference::new("redis-single".to_owned()));
        file.findings[0].whose = Some(Whose::Service);
        file.findings[0].compared = None;
        assert_eq!(file.worth(), HuntWorth::Undecided);
        let sure = file.findings[0].how_sure(Some("redis-single"));
        assert!(sure.starts_with("reproduced in 9 of 10 plays, and there was no time to test"), "{sure}");
        file.findings[0].compared = Some(Compared::OfServers);
        assert_eq!(file.worth(), HuntWorth::NothingFound);
        file.findings[0].compared = Some(Compared::Own);
        let sure = |file: &HuntFile| file.findings[0].how_sure(Some("redis-single"));
        assert!(sure(&file).ends_with("redis-single did not show it under the same faults"));
        file.findings[0].signature.causes.clear();
        assert!(sure(&file).ends_with("redis-single did not show it in the same run"));
    }
}
