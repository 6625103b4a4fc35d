//! `hunt.json`: what a hunt covered and found. Written after each schedule: a killed hunt can go on.

use crate::confidence::SITUATION;
use crate::findings::{Signature, in_short};
use fencepost_checker::Whose;
use fencepost_history::Seed;
use fencepost_history::prose::counted;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The name of the file in the folder of a hunt.
pub const HUNT_JSON: &str = "hunt.json";

/// Remarks that are kept; more say nothing new.
pub const REMARKS_MAX: usize = 20;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HuntFile {
    pub fencepost: String,
    /// Repeats the hunt.
    pub command: String,
    pub started: u64,
    pub seed: Seed,
    pub lock: String,
    pub driver: String,
    /// Options that all schedules share, as on the command line, where they differ from the defaults.
    pub options: String,
    /// The nemeses that fit the lock and this machine.
    pub nemeses: Vec<String>,
    pub jobs: usize,
    /// Time that was hunted, over all sittings.
    pub spent_ms: u64,
    pub schedules: u64,
    pub failed: u64,
    /// The situations that were possible in some schedule, by name, with how often they came about.
    pub situations: BTreeMap<String, SituationCount>,
    /// The smallest distance to a violation of a schedule that showed none, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest_miss: Option<NearestMiss>,
    /// How the number of covered situations grew.
    pub curve: Vec<CurvePoint>,
    pub findings: Vec<HuntFinding>,
    /// The lock that findings were compared with, if they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<HuntReference>,
    /// What went wrong, or is worth to know: sentences.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// Of a hunt that was merged from parts: what is not there, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Why it ended; none while it goes on, or if it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

/// A situation: a fault on a target in this role, in this phase of the lock's life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SituationCount {
    pub fault: String,
    pub role: String,
    pub phase: String,
    /// How often it came about, in all schedules; 0 where it was possible and did not.
    pub times: u64,
    /// The smallest distance to a violation there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest_ms: Option<f64>,
    /// When it came about first, in time hunted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_ms: Option<u64>,
}

impl SituationCount {
    /// Adds what others saw of it.
    pub fn add(&mut self, other: &SituationCount) {
        self.times += other.times;
        self.nearest_ms = self.nearest_ms.into_iter().chain(other.nearest_ms).min_by(f64::total_cmp);
        self.first_ms = self.first_ms.into_iter().chain(other.first_ms).min();
    }
}

/// How near a schedule came without a violation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NearestMiss {
    pub ms: f64,
    pub schedule: u64,
    pub sentence: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    pub at_ms: u64,
    pub schedules: u64,
    pub covered: u64,
}

fencepost_history::worded! {
    /// How far the work on a finding is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum FindingState {
        Found = "found, not minimised",
        Minimised = "minimised",
        Rare = "did not come again when it was replayed",
        Known = "known, still reproduces",
        Gone = "known, no longer reproduces",
    }
    pub fn words;
}

/// The reference of a hunt: a built-in lock on the same servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HuntReference {
    pub lock: String,
    pub plays: u64,
    pub shown: Vec<Signature>,
}

impl HuntReference {
    pub fn new(lock: String) -> HuntReference {
        HuntReference { lock, plays: 0, shown: Vec::new() }
    }
}

/// What a finding's comparison with the reference came to, later variants over earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compared {
    Unknown,
    /// The reference does not show it under the same faults.
    Own,
    /// The reference shows it, too: any lock does on these servers.
    OfServers,
}

/// A violation that the hunt found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HuntFinding {
    pub name: String,
    /// What tells it from others: checker, class and cause.
    pub signature: Signature,
    /// Whose failure it is. None in files of before that was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whose: Option<Whose>,
    pub sentence: String,
    /// When it was found, in time hunted.
    pub found_ms: u64,
    /// Number of the schedule that showed it first; 0 for one that was known, or that needed no fault.
    pub schedule: u64,
    pub times: u64,
    pub state: FindingState,
    /// Whether it is the lock's own. None where it was not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// Replays that showed it again, of how many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reproduced: Option<(usize, usize)>,
    /// Faults and clients of the smallest schedule that shows it.
    #[serde(default)]
    pub faults: usize,
    #[serde(default)]
    pub clients: usize,
    /// The folder of the smallest run, relative to the folder of the hunt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Repeats it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

impl HuntFinding {
    /// One of which nothing else is known.
    pub fn new(name: &str, signature: &Signature, sentence: &str) -> HuntFinding {
        HuntFinding {
            name: name.to_owned(),
            signature: signature.clone(),
            whose: None,
            sentence: sentence.to_owned(),
            found_ms: 0,
            schedule: 0,
            times: 0,
            state: FindingState::Found,
            compared: None,
            reproduced: None,
            faults: 0,
            clients: 0,
            run: None,
            command: None,
        }
    }

