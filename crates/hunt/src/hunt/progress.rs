//! What a hunt has done and found so far: the state that all its workers share.

use super::effects::Effects;
use super::folder::{HuntFolder, HuntState};
use super::observer::Status;
use super::request::HuntRequest;
use super::seen_violation::{GRANTED_TWICE, SeenViolation, explains};
use crate::search::{Proposal, ScheduleCoverage, ScheduleOutcome, Search, ShownViolation};
use anyhow::Result;
use fencepost_checker::Whose;
use fencepost_history::Event;
use fencepost_report::findings::{FaultCause, FindingFile, RUN, free_name};
use fencepost_report::hunt::{
    Compared, FindingState, HuntFile, HuntFinding, NearestMiss, REMARKS_MAX, SituationCount,
};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Failures in a row that end a hunt, with an addition for each schedule side by side, as all of them may
/// fail at once: one server that does not come back may be bad luck, so many are the machine's.
const FAILURES_IN_A_ROW: u64 = 8;
const FAILURES_OF_EACH_JOB: u64 = 2;

pub(super) struct Progress {
    pub(super) search: Search,
    pub(super) file: HuntFile,
    request: HuntRequest,
    begun: Instant,
    /// Seconds and schedules of earlier sittings.
    before: (u64, u64),
    failures_in_a_row: u64,
    pub(super) worked_on: Vec<String>,
    /// No schedule follows, and the time no longer counts: only findings are still worked out.
    is_over: bool,
    effects: Effects,
}

impl Progress {
    pub(super) fn new(search: Search, file: HuntFile, request: HuntRequest) -> Progress {
        let before = (file.spent_ms, file.schedules);
        Progress {
            search,
            file,
            request,
            begun: Instant::now(),
            before,
            failures_in_a_row: 0,
            worked_on: Vec::new(),
            is_over: false,
            effects: Effects::default(),
        }
    }

    pub(super) fn change_request(&mut self, request: HuntRequest) {
        self.request = request;
    }

    pub(super) fn state(&self) -> HuntState {
        HuntState {
            file: self.file.clone(),
            request: self.request.clone(),
            next: self.search.next_number(),
            cells: self.search.archive.cells.clone(),
        }
    }

    pub(super) fn note_time(&mut self) {
        if self.is_over {
            return;
        }
        let spent = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.file.spent_ms = self.before.0 + spent;
    }

    pub(super) fn note_end(&mut self) {
        self.note_time();
        self.is_over = true;
    }

    pub(super) fn status(&self) -> Status {
        let minutes = self.begun.elapsed().as_secs_f64() / 60.0;
        Status {
            spent: Duration::from_millis(self.file.spent_ms),
            budget: self.request.budget.0,
            schedules: self.file.schedules,
            per_minute: (self.file.schedules - self.before.1) as f64 / minutes.max(1e-3),
            covered: self.file.covered(),
            possible: self.file.possible(),
            nearest_ms: self.file.nearest_miss.as_ref().map(|miss| miss.ms),
            findings: self.file.found(),
            shared: self.file.shared(),
        }
    }

    /// Learns from a played schedule, and keeps it if worth that. Gives the names of new findings.
    pub(super) fn learn(
        &mut self,
        proposal: &Proposal,
        coverage: &ScheduleCoverage,
        violations: &[SeenViolation],
        folder: &HuntFolder,
    ) -> Result<Vec<Option<String>>> {
        self.note_time();
        self.failures_in_a_row = 0;
        self.file.schedules += 1;
        self.note_situations(proposal.number, coverage, !violations.is_empty());
        let found: Vec<Option<String>> =
            violations.iter().map(|seen| self.note_violation(proposal.number, seen)).collect();
        let violation = match (violations.is_empty(), found.iter().any(Option::is_some)) {
            (true, _) => ShownViolation::None,
            (false, true) => ShownViolation::New,
            (false, false) => ShownViolation::Known,
        };
        let outcome = self.search.learn(proposal, coverage, violation);
        self.keep(proposal, &outcome, folder)?;
        self.file.note_coverage();
        folder.write(&self.state())?;
        Ok(found)
    }

