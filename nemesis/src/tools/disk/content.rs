//! What is in a file: as programs see it, and as a loss of power would leave it.

use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The unit in which changes are kept in memory, in bytes.
const PAGE: usize = 4096;

/// What a disk writes whole or not at all, in bytes.
const SECTOR: usize = 512;

/// How much of what was not fsynced reaches the disk all the same, by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Torn {
    /// Of each file a prefix, to the sector of 512 bytes: writes reached the disk in the order of the file.
    Prefix,
    /// Of each file any of its sectors, each with a chance of one half: the disk wrote in its own order.
    Sectors,
}

/// A file: durable bytes in a backing file, and above them the pages changed since the last fsync.
pub struct Content {
    /// At every moment what a loss of power would leave.
    backing: Arc<File>,
    durable_size: u64,
    size: u64,
    /// How far the backing file still shows: less than its size once the file was cut short.
    shows: u64,
    pages: BTreeMap<u64, Page>,
}

struct Page {
    bytes: Box<[u8; PAGE]>,
    /// What was written since the last fsync.
    dirty: Range<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsynced {
    pub bytes: u64,
    pub resized: bool,
}

impl Content {
    pub fn new(backing: File) -> io::Result<Content> {
        let size = backing.metadata()?.len();
        let backing = Arc::new(backing);
        Ok(Content { backing, durable_size: size, size, shows: size, pages: BTreeMap::new() })
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Up to `length` bytes from `offset` on; fewer at the end of the file.
    pub fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let end = self.size.min(offset.saturating_add(length as u64));
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        let shown = self.shows.min(end).saturating_sub(offset) as usize;
        self.backing.read_exact_at(&mut bytes[..shown], offset)?;
        for (&index, page) in self.pages.range(offset / PAGE as u64..end.div_ceil(PAGE as u64)) {
            let start = index * PAGE as u64;
            let (from, to) = (start.max(offset), (start + PAGE as u64).min(end));
            bytes[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&page.bytes[(from - start) as usize..(to - start) as usize]);
        }
        Ok(bytes)
    }

    pub fn write(&mut self, offset: u64, mut data: &[u8]) -> io::Result<()> {
        let mut at = offset;
        while !data.is_empty() {
            let (index, within) = (at / PAGE as u64, (at % PAGE as u64) as usize);
            let length = data.len().min(PAGE - within);
            let page = self.page(index)?;
            page.bytes[within..within + length].copy_from_slice(&data[..length]);
            page.dirty = if page.dirty.is_empty() {
                within..within + length
            } else {
                page.dirty.start.min(within)..page.dirty.end.max(within + length)
            };
            data = &data[length..];
            at += length as u64;
        }
        self.size = self.size.max(at);
        Ok(())
    }

    fn page(&mut self, index: u64) -> io::Result<&mut Page> {
        let start = index * PAGE as u64;
        if !self.pages.contains_key(&index) {
            let mut bytes = Box::new([0; PAGE]);
            let shown = self.shows.saturating_sub(start).min(PAGE as u64) as usize;
            self.backing.read_exact_at(&mut bytes[..shown], start)?;
            self.pages.insert(index, Page { bytes, dirty: 0..0 });
        }
        Ok(self.pages.get_mut(&index).expect("it was just put there"))
    }

