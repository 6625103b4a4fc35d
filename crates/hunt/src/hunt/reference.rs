//! Whether a finding is the lock's own: what a right lock does on the same servers. Every lease lock on one
//! Redis is granted twice once the server's clock jumps. So each new violation is played on the reference,
//! the built-in lock of the same service, under the same plan of faults: before it is made small, and again
//! when it is small. What the reference shows, too, is of the servers: it is not worked on, and explains all
//! that comes later with the same causes and more.

use super::progress::Progress;
use super::seen_violation::{all_violations, explains, is_same_breach};
use super::state::{Found, Hunt};
use crate::player::Player;
use crate::schedule::Schedule;
use crate::shrink::{Shrunk, plays_to_show};
use anyhow::Result;
use fencepost_campaign::Played;
use fencepost_checker::{Outcome, Whose};
use fencepost_engine::BadUsage;
use fencepost_report::findings::Signature;
use fencepost_report::hunt::{Compared, FindingState, HuntFinding};
use std::fs;
use std::time::Instant;

/// Plays of the reference for a new violation; more after faults of servers, where most plays show it.
const PLAYS: usize = 2;
const PLAYS_UNDER_FAULTS_OF_SERVERS: usize = 5;

/// The same for a violation that was made small, fewest and most.
const PLAYS_OF_SMALL: (usize, usize) = (4, 12);

/// This schedule for another lock on the same servers. It is prolonged where the lock under test is: a right
/// lock that is held beyond its TTL, too, would be had twice. The error: one sentence, the plan does not fit.
fn of_reference(reference: &str, schedule: &Schedule) -> Result<Schedule, BadUsage> {
    let spec = schedule.spec()?.of_reference(reference)?;
    let mut renewing = Schedule { options: spec.options, ..schedule.clone() };
    let plain = renewing.clone();
    renewing.options.lock_options.watchdog = true;
    let outlasts = plain.options.hold.is_some_and(|hold| hold.longest > plain.options.ttl);
    // Not every lock has a watchdog: the lease of a session is prolonged anyway.
    Ok(if outlasts && renewing.spec().is_ok() { renewing } else { plain })
}

impl Hunt {
    /// Compares a new finding, says what came of it, and puts it back in line where it is the lock's own.
    pub(super) async fn compare_found(&self, found: &Found, until: Instant) -> Result<()> {
        let whose = self.progress.lock().finding(&found.name).and_then(|finding| finding.whose);
        let plays = if whose == Some(Whose::Service) { PLAYS_UNDER_FAULTS_OF_SERVERS } else { PLAYS };
        let compared = self.compare(&found.name, &found.schedule, plays, until).await?;
        if compared != Compared::OfServers && self.stop.reason().is_none() {
            if let Some(finding) = self.progress.lock().finding(&found.name) {
                self.say_found(&finding.signature, &finding.sentence, finding.whose);
            }
            self.found.lock().push_back(found.clone());
        }
        Ok(())
    }

    /// Compares a finding that is small now: with other faults beside it, a reference shows less.
    pub(super) async fn compare_small(&self, name: &str, shrunk: &Shrunk, until: Instant) -> Result<()> {
        if self.request.against.is_some() {
            let plays = plays_to_show(shrunk.rate, PLAYS_OF_SMALL);
            let compared = self.compare(name, &shrunk.schedule, plays, until).await?;
            // A right lock does not do this on the same servers and faults, so it is no failure of theirs.
            if compared == Compared::Own {
                let mut progress = self.progress.lock();
                progress.change_finding(name, |finding| {
                    if finding.whose == Some(Whose::Service) {
                        finding.whose = Some(Whose::Library);
                    }
                });
                let _ = self.folder.write(&progress.state());
            }
        }
        Ok(())
    }

    async fn compare(
        &self,
        name: &str,
        schedule: &Schedule,
        plays_max: usize,
        until: Instant,
    ) -> Result<Compared> {
        let signature = self.progress.lock().finding(name).map(|finding| finding.signature.clone());
        let (Some(reference), Some(signature)) = (&self.request.against, signature) else {
            return Ok(Compared::Unknown);
        };
        let asked = self.ask_reference(reference, &signature, schedule, plays_max, until).await?;
        let mut progress = self.progress.lock();
        let compared = asked.unwrap_or_else(|why| {
            progress.remark(format!("{name} could not be compared: {why}"));
            Compared::Unknown
        });
        // What an earlier comparison said stands where this one says nothing.
        progress.change_finding(name, |finding| finding.compared = finding.compared.max(Some(compared)));
        let _ = self.folder.write(&progress.state());
        drop(progress);
        if compared == Compared::OfServers {
            self.observer.message(&format!("not specific to this lock: {signature}: {reference} shows it"));
        }
        Ok(compared)
    }