    /// Notes which faults of a run took effect. Gives a sentence on each nemesis that is left out now.
    pub(super) fn note_effects(&mut self, history: &[Event]) -> Vec<String> {
        self.effects.note(history);
        let nemeses = &self.search.space.nemeses;
        let idle: Vec<&'static str> =
            nemeses.iter().map(|nemesis| nemesis.name()).filter(|name| self.effects.has_none(name)).collect();
        let mut sentences = Vec::new();
        for name in idle {
            let sentence =
                format!("left out from here on: {name}, none of whose faults took effect on this machine");
            self.search.leave_out(name);
            self.remark(sentence.clone());
            sentences.push(sentence);
        }
        sentences
    }

    fn keep(&self, proposal: &Proposal, outcome: &ScheduleOutcome, folder: &HuntFolder) -> Result<()> {
        if outcome.is_kept() && !outcome.dropped.contains(&proposal.number) {
            folder.keep(proposal.number, &proposal.schedule, &proposal.origin.to_string())?;
        }
        folder.drop_kept(&outcome.dropped);
        Ok(())
    }

    fn note_situations(&mut self, number: u64, coverage: &ScheduleCoverage, is_violation: bool) {
        for (name, seen) in &coverage.situations {
            let first_ms = (seen.times > 0).then_some(self.file.spent_ms);
            let seen = SituationCount { first_ms, ..seen.clone() };
            match self.file.situations.get_mut(name) {
                None => {
                    self.file.situations.insert(name.clone(), seen);
                }
                Some(known) => known.add(&seen),
            }
        }
        let miss = coverage.miss.as_ref().filter(|_| !is_violation);
        if let Some((ms, sentence)) = miss
            && self.file.nearest_miss.as_ref().is_none_or(|known| *ms < known.ms)
        {
            self.file.nearest_miss =
                Some(NearestMiss { ms: *ms, schedule: number, sentence: sentence.clone() });
        }
    }

    /// Notes a violation. Gives the name of its finding where it is new.
    pub(super) fn note_violation(&mut self, schedule: u64, seen: &SeenViolation) -> Option<String> {
        // A write that only a fence refuses says the same, whatever made it late.
        let is_late = seen.whose == Some(Whose::NoFence);
        let is_known = |finding: &&mut HuntFinding| {
            explains(&finding.signature, &seen.signature) || is_late && finding.whose == seen.whose
        };
        if let Some(known) = self.file.findings.iter_mut().find(is_known) {
            known.times += 1;
            if known.state == FindingState::Gone {
                known.state = FindingState::Known;
            }
            return None;
        }
        let taken: BTreeSet<&str> = self.file.findings.iter().map(|finding| finding.name.as_str()).collect();
        let name = free_name(seen.signature.name(), |name| !taken.contains(name));
        let is_of_servers = self.file.against.is_some() && (is_late || self.is_of_servers(&seen.signature));
        self.file.findings.push(HuntFinding {
            whose: seen.whose,
            found_ms: self.file.spent_ms,
            schedule,
            times: 1,
            compared: is_of_servers.then_some(Compared::OfServers),
            ..HuntFinding::new(&name, &seen.signature, &seen.sentence)
        });
        Some(name)
    }

    pub(super) fn note_known(&mut self, known: &FindingFile, (seen, plays): (usize, usize)) {
        let state = if seen > 0 { FindingState::Known } else { FindingState::Gone };
        self.file.findings.push(HuntFinding {
            state,
            whose: known.whose,
            reproduced: Some((seen, plays)),
            faults: known.after.faults,
            clients: known.after.clients,
            command: Some(known.command.clone()),
            ..HuntFinding::new(&known.name, &known.signature, &known.sentence)
        });
    }

    pub(super) fn finding(&self, name: &str) -> Option<&HuntFinding> {
        self.file.findings.iter().find(|finding| finding.name == name)
    }

    /// Whether a finding is still to be worked out, and no other explains it by now.
    pub(super) fn is_open(&self, name: &str) -> bool {
        self.finding(name).is_some_and(|finding| {
            finding.state == FindingState::Found
                && finding.compared != Some(Compared::OfServers)
                && !self.has_example(finding)
        })
    }