    /// Cuts the file short, or lengthens it with zeros; in memory only.
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.shows = self.shows.min(size);
            let (index, within) = (size / PAGE as u64, (size % PAGE as u64) as usize);
            self.pages.split_off(&size.div_ceil(PAGE as u64));
            if let Some(page) = self.pages.get_mut(&index) {
                page.bytes[within..].fill(0);
                page.dirty.end = page.dirty.end.min(within);
                if page.dirty.is_empty() {
                    // What is left of it is as the backing file shows it.
                    self.pages.remove(&index);
                }
            }
        }
        self.size = size;
    }

    /// Makes all durable in this model, and gives the backing file, whose fsync takes the real time.
    pub fn sync(&mut self) -> io::Result<Arc<File>> {
        if self.shows < self.durable_size {
            self.backing.set_len(self.shows)?;
        }
        let mut length = self.shows;
        for (index, page) in &self.pages {
            let start = index * PAGE as u64;
            self.backing.write_all_at(&page.bytes[page.dirty.clone()], start + page.dirty.start as u64)?;
            length = length.max(start + page.dirty.end as u64);
        }
        // After the writes: else their fsync would take less time than that of a file that grows.
        if length != self.size {
            self.backing.set_len(self.size)?;
        }
        self.pages.clear();
        self.durable_size = self.size;
        self.shows = self.size;
        Ok(self.backing.clone())
    }

    pub fn unsynced(&self) -> Unsynced {
        let bytes = self.pages.values().map(|page| page.dirty.len() as u64).sum();
        let resized = self.size != self.durable_size || self.shows < self.durable_size;
        Unsynced { bytes, resized }
    }

    /// The pages of the durable file that are not all zeros.
    pub fn stored_pages(&self) -> io::Result<Vec<u64>> {
        let mut stored = Vec::new();
        let mut bytes = [0; PAGE];
        for index in 0..self.durable_size.div_ceil(PAGE as u64) {
            let start = index * PAGE as u64;
            let length = (self.durable_size - start).min(PAGE as u64) as usize;
            self.backing.read_exact_at(&mut bytes[..length], start)?;
            if bytes[..length].iter().any(|&byte| byte != 0) {
                stored.push(index);
            }
        }
        Ok(stored)
    }

    /// Turns one bit of a page of the durable file. Gives the offset of its byte.
    pub fn flip(&mut self, page: u64, random: &mut impl RngExt) -> io::Result<u64> {
        let start = page * PAGE as u64;
        let offset = random.random_range(start..self.durable_size.min(start + PAGE as u64));
        let mut byte = [0];
        self.backing.read_exact_at(&mut byte, offset)?;
        byte[0] ^= 1 << random.random_range(0..8);
        self.backing.write_all_at(&byte, offset)?;
        Ok(offset)
    }

    pub fn crash(&mut self) {
        self.pages.clear();
        self.size = self.durable_size;
        self.shows = self.durable_size;
    }

    /// Lets some of what was not fsynced reach the disk before a crash; gives the bytes. A shortened file
    /// keeps its old content: new blocks are its own only once its metadata is durable.
    pub fn tear(&mut self, torn: Torn, random: &mut impl RngExt) -> io::Result<u64> {
        if self.shows < self.durable_size {
            return Ok(0);
        }
        let sectors: Vec<(u64, Range<usize>)> =
            self.pages.iter().flat_map(|(&index, page)| sectors(index, &page.dirty)).collect();
        let prefix = random.random_range(0..=sectors.len());
        let mut survived = 0;
        for (number, (index, range)) in sectors.into_iter().enumerate() {
            let survives = match torn {
                Torn::Prefix => number < prefix,
                Torn::Sectors => random.random_bool(0.5),
            };
            if survives {
                let offset = index * PAGE as u64 + range.start as u64;
                self.backing.write_all_at(&self.pages[&index].bytes[range.clone()], offset)?;
                self.durable_size = self.durable_size.max(offset + range.len() as u64);
                survived += range.len() as u64;
            }
        }
        Ok(survived)
    }
}

