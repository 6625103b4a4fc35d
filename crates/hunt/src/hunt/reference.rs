//! What a right lock does on the same servers: whether a finding is the lock's own, or any lock's there.
//!
//! Every lease lock on one Redis is granted twice once the server's clock jumps. So each new violation is
//! played on the reference, the built-in lock of the same service, under the same plan of faults: before it
//! is made small, and once more as it is small. What the reference shows, too, is of the servers, and is not
//! worked on; and what it has shown once explains all that comes later with the same causes and more.

use super::progress::Progress;
use super::seen_violation::{all_violations, explains};
use super::state::{Found, Hunt};
use crate::player::Player;
use crate::schedule::Schedule;
use anyhow::Result;
use fencepost_campaign::Played;
use fencepost_checker::Outcome;
use fencepost_engine::BadUsage;
use fencepost_report::findings::Signature;
use fencepost_report::hunt::{Compared, FindingState, HuntFinding};
use std::fs;
use std::time::Instant;

/// Plays of the reference for a new violation, and for one that was made small: a right lock shows what is of
/// its servers in most of them.
const PLAYS: usize = 2;
const PLAYS_OF_SMALL: usize = 4;

/// What the comparison of a violation came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Comparison {
    /// The reference does not show it in any of its plays; or the hunt compares nothing.
    Own,
    /// The reference shows it, too.
    OfServers,
    /// The reference could not be played, or was not judged: why.
    Unknown(String),
}

/// This schedule for another lock on the same servers.
///
/// # Errors
/// One sentence: the plan does not fit that lock.
fn of_reference(reference: &str, schedule: &Schedule) -> Result<Schedule, BadUsage> {
    let spec = schedule.spec()?.of_reference(reference)?;
    Ok(Schedule { options: spec.options, ..schedule.clone() })
}

impl Hunt {
    /// Plays the reference under the faults of a violation, until it shows it or was played often enough.
    pub(super) async fn compare(
        &self,
        signature: &Signature,
        schedule: &Schedule,
        plays_max: usize,
        until: Instant,
    ) -> Result<Comparison> {
        let Some(reference) = &self.request.against else { return Ok(Comparison::Own) };
        if self.progress.lock().is_of_servers(signature) {
            return Ok(Comparison::OfServers);
        }
        let other = match of_reference(reference, schedule) {
            Ok(other) => other,
            Err(refused) => return Ok(Comparison::Unknown(format!("{reference} cannot play it: {refused}"))),
        };
        let mut judged = 0;
        let mut why = "the time was over".to_owned();
        for _ in 0..plays_max {
            if self.stop.reason().is_some() || Instant::now() >= until {
                break;
            }
            let played = self.player.play(&other).await?;
            let outcome = played.verdict.outcome;
            let shows = self.learn_of_reference(signature, &played);
            let _ = fs::remove_dir_all(&played.folder);
            if shows {
                return Ok(Comparison::OfServers);
            }
            match outcome {
                Outcome::Valid | Outcome::Violation => judged += 1,
                _ => why = format!("a run of {reference} ended {outcome}"),
            }
        }
        Ok(if judged > 0 { Comparison::Own } else { Comparison::Unknown(why) })
    }

    /// Learns from a run of the reference under the plan of a violation. Whether it shows it.
    fn learn_of_reference(&self, signature: &Signature, played: &Played) -> bool {
        let shown = all_violations(played);
        let mut progress = self.progress.lock();
        progress.note_reference_play();
        for seen in shown {
            // Under the same plan, the same faults on the same nodes are behind it: only who held a lock on
            // them may differ.
            if is_same_breach(&seen.signature, signature) {
                progress.note_of_servers(signature.clone());
            }
            progress.note_of_servers(seen.signature);
        }
        progress.is_of_servers(signature)
    }

    /// Compares a new finding, says what came of it, and puts it back in line where it is the lock's own.
    pub(super) async fn compare_found(&self, found: &Found, until: Instant) -> Result<()> {
        let Some(signature) = self.progress.lock().signature(&found.name) else { return Ok(()) };
        let compared = self.compare(&signature, &found.schedule, PLAYS, until).await?;
        self.note_compared(&found.name, &compared);
        if compared == Comparison::OfServers {
            self.say_of_servers(&signature);
        } else if self.stop.reason().is_none() {
            let (whose, sentence) = self.progress.lock().words(&found.name);
            self.observer.message(&format!("finding: {signature}: {sentence}{whose}"));
            self.found.lock().push_back(found.clone());
        }
        Ok(())
    }

