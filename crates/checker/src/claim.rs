//! Which holds of a key exclude each other: the one place that says so.

use fencepost_history::{AcquireArguments, Grant, Mode};

/// What a hold claims of its key: which other holds may stand beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Claim {
    /// It excludes no process, as the lock says itself: a version that is compared when it writes.
    Nothing,
    /// To hold the key alone.
    #[default]
    Exclusive,
    /// To hold it together with others who only read.
    Shared,
}

impl Claim {
    /// One of every kind, in the order of [`Claim::kind`].
    pub const ALL: [Claim; 3] = [Claim::Nothing, Claim::Exclusive, Claim::Shared];

    /// The number of its kind, from 0, for what is counted by kind.
    pub fn kind(self) -> usize {
        match self {
            Claim::Nothing => 0,
            Claim::Exclusive => 1,
            Claim::Shared => 2,
        }
    }

    /// What an acquire asks for.
    pub fn asked(asked: &AcquireArguments) -> Claim {
        match asked.mode.unwrap_or_default() {
            Mode::Exclusive => Claim::Exclusive,
            Mode::Shared => Claim::Shared,
        }
    }

    /// What of that a grant gives.
    #[must_use]
    pub fn granted(self, grant: &Grant) -> Claim {
        if grant.exclusive == Some(false) { Claim::Nothing } else { self }
    }

    /// Whether two holds of a key with these claims cannot both be right at the same moment.
    pub fn excludes(self, other: Claim) -> bool {
        match (self, other) {
            (Claim::Nothing, _) | (_, Claim::Nothing) => false,
            (Claim::Shared, Claim::Shared) => false,
            (Claim::Exclusive, _) | (_, Claim::Exclusive) => true,
        }
    }

    /// Whether it excludes anybody.
    pub fn excludes_any(self) -> bool {
        Claim::ALL.into_iter().any(|other| self.excludes(other))
    }

    /// Whether it excludes its like, and so all others.
    pub fn is_alone(self) -> bool {
        self.excludes(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_excludes_whom() {
        use Claim::{Exclusive, Nothing, Shared};
        let excluded = |claim: Claim| Claim::ALL.map(|other| claim.excludes(other));
        assert_eq!(excluded(Nothing), [false, false, false]);
        assert_eq!(excluded(Exclusive), [false, true, true]);
        assert_eq!(excluded(Shared), [false, true, false]);
        assert_eq!(Claim::ALL.map(Claim::excludes_any), [false, true, true]);
        assert_eq!(Claim::ALL.map(Claim::kind), [0, 1, 2]);
    }

    #[test]
    fn a_claim_is_what_was_asked_for_unless_the_grant_says_that_it_excludes_no_process() {
        let claim =
            |asked, granted| Claim::asked(&AcquireArguments::of(&asked)).granted(&Grant::of(&granted));
        assert_eq!(claim(json!(null), json!(null)), Claim::Exclusive);
        assert_eq!(claim(json!({"mode": "shared"}), json!({"token": 3})), Claim::Shared);
        assert_eq!(claim(json!({"mode": "shared"}), json!({"exclusive": false})), Claim::Nothing);
        assert_eq!(claim(json!({"mode": "exclusive"}), json!({"exclusive": true})), Claim::Exclusive);
    }
}
