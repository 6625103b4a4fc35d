//! How much of its key a hold takes, and how much of it there is: this alone says which holds fit together.

use fencepost_history::{AcquireArguments, Grant, Mode};

/// What a hold takes of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    pub weight: u32,
    /// What it and all beside it may weigh.
    pub capacity: u32,
}

impl Claim {
    /// To hold the key alone.
    pub const EXCLUSIVE: Claim = Claim { weight: 1, capacity: 1 };
    /// To hold it together with others who only read.
    pub const SHARED: Claim = Claim { weight: 1, capacity: u32::MAX };
    /// It excludes no process: a version that is compared when it writes.
    pub const NOTHING: Claim = Claim { weight: 0, capacity: u32::MAX };

    /// What an acquire asks for.
    pub fn asked(asked: &AcquireArguments) -> Claim {
        match (asked.mode.unwrap_or_default(), asked.capacity) {
            (Mode::Shared, _) => Claim::SHARED,
            (Mode::Exclusive, Some(capacity)) => Claim { weight: 1, capacity: capacity.max(1) },
            (Mode::Exclusive, None) => Claim::EXCLUSIVE,
        }
    }

    /// What of that a grant gives.
    #[must_use]
    pub fn granted(self, grant: &Grant) -> Claim {
        if grant.exclusive == Some(false) { Claim::NOTHING } else { self }
    }

    /// Whether holds of a key with these claims can all be right at the same moment.
    pub fn fit(claims: impl IntoIterator<Item = Claim>) -> bool {
        let (mut weight, mut capacity) = (0_u64, u32::MAX);
        for claim in claims {
            weight += u64::from(claim.weight);
            capacity = capacity.min(claim.capacity);
        }
        weight <= u64::from(capacity)
    }

    /// Whether it excludes anybody.
    pub fn excludes_any(self) -> bool {
        self.weight > 0
    }

    /// Whether it excludes all others that exclude anybody.
    pub fn is_alone(self) -> bool {
        self.excludes_any() && self.weight >= self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const SEMAPHORE: Claim = Claim { weight: 1, capacity: 3 };

    #[test]
    fn who_fits_beside_whom() {
        let fits = |one: Claim, other: Claim| Claim::fit([one, other]);
        let all = [Claim::NOTHING, Claim::EXCLUSIVE, Claim::SHARED, SEMAPHORE];
        let beside = |one: Claim| all.map(|other| fits(one, other));
        assert_eq!(beside(Claim::NOTHING), [true; 4]);
        assert_eq!(beside(Claim::EXCLUSIVE), [true, false, false, false]);
        assert_eq!(beside(Claim::SHARED), [true, false, true, true]);
        assert_eq!([3, 4].map(|count| Claim::fit(vec![SEMAPHORE; count])), [true, false]);
        assert_eq!(all.map(Claim::excludes_any), [false, true, true, true]);
        assert_eq!(all.map(Claim::is_alone), [false, true, false, false]);
        let all_permits = Claim { weight: 3, capacity: 3 };
        assert!(all_permits.is_alone() && !fits(all_permits, SEMAPHORE));
        assert!(Claim::fit(vec![Claim { weight: u32::MAX, ..Claim::SHARED }; 1]) && Claim::fit([]));
    }

    #[test]
    fn a_claim_is_what_was_asked_for_unless_the_grant_says_that_it_excludes_no_process() {
        let claim =
            |asked, granted| Claim::asked(&AcquireArguments::of(&asked)).granted(&Grant::of(&granted));
        assert_eq!(claim(json!(null), json!(null)), Claim::EXCLUSIVE);
        assert_eq!(claim(json!({"mode": "shared"}), json!({"token": 3})), Claim::SHARED);
        assert_eq!(claim(json!({"mode": "shared"}), json!({"exclusive": false})), Claim::NOTHING);
        assert_eq!(claim(json!({"mode": "exclusive"}), json!({"exclusive": true})), Claim::EXCLUSIVE);
        assert_eq!(claim(json!({"capacity": 3}), json!(null)), SEMAPHORE);
        assert_eq!(claim(json!({"capacity": 0}), json!(null)), Claim::EXCLUSIVE);
    }

    proptest! {
        /// Every permit of a hold is a place of its own: with unit places, holds fit if each of them finds as
        /// many places as it bears.
        #[test]
        fn holds_fit_where_each_finds_its_places(claims in prop::collection::vec((0..4_u32, 1..6_u32), 0..5)) {
            let claims: Vec<Claim> = claims.into_iter().map(|(weight, capacity)| Claim { weight, capacity }).collect();
            let places: Vec<usize> = claims.iter().enumerate().flat_map(|(of, claim)| vec![of; claim.weight as usize]).collect();
            let each = claims.iter().all(|claim| places.len() <= claim.capacity as usize);
            prop_assert_eq!(Claim::fit(claims), each);
        }
    }
}