    fn say_of_servers(&self, signature: &Signature) {
        let reference = self.request.against.as_deref().unwrap_or_default();
        self.observer.message(&format!("of these servers: {signature}: {reference} shows it, too"));
    }

    /// Compares a finding once more, as it is now that it is small: with other faults beside it, a reference
    /// shows less of what is of its servers.
    pub(super) async fn compare_small(&self, name: &str, schedule: &Schedule, until: Instant) -> Result<()> {
        if self.request.against.is_none() {
            return Ok(());
        }
        let Some(signature) = self.progress.lock().signature(name) else { return Ok(()) };
        let compared = self.compare(&signature, schedule, PLAYS_OF_SMALL, until).await?;
        self.note_compared(name, &compared);
        if compared == Comparison::OfServers {
            self.say_of_servers(&signature);
        }
        Ok(())
    }

    fn note_compared(&self, name: &str, compared: &Comparison) {
        let mut progress = self.progress.lock();
        if let Comparison::Unknown(why) = compared {
            progress.remark(format!("{name} could not be compared: {why}"));
        }
        progress.change_finding(name, |finding| {
            finding.compared = match compared {
                Comparison::Own => Some(Compared::Own),
                Comparison::OfServers => Some(Compared::OfServers),
                // What an earlier comparison said stands.
                Comparison::Unknown(_) => finding.compared.or(Some(Compared::Unknown)),
            };
        });
        let _ = self.folder.write(&progress.state());
    }
}

/// Whether two violations under one plan are the same breach: two holders are, also where the service gets
/// the benefit of the doubt, and by the faults of the one that are all among those of the other.
fn is_same_breach(shown: &Signature, own: &Signature) -> bool {
    let faults = |signature: &Signature| {
        signature.causes.iter().map(|cause| (cause.fault.clone(), String::new())).collect::<Vec<_>>()
    };
    let (shown_faults, own_faults) = (faults(shown), faults(own));
    let without = |signature: &Signature| Signature { causes: Vec::new(), ..signature.clone() };
    explains(&without(shown), &without(own)) && shown_faults.iter().all(|fault| own_faults.contains(fault))
}

impl Progress {
    /// Whether a finding is still to be compared.
    pub(super) fn is_to_compare(&self, name: &str) -> bool {
        let mut findings = self.file.findings.iter();
        self.file.against.is_some()
            && findings.any(|finding| finding.name == name && finding.compared.is_none())
    }

    /// Whether another finding of the same kind is small, or becomes so now: one bug comes under many faults,
    /// and one small example of it says all.
    pub(super) fn has_example(&self, finding: &HuntFinding) -> bool {
        let is_example = |other: &HuntFinding| {
            let is_worked_on = other.compared.is_some() && self.worked_on.contains(&other.name);
            other.name != finding.name
                && other.kind() == finding.kind()
                && (other.state == FindingState::Minimised || is_worked_on)
        };
        let is_compared = finding.compared.is_some();
        self.file.against.is_some() && is_compared && self.file.findings.iter().any(is_example)
    }

    /// Whether the reference has shown what explains this.
    pub(super) fn is_of_servers(&self, signature: &Signature) -> bool {
        let shown = self.file.against.iter().flat_map(|against| &against.shown);
        shown.into_iter().any(|shown| explains(shown, signature))
    }

    fn note_of_servers(&mut self, signature: Signature) {
        let is_known = self.is_of_servers(&signature);
        let Some(against) = self.file.against.as_mut().filter(|_| !is_known) else { return };
        against.shown.push(signature);
        // What is not worked on yet is not worked on any more.
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

    fn signature(&self, name: &str) -> Option<Signature> {
        let finding = self.file.findings.iter().find(|finding| finding.name == name)?;
        Some(finding.signature.clone())
    }

    /// Whose failure a finding is, in brackets, and what happened.
    fn words(&self, name: &str) -> (String, String) {
        let Some(finding) = self.file.findings.iter().find(|finding| finding.name == name) else {
            return Default::default();
        };
        (finding.whose.map_or(String::new(), |whose| format!(" ({whose})")), finding.sentence.clone())
    }
}
