//! How many of each class of indeterminate operations a configuration has used, as numbers for multisets.

use rustc_hash::FxHashMap;

/// The number of a multiset.
pub(super) type Used = u32;

/// The empty multiset.
pub(super) const NOTHING: Used = 0;

/// All multisets that were met. Each is a list of (class, count), ascending.
pub(super) struct UsedSets {
    sets: Vec<Box<[(u32, u32)]>>,
    numbers: FxHashMap<Box<[(u32, u32)]>, Used>,
    bytes: usize,
}

impl UsedSets {
    pub fn new() -> UsedSets {
        let empty: Box<[(u32, u32)]> = Box::default();
        UsedSets { sets: vec![empty.clone()], numbers: FxHashMap::from_iter([(empty, NOTHING)]), bytes: 0 }
    }

    /// How many of a class.
    pub fn count(&self, used: Used, class: u32) -> u32 {
        let set = &self.sets[used as usize];
        set.binary_search_by_key(&class, |entry| entry.0).map_or(0, |at| set[at].1)
    }

    /// One more of a class.
    pub fn add(&mut self, used: Used, class: u32) -> Used {
        let set = &self.sets[used as usize];
        let mut next: Vec<(u32, u32)> = Vec::with_capacity(set.len() + 1);
        next.extend_from_slice(set);
        match next.binary_search_by_key(&class, |entry| entry.0) {
            Ok(at) => next[at].1 += 1,
            Err(at) => next.insert(at, (class, 1)),
        }
        let next = next.into_boxed_slice();
        if let Some(&number) = self.numbers.get(&next) {
            return number;
        }
        let number = self.sets.len() as Used;
        self.bytes += 2 * (next.len() + 4) * size_of::<(u32, u32)>();
        self.sets.push(next.clone());
        self.numbers.insert(next, number);
        number
    }

    /// Whether the first has no more of any class than the second.
    pub fn within(&self, small: Used, large: Used) -> bool {
        if small == large || small == NOTHING {
            return true;
        }
        let mut large = self.sets[large as usize].iter();
        self.sets[small as usize].iter().all(|(class, count)| {
            large
                .by_ref()
                .find(|entry| entry.0 >= *class)
                .is_some_and(|entry| entry.0 == *class && entry.1 >= *count)
        })
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compares_as_multisets() {
        let mut sets = UsedSets::new();
        let a = sets.add(NOTHING, 3);
        let b = sets.add(NOTHING, 1);
        let ab = sets.add(a, 1);
        assert_eq!(ab, sets.add(b, 3));
        let aab = sets.add(ab, 3);
        assert!(sets.within(a, ab) && sets.within(b, aab) && sets.within(ab, aab));
        assert!(!sets.within(a, b) && !sets.within(ab, a) && !sets.within(aab, ab));
        assert_eq!((sets.count(aab, 3), sets.count(a, 1)), (2, 0));
    }
}
