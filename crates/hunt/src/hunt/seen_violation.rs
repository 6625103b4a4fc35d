use crate::signature::signature;
use fencepost_campaign::Played;
use fencepost_checker::{Blame, Checker, Violation, Whose, registry};
use fencepost_report::findings::{FaultCause, Signature};

/// A violation as one run showed it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenViolation {
    pub violation: Violation,
    pub signature: Signature,
    pub whose: Option<Whose>,
    pub sentence: String,
}

pub(super) fn all_violations(played: &Played) -> Vec<SeenViolation> {
    let violations = Violation::all(&played.verdict).into_iter();
    violations.filter_map(|violation| seen_violation(played, violation)).collect()
}

/// The violations of a run, but for those that another of them explains.
pub fn seen_violations(played: &Played) -> Vec<SeenViolation> {
    let mut all = all_violations(played);
    let is_twice = |seen: &SeenViolation| seen.signature.class == GRANTED_TWICE;
    all.sort_by_key(|seen| {
        (!is_twice(seen), seen.signature.checker != EXCLUSION, seen.signature.causes.len())
    });
    let mut seen: Vec<SeenViolation> = Vec::new();
    for violation in all {
        if !seen.iter().any(|other| follows(&other.signature, &violation.signature)) {
            seen.push(violation);
        }
    }
    seen
}

/// The class of a lock that was granted although another certainly held it.
pub(super) const GRANTED_TWICE: &str = "granted-twice";

pub(super) const EXCLUSION: &str = "exclusion";

/// Whether a checker's violations follow from two holders at a time, or a late one: harm to data and order.
fn is_of_data(checker: &str) -> bool {
    let is_it = |known: &&Checker| known.name == checker && known.blame == Blame::ByHolders;
    checker != EXCLUSION && registry().iter().any(is_it)
}

/// Whether a violation follows from another of the same run: one that explains it, or, for harm to the data,
/// two holders or other harm with a common cause. A lock that another removed, tokens that go backwards and a
/// stuck lock follow from nothing: each says by itself what is wrong.
fn follows(other: &Signature, seen: &Signature) -> bool {
    let common = other.causes == seen.causes || seen.causes.iter().any(|cause| other.causes.contains(cause));
    let harms_data = is_of_data(&seen.checker) && (other.checker == EXCLUSION || is_of_data(&other.checker));
    let same_checker = other.checker == seen.checker && other.causes == seen.causes;
    explains(other, seen) || harms_data && common || same_checker
}

fn seen_violation(played: &Played, violation: Violation) -> Option<SeenViolation> {
    let known = signature(&played.history, &played.verdict, &violation);
    let (signature, whose, sentence) = match known {
        Some((signature, finding)) => (signature, finding.whose, finding.sentence),
        None => {
            let Violation { checker, class } = violation.clone();
            let sentence = played.verdict.of_checker(&checker)?.summary.clone();
            (Signature { checker, class, causes: Vec::new() }, None, sentence)
        }
    };
    Some(SeenViolation { violation, signature, whose, sentence })
}

impl SeenViolation {
    /// Whether a process held on past its TTL as the machine was too busy for it, by the run's ledger.
    pub fn is_of_a_busy_machine(&self) -> bool {
        self.whose == Some(Whose::Machine)
    }
}

/// Whether a finding explains a violation: the same breach, and all faults that the finding needs, on targets
/// of the same roles. A breach that needs no fault explains it whatever else went wrong. What grants a lock
/// twice also makes holders overstay: the same overlap, where the service gets the benefit of the doubt.
pub fn explains(finding: &Signature, seen: &Signature) -> bool {
    let is_there = |needed: &FaultCause| {
        seen.causes.iter().any(|cause| cause.fault == needed.fault && cause.role == needed.role)
    };
    is_same_breach(finding, seen) && finding.causes.iter().all(is_there)
}

/// Whether two violations show the same breach, whatever the causes; a lock granted twice is overstayed, too.
pub(super) fn is_same_breach(finding: &Signature, seen: &Signature) -> bool {
    let same = finding.class == seen.class || finding.class == GRANTED_TWICE && seen.class == "overstayed";
    finding.checker == seen.checker && same
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(class: &str, causes: &[(&str, &str, &str)]) -> Signature {
        let cause = |(fault, role, phase): &(&str, &str, &str)| FaultCause {
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
    fn the_ledger_says_who_was_late() {
        let is_of_a_busy_machine = |whose: Option<Whose>| {
            let violation = Violation { checker: "exclusion".to_owned(), class: "overstayed".to_owned() };
            let signature = of("overstayed", &[("duplicate", "granting", "free")]);
            SeenViolation { violation, signature, whose, sentence: String::new() }.is_of_a_busy_machine()
        };
        assert!(is_of_a_busy_machine(Some(Whose::Machine)));
        let others = [None, Some(Whose::Library), Some(Whose::NoFence), Some(Whose::Service)];
        assert_eq!(others.map(is_of_a_busy_machine), [false; 4]);
    }

    #[test]
    fn harm_to_the_data_follows_from_two_holders() {
        let pause = ("pause", "client", "held");
        let jump = ("clock-jump", "granting", "held");
        let lost =
            |causes: &[_]| Signature { checker: "lost-updates".to_owned(), ..of("lost-update", causes) };
        assert!(follows(&of("overstayed", &[pause]), &lost(&[pause, jump])));
        assert!(follows(&of("overstayed", &[pause]), &of("overstayed", &[pause, jump])));
        assert!(!follows(&of("overstayed", &[pause]), &lost(&[jump])));
        assert!(!follows(&of("overstayed", &[pause]), &of("granted-twice", &[jump])));
        // Not what says by itself what is wrong.
        for checker in ["ownership", "fencing", "progress"] {
            let own = Signature { checker: checker.to_owned(), ..of("x", &[pause]) };
            assert!(!follows(&of("overstayed", &[pause]), &own), "{checker}");
        }
        let stale = Signature { checker: "stale-writes".to_owned(), ..of("stale-write", &[pause]) };
        assert!(follows(&lost(&[pause]), &stale));
    }

    #[test]
    fn finding_explains_what_has_its_causes_and_more() {
        let jump = of("granted-twice", &[("clock-jump", "granting", "held")]);
        let later = of("granted-twice", &[("clock-jump", "granting", "free"), ("pause", "client", "held")]);
        assert!(explains(&jump, &jump) && explains(&jump, &later));
        assert!(!explains(&later, &jump), "a finding that needs more explains nothing that came with less");
        let overstayed = of("overstayed", &[("clock-jump", "granting", "held")]);
        assert!(explains(&jump, &overstayed) && !explains(&overstayed, &jump));
        assert!(!explains(&jump, &Signature { checker: "fencing".to_owned(), ..jump.clone() }));
        let peace = of("granted-twice", &[]);
        assert!(explains(&peace, &jump) && explains(&peace, &peace) && !explains(&jump, &peace));
    }
}
