//! How much of its key a hold takes, and how much of it there is: this alone says which holds fit together.

use crate::prose::lock;
use fencepost_history::{AcquireArguments, Grant, LockKind, Mode};

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

    pub fn asked(asked: &AcquireArguments) -> Claim {
        match (asked.mode.unwrap_or_default(), asked.capacity) {
            (Mode::Shared, _) => Claim::SHARED,
            (Mode::Exclusive, Some(capacity)) => Claim { weight: 1, capacity: capacity.max(1) },
            (Mode::Exclusive, None) => Claim::EXCLUSIVE,
        }
    }

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

    /// What is wrong with holds of these claims at one moment; nothing to add where a mutex is held twice.
    pub fn too_many(claims: &[Claim], kind: LockKind) -> Option<String> {
        let shared = claims.iter().filter(|claim| **claim == Claim::SHARED).count();
        let permits = claims.iter().map(|claim| claim.capacity).min()?;
        match (shared, permits) {
            (0, 1) => match kind {
                LockKind::ReadWrite => Some("two writers".to_owned()),
                LockKind::Election => Some("two leaders".to_owned()),
                LockKind::Mutex | LockKind::Semaphore | LockKind::Reentrant | LockKind::Several => None,
            },
            (1, 1) => Some("a reader beside a writer".to_owned()),
            (readers, 1) => Some(format!("{readers} readers beside a writer")),
            (_, 2..) => {
                let taken: u64 = claims.iter().map(|claim| u64::from(claim.weight)).sum();
                Some(format!("{taken} holders of {permits} permits"))
            }
            (_, 0) => None,
        }
    }

    /// What of the lock it takes: `k0`, `k0 as a reader`, `one of 3 permits of k0`.
    pub fn of_lock(self, key: &str, kind: LockKind) -> String {
        let name = lock(key);
        match (self, kind) {
            (Claim::SHARED, _) => format!("{name} as a reader"),
            (Claim::EXCLUSIVE, LockKind::ReadWrite) => format!("{name} as a writer"),
            (Claim::EXCLUSIVE, LockKind::Election) => format!("the leadership of {name}"),
            (Claim { capacity, .. }, _) if self.excludes_any() && !self.is_alone() => {
                format!("one of {capacity} permits of {name}")
            }
            _ => name.to_owned(),
        }
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

    #[test]
    fn the_kind_is_named_in_plain_words() {
        let of = |kind: LockKind, claims: &[Claim]| Claim::too_many(claims, kind);
        let said = |words: &str| Some(words.to_owned());
        let (mutex, read_write) = (LockKind::Mutex, LockKind::ReadWrite);
        assert_eq!(of(mutex, &[Claim::EXCLUSIVE; 2]), None);
        assert_eq!(of(LockKind::Election, &[Claim::EXCLUSIVE; 2]), said("two leaders"));
        assert_eq!(of(read_write, &[Claim::EXCLUSIVE; 2]), said("two writers"));
        assert_eq!(of(read_write, &[Claim::EXCLUSIVE, Claim::SHARED]), said("a reader beside a writer"));
        assert_eq!(of(mutex, &[Claim::SHARED, Claim::EXCLUSIVE]), said("a reader beside a writer"));
        let three = [Claim::SHARED, Claim::SHARED, Claim::EXCLUSIVE];
        assert_eq!(of(read_write, &three), said("2 readers beside a writer"));
        assert_eq!(of(LockKind::Semaphore, &[SEMAPHORE; 4]), said("4 holders of 3 permits"));
        for (claim, kind, words) in [
            (Claim::EXCLUSIVE, mutex, "k0"),
            (Claim::NOTHING, mutex, "k0"),
            (Claim::EXCLUSIVE, read_write, "k0 as a writer"),
            (Claim::SHARED, read_write, "k0 as a reader"),
            (Claim::EXCLUSIVE, LockKind::Election, "the leadership of k0"),
            (SEMAPHORE, LockKind::Semaphore, "one of 3 permits of k0"),
        ] {
            assert_eq!(claim.of_lock("k0", kind), words);
        }
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