fn sectors(index: u64, dirty: &Range<usize>) -> impl Iterator<Item = (u64, Range<usize>)> + use<> {
    let (start, end) = (dirty.start, dirty.end);
    (start / SECTOR..end.div_ceil(SECTOR))
        .map(move |sector| (index, (sector * SECTOR).max(start)..((sector + 1) * SECTOR).min(end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::ChaCha8Rng;
    use proptest::prelude::*;
    use rand::SeedableRng;

    fn empty() -> Content {
        Content::new(tempfile::tempfile().unwrap()).unwrap()
    }

    fn all(content: &Content) -> Vec<u8> {
        content.read(0, usize::MAX).unwrap()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(u64, Vec<u8>),
        Resize(u64),
        Sync,
        Crash,
    }

    fn step() -> impl Strategy<Value = Step> {
        let data = (1..200_u8, 1..9000_usize).prop_map(|(byte, length)| vec![byte; length]);
        prop_oneof![
            5 => (0..20_000_u64, data).prop_map(|(offset, data)| Step::Write(offset, data)),
            3 => (0..20_000_u64).prop_map(Step::Resize),
            2 => Just(Step::Sync),
            1 => Just(Step::Crash),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_vector_that_a_crash_resets_to_the_last_fsync(steps in prop::collection::vec(step(), 1..40)) {
            let (mut content, mut live, mut durable) = (empty(), Vec::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Write(offset, data) => {
                        content.write(offset, &data).unwrap();
                        let end = offset as usize + data.len();
                        live.resize(live.len().max(end), 0);
                        live[offset as usize..end].copy_from_slice(&data);
                    }
                    Step::Resize(size) => {
                        content.resize(size);
                        live.resize(size as usize, 0);
                    }
                    Step::Sync => {
                        content.sync().unwrap();
                        durable = live.clone();
                        prop_assert_eq!(content.unsynced(), Unsynced::default());
                    }
                    Step::Crash => {
                        content.crash();
                        live = durable.clone();
                    }
                }
                prop_assert!(all(&content) == live);
            }
        }
    }

    #[test]
    fn counts_what_was_written_to_the_byte() {
        let mut content = empty();
        content.write(0, b"durable").unwrap();
        content.sync().unwrap();
        content.write(7, &[1; 5000]).unwrap();
        assert_eq!(content.unsynced(), Unsynced { bytes: 5000, resized: true });
        content.resize(3);
        assert_eq!(content.unsynced(), Unsynced { bytes: 0, resized: true });
    }

    #[test]
    fn a_torn_prefix_ends_where_a_sector_ends() {
        let mut sizes = Vec::new();
        for seed in 0..20 {
            let mut content = empty();
            content.write(0, &[1; 100]).unwrap();
            content.sync().unwrap();
            content.write(100, &[2; 10_000]).unwrap();
            let survived = content.tear(Torn::Prefix, &mut ChaCha8Rng::seed_from_u64(seed)).unwrap();
            content.crash();
            assert_eq!(content.size(), 100 + survived);
            assert!(content.size().is_multiple_of(SECTOR as u64) || [100, 10_100].contains(&content.size()));
            assert!(all(&content)[100..].iter().all(|&byte| byte == 2));
            sizes.push(content.size());
        }
        sizes.dedup();
        assert!(sizes.len() > 5, "the seed decides: {sizes:?}");
    }

    #[test]
    fn one_bit_of_a_stored_page_is_turned() {
        let mut content = empty();
        content.write(3 * PAGE as u64, &[7; 5]).unwrap();
        content.sync().unwrap();
        let before = all(&content);
        assert_eq!(content.stored_pages().unwrap(), [3], "the others are zeros");
        let offset = content.flip(3, &mut ChaCha8Rng::seed_from_u64(1)).unwrap() as usize;
        let differing: Vec<usize> = (0..before.len()).filter(|&at| before[at] != all(&content)[at]).collect();
        assert_eq!(differing, [offset]);
        assert_eq!((before[offset] ^ all(&content)[offset]).count_ones(), 1);
    }

    #[test]
    fn torn_sectors_leave_holes() {
        let mut content = empty();
        content.write(0, &[2; 100 * SECTOR]).unwrap();
        let survived = content.tear(Torn::Sectors, &mut ChaCha8Rng::seed_from_u64(1)).unwrap();
        content.crash();
        let there = all(&content).chunks(SECTOR).filter(|sector| sector[0] == 2).count();
        assert_eq!(there as u64 * SECTOR as u64, survived);
        assert!((30..70).contains(&there), "{there} of 100");
    }
}
