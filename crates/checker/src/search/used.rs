//! How many of each class of indeterminate operations a configuration has used, as numbers for multisets.

use rustc_hash::FxHashMap;

pub(super) type UsedSet = u32;

pub(super) const NOTHING: UsedSet = 0;

pub(super) struct UsedSets {
    sets: Vec<Multiset>,
    numbers: FxHashMap<Box<[(u32, u32)]>, UsedSet>,
    bytes: usize,
}

/// A list of (class, count), ascending, with what tells at a glance that it is not within another.
struct Multiset {
    entries: Box<[(u32, u32)]>,
    total: u32,
    /// A bit for each class it has, sixteen bits on for each it has several of; shared modulo 64.
    marks: u64,
    /// What one more of a class makes of it, as far as that was asked.
    successors: Vec<(u32, UsedSet)>,
}

impl Multiset {
    fn new(entries: Box<[(u32, u32)]>) -> Multiset {
        let total = entries.iter().map(|(_, count)| count).sum();
        let mark = |(class, count): &(u32, u32)| {
            let once = 1_u64 << (class % 64);
            if *count > 1 { once | once.rotate_left(16) } else { once }
        };
        let marks = entries.iter().map(mark).fold(0, |all, one| all | one);
        Multiset { entries, total, marks, successors: Vec::new() }
    }
}

impl UsedSets {
    pub fn new() -> UsedSets {
        let empty: Box<[(u32, u32)]> = Box::default();
        let numbers = FxHashMap::from_iter([(empty.clone(), NOTHING)]);
        UsedSets { sets: vec![Multiset::new(empty)], numbers, bytes: 0 }
    }

    pub fn count(&self, used: UsedSet, class: u32) -> u32 {
        let set = &self.sets[used as usize];
        if set.marks >> (class % 64) & 1 == 0 {
            return 0;
        }
        set.entries.iter().find(|entry| entry.0 == class).map_or(0, |entry| entry.1)
    }

    pub fn add(&mut self, used: UsedSet, class: u32) -> UsedSet {
        let set = &self.sets[used as usize];
        if let Some(&(_, next)) = set.successors.iter().find(|(other, _)| *other == class) {
            return next;
        }
        let mut entries: Vec<(u32, u32)> = Vec::with_capacity(set.entries.len() + 1);
        entries.extend_from_slice(&set.entries);
        match entries.binary_search_by_key(&class, |entry| entry.0) {
            Ok(at) => entries[at].1 += 1,
            Err(at) => entries.insert(at, (class, 1)),
        }
        let entries = entries.into_boxed_slice();
        let next = self.numbers.get(&entries).copied().unwrap_or_else(|| {
            let number = self.sets.len() as UsedSet;
            self.bytes += 2 * (entries.len() + 8) * size_of::<(u32, u32)>();
            self.sets.push(Multiset::new(entries.clone()));
            self.numbers.insert(entries, number);
            number
        });
        self.bytes += 2 * size_of::<(u32, UsedSet)>();
        self.sets[used as usize].successors.push((class, next));
        next
    }

    /// Whether the first has no more of any class than the second.
    pub fn within(&self, small: UsedSet, large: UsedSet) -> bool {
        if small == large || small == NOTHING {
            return true;
        }
        let (small, large) = (&self.sets[small as usize], &self.sets[large as usize]);
        if small.total >= large.total || small.marks & !large.marks != 0 {
            return false;
        }
        let mut large = large.entries.iter();
        small.entries.iter().all(|(class, count)| {
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
