pub(super) type TrailLink = u32;

pub(super) const START: TrailLink = 0;

/// How each configuration was reached: chains of links, each with an operation and a smaller link.
pub(super) struct Trail {
    links: Vec<(u32, TrailLink)>,
    /// Collect when there are so many.
    full: usize,
}

impl Trail {
    pub fn new() -> Trail {
        Trail { links: vec![(0, START)], full: 1 << 16 }
    }

    pub fn push(&mut self, before: TrailLink, operation: u32) -> TrailLink {
        self.links.push((operation, before));
        (self.links.len() - 1) as TrailLink
    }

    pub fn operations(&self, mut link: TrailLink) -> Vec<u32> {
        let mut operations = Vec::new();
        while link != START {
            let (operation, before) = self.links[link as usize];
            operations.push(operation);
            link = before;
        }
        operations.reverse();
        operations
    }

    pub fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<(u32, TrailLink)>()
    }

    pub fn is_full(&self) -> bool {
        self.links.len() >= self.full
    }

    /// Forgets what no configuration needs, and renumbers the links of those that there are.
    pub fn collect<'a>(&mut self, live: impl Iterator<Item = &'a mut TrailLink>) {
        let live: Vec<&mut TrailLink> = live.collect();
        let mut needed = vec![false; self.links.len()];
        needed[START as usize] = true;
        for link in &live {
            let mut link = **link;
            while !needed[link as usize] {
                needed[link as usize] = true;
                link = self.links[link as usize].1;
            }
        }
        let mut renumbered = vec![START; self.links.len()];
        let mut count = 0;
        for at in 0..self.links.len() {
            if needed[at] {
                let (operation, before) = self.links[at];
                self.links[count] = (operation, renumbered[before as usize]);
                renumbered[at] = count as TrailLink;
                count += 1;
            }
        }
        self.links.truncate(count);
        self.full = (2 * count).max(1 << 16);
        live.into_iter().for_each(|link| *link = renumbered[*link as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_survive_collection() {
        let mut trail = Trail::new();
        let a = trail.push(START, 10);
        let lost = trail.push(a, 11);
        let mut b = trail.push(a, 12);
        let mut c = trail.push(b, 13);
        assert_eq!(trail.operations(lost), [10, 11]);
        trail.collect([&mut b, &mut c].into_iter());
        assert_eq!((trail.operations(b), trail.operations(c)), (vec![10, 12], vec![10, 12, 13]));
        assert_eq!(trail.links.len(), 4);
    }

    #[test]
    fn its_memory_grows_with_its_links() {
        let mut trail = Trail::new();
        let before = trail.bytes();
        for operation in 0..1000 {
            trail.push(START, operation);
        }
        assert!(trail.bytes() >= before + 999 * size_of::<(u32, TrailLink)>());
    }
}