    /// What is violated, and whose failure that is: findings of one kind are one bug, under different faults.
    pub fn kind(&self) -> (&str, &str, Option<Whose>) {
        (&self.signature.checker, &self.signature.class, self.whose)
    }

    /// Whether it shows now: it is no known finding that no longer reproduces.
    fn is_there(&self) -> bool {
        self.state != FindingState::Gone
    }

    fn is_of_servers(&self) -> bool {
        self.compared == Some(Compared::OfServers)
    }

    /// Whether this is harm to the data that the other, a lock granted twice, explains.
    fn follows_from(&self, other: &HuntFinding) -> bool {
        let (of, class, whose) = other.kind();
        whose == self.whose
            && (of, class) == ("exclusion", "granted-twice")
            && OF_DATA.contains(&self.signature.checker.as_str())
    }

    /// Whether it came under servers' faults and the reference could not decide that it is theirs.
    fn is_undecided(&self) -> bool {
        let is_replayed = matches!(self.state, FindingState::Known | FindingState::Gone);
        self.whose == Some(Whose::Service) && !is_replayed && !self.is_of_servers()
    }
}

/// Findings that are probably one bug.
#[derive(Debug)]
pub struct FindingGroup<'a> {
    pub example: &'a HuntFinding,
    /// The others: the same under other faults, and what follows from it.
    pub also: Vec<&'a HuntFinding>,
}

impl FindingGroup<'_> {
    /// `The same under: pause on holder's client (lock held); …`, and `What follows from it: …`, if any.
    pub fn also_under(&self) -> Option<String> {
        let (same, follow): (Vec<_>, Vec<_>) =
            self.also.iter().map(|finding| &finding.signature).partition(|signature| {
                let example = &self.example.signature;
                (&signature.checker, &signature.class) == (&example.checker, &example.class)
            });
        let same: Vec<String> = same.into_iter().map(Signature::under).collect();
        let follow = in_short(follow.into_iter());
        let same = (!same.is_empty()).then(|| format!("The same under: {}", same.join("; ")));
        let follow = (!follow.is_empty()).then(|| format!("What follows from it: {follow}"));
        let said: Vec<String> = same.into_iter().chain(follow).collect();
        (!said.is_empty()).then(|| said.join(". "))
    }
}

/// Checkers of what a lock protects: these find the consequences of two holders.
const OF_DATA: [&str; 4] = ["lost-updates", "lost-additions", "stale-writes", "linearizable"];

/// Whether one finding is the better example: made small, with fewer causes.
fn is_smaller(one: &HuntFinding, other: &HuntFinding) -> bool {
    let size =
        |finding: &HuntFinding| (finding.state != FindingState::Minimised, finding.signature.causes.len());
    size(one) < size(other)
}

