//! Sets of configurations in which none is dominated by another.

use super::bits::Bits;
use super::trail::TrailLink;
use super::used::{UsedSet, UsedSets};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

#[derive(Clone, Debug)]
pub(super) struct Config<S, const W: usize> {
    pub state: S,
    /// The open operations that have taken effect, by slot.
    pub done: Bits<W>,
    pub used: UsedSet,
    pub link: TrailLink,
}

/// Few configurations are compared one by one, which is faster than to hash them.
const SMALL: usize = 12;

pub(super) struct Frontier<S, const W: usize> {
    pub list: Vec<Config<S, W>>,
    /// Places in `list` by hash of state and slots, once it is no longer small.
    index: FxHashMap<u64, Vec<u32>>,
}

impl<S: Eq + Hash, const W: usize> Frontier<S, W> {
    pub fn new() -> Self {
        Frontier { list: Vec::new(), index: FxHashMap::default() }
    }

    pub fn clear(&mut self) {
        self.list.clear();
        self.index.clear();
    }

    /// Adds a configuration unless another dominates it, in place of one that it dominates; gives its place.
    pub fn insert(&mut self, config: Config<S, W>, sets: &UsedSets) -> Option<usize> {
        let small = self.list.len() < SMALL;
        let same = |other: &Config<S, W>| other.done == config.done && other.state == config.state;
        let mut dominated = None;
        if small {
            for (at, other) in self.list.iter().enumerate().filter(|(_, other)| same(other)) {
                if sets.within(other.used, config.used) {
                    return None;
                }
                if sets.within(config.used, other.used) {
                    dominated = Some(at);
                }
            }
        } else {
            if self.index.is_empty() {
                for (at, other) in self.list.iter().enumerate() {
                    self.index.entry(hash(other)).or_default().push(at as u32);
                }
            }
            let places = self.index.entry(hash(&config)).or_default();
            for &mut at in places.iter_mut() {
                let other = &self.list[at as usize];
                if same(other) && sets.within(other.used, config.used) {
                    return None;
                }
                if same(other) && sets.within(config.used, other.used) {
                    dominated = Some(at as usize);
                }
            }
            if dominated.is_none() {
                places.push(self.list.len() as u32);
            }
        }
        match dominated {
            // Others that it dominates too stay; they do no harm but to take time.
            Some(at) => {
                self.list[at] = config;
                Some(at)
            }
            None => {
                self.list.push(config);
                Some(self.list.len() - 1)
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.list.capacity() * size_of::<Config<S, W>>() + self.index.capacity() * 48
    }
}

fn hash<S: Hash, const W: usize>(config: &Config<S, W>) -> u64 {
    let mut hasher = FxHasher::default();
    config.state.hash(&mut hasher);
    config.done.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_memory_grows_with_its_configurations() {
        let (mut frontier, sets) = (Frontier::<u32, 1>::new(), UsedSets::new());
        let before = frontier.bytes();
        for state in 0..1000 {
            let config = Config { state, done: Bits::EMPTY, used: 0, link: 0 };
            assert!(frontier.insert(config, &sets).is_some());
        }
        assert!(frontier.bytes() >= before + 1000 * size_of::<Config<u32, 1>>());
    }
}
