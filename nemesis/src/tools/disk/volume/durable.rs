//! What lasts of a disk: what an fsync makes durable, and what a loss of power takes away.

use super::super::content::Torn;
use super::super::tree::{InodeNumber, Place, ROOT, Tree};
use super::{Kind, Volume, VolumeUse};
use fuser::Errno;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// What a loss of power took away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Bytes that were written since the mount or the last crash, fsynced or not.
    pub written: u64,
    /// Calls of fsync since then, for files and folders.
    pub fsyncs: u64,
    /// Bytes that were written, not fsynced, and are gone.
    pub bytes: u64,
    /// Files that lost bytes or a change of their size.
    pub files: u64,
    /// Entries of folders either before or after: new names, old names of renames, removals.
    pub entries: u64,
    /// Bytes not fsynced that reached the disk all the same (torn writes).
    pub survived: u64,
    /// The first of the files and entries concerned, by path.
    pub paths: Vec<String>,
}

const PATHS_MAX: usize = 10;

impl Volume {
    /// fsync and fdatasync: makes a file durable, and its name if it has none. Gives the backing file.
    pub fn sync(&mut self, number: InodeNumber) -> Result<Arc<File>, Errno> {
        let backing = self.content(number)?.sync()?;
        self.sync_meta(number)?;
        if self.durable.places(number).is_empty() {
            self.durable.sync_entry(&self.live, number);
            self.drop_all_gone();
        }
        Ok(backing)
    }

    pub fn sync_folder(&mut self, number: InodeNumber) -> Result<(), Errno> {
        self.sync_meta(number)?;
        self.durable.sync_folder(&self.live, number);
        self.drop_all_gone();
        Ok(())
    }

    fn sync_meta(&mut self, number: InodeNumber) -> Result<(), Errno> {
        self.used.fsyncs += 1;
        let inode = self.inode_mut(number)?;
        inode.durable_meta = inode.meta;
        Ok(())
    }

    /// Everything that is there becomes durable, and counts as not written since.
    pub fn sync_all(&mut self) -> Result<(), Errno> {
        let numbers: Vec<InodeNumber> = self.inodes.keys().copied().collect();
        for number in numbers {
            if matches!(self.inode(number)?.kind, Kind::File(_)) {
                self.sync(number)?;
            } else {
                self.sync_meta(number)?;
            }
        }
        self.durable = self.live.clone();
        self.used = VolumeUse::default();
        Ok(())
    }

    /// Turns so many bits of what is durable in files whose path contains `path`, and gives each place.
    pub fn flip(&mut self, bits: u32, path: &str, random: &mut impl RngExt) -> Result<Vec<String>, Errno> {
        let mut pages = Vec::new();
        for number in self.files() {
            let Some(file) = self.durable.path(number).filter(|file| file.contains(path)) else { continue };
            let stored = self.content(number)?.stored_pages()?;
            pages.extend(stored.into_iter().map(|page| (file.clone(), number, page)));
        }
        pages.sort();
        if pages.is_empty() {
            return Ok(Vec::new());
        }
        let flips = (0..bits).map(|_| {
            let (file, number, page) = &pages[random.random_range(0..pages.len())];
            Ok(format!("{file}, byte {}", self.content(*number)?.flip(*page, random)?))
        });
        flips.collect()
    }

    /// Loses the power: only what is durable is there afterwards, and `torn` of the rest. All gets new
    /// numbers, unknown to the kernel, so that nothing in its caches counts and files still open are stale.
    pub fn crash(&mut self, torn: Option<Torn>, random: &mut impl RngExt) -> io::Result<Lost> {
        let lost = self.lose(torn, random)?;
        let mut old = std::mem::take(&mut self.inodes);
        let mut after = Tree::default();
        let mut numbers = HashMap::from([(ROOT, ROOT)]);
        let mut folders = vec![ROOT];
        while let Some(folder) = folders.pop() {
            for (name, &number) in self.durable.entries(folder) {
                let new = *numbers.entry(number).or_insert_with(|| {
                    folders.push(number);
                    self.next += 1;
                    self.next - 1
                });
                after.put(numbers[&folder], name, new);
            }
        }
        for (number, new) in numbers {
            let mut inode = old.remove(&number).expect("what is durable is kept");
            inode.meta = inode.durable_meta;
            inode.lookups = u64::from(new == ROOT);
            if let Kind::File(content) = &mut inode.kind {
                content.crash();
            }
            self.inodes.insert(new, inode);
        }
        self.live = after.clone();
        self.durable = after;
        Ok(lost)
    }

    pub fn written(&self) -> u64 {
        self.used.bytes
    }

    /// Counts what a crash takes, and lets survive what is torn.
    fn lose(&mut self, torn: Option<Torn>, random: &mut impl RngExt) -> io::Result<Lost> {
        let used = std::mem::take(&mut self.used);
        let mut lost = Lost { written: used.bytes, fsyncs: used.fsyncs, ..Lost::default() };
        let undone = |there: &Tree, then: &Tree| -> Vec<InodeNumber> {
            let differs = |((folder, name), number): (&Place, InodeNumber)| {
                (then.get(*folder, name) != Some(number)).then_some(number)
            };
            there.all().filter_map(differs).collect()
        };
        let (gone, back) = (undone(&self.live, &self.durable), undone(&self.durable, &self.live));
        lost.entries = (gone.len() + back.len()) as u64;
        let mut paths: Vec<String> = gone.iter().filter_map(|number| self.live.path(*number)).collect();
        paths.extend(back.iter().filter_map(|number| self.durable.path(*number)));
        // In order of their numbers, so that the same seed tears the same files in the same way.
        let mut numbers: Vec<InodeNumber> = self.inodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let Some(path) = self.live.path(number) else { continue };
            let durable = !self.durable.places(number).is_empty();
            let Ok(content) = self.content(number) else { continue };
            let unsynced = content.unsynced();
            if unsynced.bytes == 0 && !unsynced.resized {
                continue;
            }
            let survived = match torn {
                Some(torn) if durable => content.tear(torn, random)?,
                _ => 0,
            };
            lost.bytes += unsynced.bytes - survived;
            lost.survived += survived;
            lost.files += 1;
            paths.push(path);
        }
        paths.sort();
        paths.dedup();
        paths.truncate(PATHS_MAX);
        lost.paths = paths;
        Ok(lost)
    }
}