impl HuntFile {
    /// The findings as a report shows them, the most telling first. Compared ones of a kind stand together.
    pub fn groups(&self) -> Vec<FindingGroup<'_>> {
        let mut groups: Vec<FindingGroup<'_>> = Vec::new();
        let findings = self.most_telling_first();
        let follows = |finding: &HuntFinding| findings.iter().any(|other| finding.follows_from(other));
        let (consequences, findings): (Vec<_>, Vec<_>) =
            findings.iter().copied().partition(|finding| self.against.is_some() && follows(finding));
        for finding in findings.into_iter().chain(consequences) {
            let same = |group: &&mut FindingGroup<'_>| {
                self.against.is_some()
                    && (group.example.kind() == finding.kind() || finding.follows_from(group.example))
            };
            match groups.iter_mut().find(same) {
                Some(group) if finding.follows_from(group.example) => group.also.push(finding),
                Some(group) if is_smaller(finding, group.example) => {
                    group.also.push(std::mem::replace(&mut group.example, finding));
                }
                Some(group) => group.also.push(finding),
                None => groups.push(FindingGroup { example: finding, also: Vec::new() }),
            }
        }
        groups
    }

    /// Situations that came about.
    pub fn covered(&self) -> u64 {
        self.situations.values().filter(|situation| situation.times > 0).count() as u64
    }

    /// Situations that were possible, those that came about among them.
    pub fn possible(&self) -> u64 {
        self.situations.len() as u64
    }

    /// Whether a violation was found that is there now.
    pub fn has_violation(&self) -> bool {
        self.findings.iter().any(HuntFinding::is_there)
    }

    /// Whether a violation was found that the reference does not show, or that was not compared.
    pub fn has_own_violation(&self) -> bool {
        self.found() > 0
    }

    /// How many findings against this lock are there now; where the hunt compares, those of a kind are one.
    pub fn found(&self) -> u64 {
        let is_there =
            |one: &FindingGroup| one.example.is_there() || one.also.iter().any(|also| also.is_there());
        self.groups().into_iter().filter(is_there).count() as u64
    }

    /// The findings that are not of the servers, as far as that is decided.
    fn own(&self) -> impl Iterator<Item = &HuntFinding> {
        self.findings.iter().filter(|finding| !finding.is_of_servers() && !self.is_undecided(finding))
    }

    pub(super) fn is_undecided(&self, finding: &HuntFinding) -> bool {
        self.against.is_some() && finding.is_undecided()
    }

    /// `4 violations that redis-single shows too`; none where the reference shows nothing that was found.
    pub fn shared(&self) -> Option<String> {
        let lock = &self.against.as_ref()?.lock;
        let many = self.findings.iter().filter(|finding| finding.is_of_servers()).count() as u64;
        (many > 0).then(|| format!("{} that {lock} shows too", counted(many, "violation", "violations")))
    }

    /// The same, with what they are and why they are not specific to this lock, in a line.
    pub fn of_servers(&self) -> Option<String> {
        let shown = || self.findings.iter().filter(|finding| finding.is_of_servers());
        let list = in_short(shown().map(|finding| &finding.signature));
        let behind: BTreeSet<&str> =
            shown().filter_map(|finding| finding.whose).map(Whose::in_words).collect();
        let behind = Vec::from_iter(behind).join(", ");
        let behind = if behind.is_empty() { behind } else { format!("; behind them: {behind}") };
        Some(format!("{} under the same faults (not specific to this lock{behind}): {list}", self.shared()?))
    }

    /// What may be of the servers, in a line; none where that is decided of each finding.
    pub fn undecided(&self) -> Option<String> {
        let list = in_short(self.undecided_findings().map(|finding| &finding.signature));
        let lock = &self.against.as_ref()?.lock;
        (!list.is_empty()).then(|| format!("Too rare or late to say whether {lock} shows it, too: {list}"))
    }

    /// Notes how many situations are covered by now. Points between two of the same height are left out.
    pub fn note_coverage(&mut self) {
        let point = CurvePoint { at_ms: self.spent_ms, schedules: self.schedules, covered: self.covered() };
        if let [.., before, last] = self.curve.as_slice()
            && before.covered == point.covered
            && last.covered == point.covered
        {
            self.curve.pop();
        }
        self.curve.push(point);
    }

    /// The outcome, without the last full stop.
    pub fn summary(&self) -> String {
        let played = match self.schedules {
            0 if !self.has_violation() => return "Nothing was tested".to_owned(),
            // Without faults, or as a known finding: plays that are no schedules.
            0 => "before the first schedule".to_owned(),
            many => format!("in {}", counted(many, "schedule", "schedules")),
        };
        let violations = |many| counted(many, "violation", "violations");
        let found = match (&self.against, self.found(), self.undecided_findings().count() as u64) {
            (_, 0, 0) => format!("Nothing found against this lock {played}"),
            (_, 0, open) => format!("{} not decided, {played}", violations(open)),
            (Some(by), many, _) if self.all_compared() => {
                format!("{} that {} does not show, {played}", violations(many), by.lock)
            }
            (_, many, _) => format!("{} {played}{}", violations(many), self.late(many)),
        };
        [found].into_iter().chain(self.shared()).collect::<Vec<_>>().join(". ")
    }

    fn all_compared(&self) -> bool {
        self.own().filter(|finding| finding.is_there()).all(|finding| finding.compared == Some(Compared::Own))
    }

    /// How many of so many violations are late writes, in words that end a sentence.
    fn late(&self, found: u64) -> String {
        let is_late = |finding: &&HuntFinding| finding.is_there() && finding.whose == Some(Whose::NoFence);
        match self.own().filter(is_late).count() as u64 {
            0 => String::new(),
            all if all == found => ", which only a fence prevents: the lock held".to_owned(),
            some => format!(", and only a fence prevents {some} of them"),
        }
    }

    /// How much was covered, and how near that came to a violation: sentences, if there is anything to say.
    pub fn coverage(&self) -> String {
        let mut text = String::new();
        if self.possible() > 0 {
            let (covered, possible) = (self.covered(), self.possible());
            text = format!("{covered} of {possible} situations covered (a situation: {SITUATION}).");
        }
        if let Some(NearestMiss { ms, sentence, .. }) = &self.nearest_miss {
            text += &format!(" Nearest miss of the schedules without a violation: {ms:.0} ms ({sentence}).");
        }
        text.trim_start().to_owned()
    }

    /// The lock's own findings, most telling first: failures of service and library before late writes.
    pub fn most_telling_first(&self) -> Vec<&HuntFinding> {
        let mut findings: Vec<&HuntFinding> = self.own().collect();
        findings.sort_by_key(|finding| matches!(finding.whose, Some(Whose::NoFence | Whose::Machine)));
        findings
    }

    /// How often each situation came about, by fault, then role, then phase.
    pub fn by_fault(&self) -> BTreeMap<&str, Vec<&SituationCount>> {
        let mut faults: BTreeMap<&str, Vec<&SituationCount>> = BTreeMap::new();
        for situation in self.situations.values() {
            faults.entry(&situation.fault).or_default().push(situation);
        }
        faults
    }
}