    /// Plays the reference under a violation's faults until it shows it or played often enough; or why not.
    async fn ask_reference(
        &self,
        reference: &str,
        signature: &Signature,
        schedule: &Schedule,
        plays_max: usize,
        until: Instant,
    ) -> Result<Result<Compared, String>> {
        if self.progress.lock().is_of_servers(signature) {
            return Ok(Ok(Compared::OfServers));
        }
        let other = match of_reference(reference, schedule) {
            Ok(other) => other,
            Err(refused) => return Ok(Err(format!("{reference} cannot play it: {refused}"))),
        };
        let mut asked = Err("the time was over".to_owned());
        for _ in 0..plays_max {
            if self.stop.reason().is_some() || !self.ends_by(until) {
                break;
            }
            let played = self.player.play(&other).await?;
            let shows = self.learn_of_reference(signature, &played);
            let _ = fs::remove_dir_all(&played.folder);
            match played.verdict.outcome {
                _ if shows => return Ok(Ok(Compared::OfServers)),
                Outcome::Valid | Outcome::Violation => asked = Ok(Compared::Own),
                outcome if asked.is_err() => asked = Err(format!("a run of {reference} ended {outcome}")),
                _ => {}
            }
        }
        Ok(asked)
    }

    /// Learns from a run of the reference under the plan of a violation. Gives whether it shows that.
    fn learn_of_reference(&self, signature: &Signature, played: &Played) -> bool {
        let mut progress = self.progress.lock();
        progress.note_reference_play();
        for seen in all_violations(played) {
            // Under one plan the same faults on the same nodes are behind it; only the holders may differ.
            let same_faults = || seen.signature.faults().is_subset(&signature.faults());
            if is_same_breach(&seen.signature, signature) && same_faults() {
                progress.note_of_servers(signature.clone());
            }
            progress.note_of_servers(seen.signature);
        }
        progress.is_of_servers(signature)
    }
}

impl Progress {
    pub(super) fn is_to_compare(&self, name: &str) -> bool {
        let is_compared = |finding: &HuntFinding| finding.compared.is_some();
        self.file.against.is_some() && !self.finding(name).is_none_or(is_compared)
    }

    /// Whether another finding of the kind is small, or becomes so now: one small example of a bug says all.
    pub(super) fn has_example(&self, finding: &HuntFinding) -> bool {
        let is_example = |other: &HuntFinding| {
            let is_worked_on = other.compared.is_some() && self.worked_on.contains(&other.name);
            other.name != finding.name
                && other.kind() == finding.kind()
                && (other.state == FindingState::Minimised || is_worked_on)
        };
        self.file.against.is_some() && finding.compared.is_some() && self.file.findings.iter().any(is_example)
    }

    /// Whether another finding of the same breach is known to be the lock's own failure.
    pub(super) fn has_own(&self, finding: &HuntFinding) -> bool {
        let same = |other: &HuntFinding| {
            (&other.signature.checker, &other.signature.class)
                == (&finding.signature.checker, &finding.signature.class)
        };
        self.file.findings.iter().any(|other| {
            other.compared == Some(Compared::Own) && other.whose == Some(Whose::Library) && same(other)
        })
    }

    pub(super) fn is_of_servers(&self, signature: &Signature) -> bool {
        let shown = self.file.against.iter().flat_map(|against| &against.shown);
        shown.into_iter().any(|shown| explains(shown, signature))
    }

    fn note_of_servers(&mut self, signature: Signature) {
        let is_known = self.is_of_servers(&signature);
        let Some(against) = self.file.against.as_mut().filter(|_| !is_known) else { return };
        against.shown.push(signature);
        let shown = &against.shown;
        for finding in &mut self.file.findings {
            let is_open = finding.state == FindingState::Found && finding.compared.is_none();
            if is_open && shown.iter().any(|shown| explains(shown, &finding.signature)) {
                finding.compared = Some(Compared::OfServers);
            }
        }
    }

    fn note_reference_play(&mut self) {
        if let Some(against) = &mut self.file.against {
            against.plays += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_engine::RunOptions;
    use fencepost_history::TimeSpan;
    use fencepost_nemesis::Plan;
    use fencepost_report::Rate;

    #[test]
    fn the_reference_of_a_lock_that_is_held_for_long_is_prolonged() {
        let watches = |lock: &str, reference: &str, hold| {
            let options = RunOptions { lock: lock.to_owned(), hold, ..RunOptions::default() };
            let schedule = Schedule::new(options, Plan::default());
            of_reference(reference, &schedule).unwrap().options.lock_options.watchdog
        };
        let four_ttls = Some(TimeSpan::from_secs(8).into());
        assert!(watches("redis-single", "redis-single", four_ttls));
        assert!(!watches("redis-single", "redis-single", None));
        assert!(!watches("etcd-lock-api", "etcd", four_ttls), "its session is prolonged anyway");
    }

    #[test]
    fn a_rare_violation_takes_more_plays_of_the_reference() {
        let plays = |violations, plays| plays_to_show(Rate { violations, plays }, PLAYS_OF_SMALL);
        assert_eq!((plays(10, 10), plays(8, 10), plays(4, 10), plays(1, 10)), (4, 4, 9, 12));
    }
}