    /// The place of a finding in the line. First those that are still to be compared; last those of a kind of
    /// which one is known to be the lock's own, which say little more. Between them, in this order: the
    /// lock's own failures that are no late write; new faults before those of an explaining or worked-out
    /// finding; what no fault of the servers can explain; the fewest causes, which tell most; certain ones.
    pub(super) fn rank(&self, name: &str) -> (bool, bool, bool, bool, bool, usize, bool) {
        let findings = &self.file.findings;
        let Some(finding) = self.finding(name) else {
            return (true, true, true, true, true, usize::MAX, true);
        };
        let is_begun =
            |other: &&HuntFinding| other.state != FindingState::Found || self.worked_on.contains(&other.name);
        let mut begun = findings.iter().filter(is_begun).map(|other| &other.signature);
        let has_been = begun.any(|other| {
            let named =
                |cause: &FaultCause| finding.signature.causes.iter().any(|own| own.fault == cause.fault);
            [finding.signature.class.as_str(), GRANTED_TWICE].contains(&other.class.as_str())
                && other.causes.iter().all(named)
        });
        let is_late_only = finding.whose == Some(Whose::NoFence);
        let (causes, is_uncertain) =
            (finding.signature.causes.len(), finding.signature.class != GRANTED_TWICE);
        let is_service = finding.whose == Some(Whose::Service);
        let is_repetition = finding.compared.is_none() && self.has_own(finding);
        (is_repetition, finding.compared.is_some(), is_late_only, has_been, is_service, causes, is_uncertain)
    }

    /// Notes what a finding became: small, named by its remaining causes, one with any of that signature.
    pub(super) fn note_small(&mut self, name: &str, small: &FindingFile) {
        let worked_on = &self.worked_on;
        let is_explained = |finding: &HuntFinding| {
            finding.state == FindingState::Found
                && !worked_on.contains(&finding.name)
                && explains(&small.signature, &finding.signature)
        };
        let same = |finding: &HuntFinding| {
            finding.name != name && (finding.signature == small.signature || is_explained(finding))
        };
        let twins: u64 =
            self.file.findings.iter().filter(|finding| same(finding)).map(|twin| twin.times).sum();
        self.file.findings.retain(|finding| !same(finding));
        self.change_finding(name, |finding| {
            finding.name.clone_from(&small.name);
            finding.signature = small.signature.clone();
            finding.whose = small.whose;
            finding.sentence.clone_from(&small.sentence);
            finding.times += twins;
            finding.state = FindingState::Minimised;
            finding.reproduced = Some((small.violations, small.plays));
            (finding.faults, finding.clients) = (small.after.faults, small.after.clients);
            finding.run = Some(format!("findings/{}/{RUN}", small.name));
            finding.command = Some(small.command.clone());
        });
    }

    pub(super) fn change_finding(&mut self, name: &str, change: impl FnOnce(&mut HuntFinding)) {
        if let Some(finding) = self.file.findings.iter_mut().find(|finding| finding.name == name) {
            change(finding);
        }
    }

    /// Notes a schedule that could not be carried out. Gives a sentence where too many in a row failed.
    pub(super) fn note_failure(&mut self, number: u64, why: &str) -> Option<String> {
        self.note_time();
        self.file.failed += 1;
        self.search.put_back(number);
        self.failures_in_a_row += 1;
        self.remark(format!("schedule {number} failed: {why}"));
        let most = FAILURES_IN_A_ROW.max(FAILURES_OF_EACH_JOB * self.request.jobs as u64);
        (self.failures_in_a_row >= most)
            .then(|| format!("{most} schedules in a row failed, the last with: {why}"))
    }

    pub(super) fn note_busy_machine(&mut self) {
        let sentence = format!(
            "processes held on past their TTL of {} without any fault: this machine is too busy for it; use fewer --jobs or a \
             longer --ttl",
            self.request.options.ttl
        );
        if !self.file.remarks.contains(&sentence) {
            self.remark(sentence);
        }
    }

    pub(super) fn remark(&mut self, sentence: String) {
        if self.file.remarks.len() < REMARKS_MAX {
            self.file.remarks.push(sentence);
        }
    }
}
