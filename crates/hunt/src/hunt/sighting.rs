//! The violation that a run showed, and what tells it from others.

use crate::play::Played;
use crate::signature::signature;
use crate::violation::Violation;
use fencepost_report::findings::{Cause, Signature};

/// A violation as one run showed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sighting {
    pub violation: Violation,
    pub signature: Signature,
    /// What happened, in a sentence.
    pub sentence: String,
}

/// The violations of a run, one for each set of causes: two holders at a time lead to lost updates and stale writes, which the
/// same finding explains.
pub fn sightings(played: &Played) -> Vec<Sighting> {
    let violations = Violation::all(&played.verdict).into_iter();
    let mut seen: Vec<Sighting> = Vec::new();
    for sighting in violations.filter_map(|violation| sighting(played, violation)) {
        if seen.iter().all(|other| other.signature.causes != sighting.signature.causes) {
            seen.push(sighting);
        }
    }
    seen
}

fn sighting(played: &Played, violation: Violation) -> Option<Sighting> {
    let known = signature(&played.history, &played.verdict, &violation);
    let (signature, sentence) = match known {
        Some((signature, finding)) => (signature, finding.sentence),
        // A violation whose cause is not known is one all the same.
        None => {
            let Violation { checker, class } = violation.clone();
            let sentence = played.verdict.of_checker(&checker)?.summary.clone();
            (Signature { checker, class, causes: Vec::new() }, sentence)
        }
    };
    Some(Sighting { violation, signature, sentence })
}

impl Sighting {
    /// Whether a process held on past its TTL although no fault had anything to do with it: the machine was too busy for the
    /// TTL, which is no finding about the lock.
    pub fn is_of_a_busy_machine(&self) -> bool {
        self.violation.class == "overstayed" && self.signature.causes.is_empty()
    }
}

/// Whether a violation is explained by a finding: the same breach, and all faults that the finding needs, on targets of the
/// same roles. What else went wrong in that run may have been chance.
pub fn explains(finding: &Signature, seen: &Signature) -> bool {
    let is_there = |needed: &Cause| {
        seen.causes.iter().any(|cause| cause.fault == needed.fault && cause.role == needed.role)
    };
    finding.checker == seen.checker
        && finding.class == seen.class
        && (seen.causes == finding.causes
            || !finding.causes.is_empty() && finding.causes.iter().all(is_there))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(class: &str, causes: &[(&str, &str, &str)]) -> Signature {
        let cause = |(fault, role, phase): &(&str, &str, &str)| Cause {
            fault: (*fault).to_owned(),
            role: (*role).to_owned(),
            phase: (*phase).to_owned(),
        };
        Signature {
            checker: "exclusion".to_owned(),
            class: class.to_owned(),
            causes: causes.iter().map(cause).collect(),
        }
    }

    #[test]
    fn finding_explains_what_has_its_causes_and_more() {
        let jump = of("granted-twice", &[("clock-jump", "granting", "held")]);
        let later = of("granted-twice", &[("clock-jump", "granting", "free"), ("pause", "client", "held")]);
        assert!(explains(&jump, &jump) && explains(&jump, &later));
        assert!(!explains(&later, &jump), "a finding that needs more explains nothing that came with less");
        assert!(!explains(&jump, &of("overstayed", &[("clock-jump", "granting", "held")])));
        let peace = of("granted-twice", &[]);
        assert!(!explains(&peace, &jump) && explains(&peace, &peace));
    }
}
