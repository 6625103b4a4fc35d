//! The files and folders of a disk, and what a loss of power does to them.

use super::content::{Content, Torn};
use super::tree::{Number, Place, ROOT, Tree};
use fuser::Errno;
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Everything on a disk. What programs do changes `live`; an fsync carries it over to `durable`.
pub struct Volume {
    things: HashMap<Number, Thing>,
    pub live: Tree,
    durable: Tree,
    next: Number,
    /// Folder of the real disk that holds the content of files, each under no name.
    backing: PathBuf,
    pub room: Room,
    used: Used,
}

/// What was done since the mount or the last crash.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    bytes: u64,
    fsyncs: u64,
}

/// A file, folder or symbolic link.
pub struct Thing {
    pub kind: Kind,
    pub meta: Meta,
    durable_meta: Meta,
    /// How often the kernel was told of it and has not forgotten it: as long, it may be open.
    lookups: u64,
}

pub enum Kind {
    File(Content),
    Folder,
    Link(PathBuf),
}

#[derive(Clone, Copy)]
pub struct Meta {
    pub permissions: u16,
    pub user: u32,
    pub group: u32,
    pub accessed: SystemTime,
    pub modified: SystemTime,
    pub changed: SystemTime,
}

/// How much more the disk takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Room {
    /// Bytes by which files may still grow; none: as much as the real disk has.
    pub left: Option<u64>,
    /// Whether overwriting needs room too, as on a file system that copies on write (btrfs, ZFS, thin volumes).
    pub copy_on_write: bool,
    /// How many calls were refused for want of room.
    pub refused: u64,
}

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
    /// Entries of folders that are there before or after, but not both: new names, old names of renames, removals.
    pub entries: u64,
    /// Bytes not fsynced that reached the disk all the same (torn writes).
    pub survived: u64,
    /// The first of the files and entries concerned, by path.
    pub paths: Vec<String>,
}

/// Paths named in [`Lost`].
const PATHS_MAX: usize = 10;

impl Volume {
    /// An empty one, whose topmost folder is like `meta`.
    pub fn new(backing: PathBuf, meta: Meta) -> Volume {
        let root = Thing { kind: Kind::Folder, meta, durable_meta: meta, lookups: 1 };
        Volume {
            things: HashMap::from([(ROOT, root)]),
            live: Tree::default(),
            durable: Tree::default(),
            next: ROOT + 1,
            backing,
            room: Room::default(),
            used: Used::default(),
        }
    }

    pub fn thing(&self, number: Number) -> Result<&Thing, Errno> {
        // What is not known was there before a crash.
        self.things.get(&number).ok_or(Errno::ESTALE)
    }

    pub fn thing_mut(&mut self, number: Number) -> Result<&mut Thing, Errno> {
        self.things.get_mut(&number).ok_or(Errno::ESTALE)
    }

    pub fn content(&mut self, number: Number) -> Result<&mut Content, Errno> {
        match &mut self.thing_mut(number)?.kind {
            Kind::File(content) => Ok(content),
            Kind::Folder => Err(Errno::EISDIR),
            Kind::Link(_) => Err(Errno::EINVAL),
        }
    }

    /// What stands there; the kernel is told of it.
    pub fn look_up(&mut self, folder: Number, name: &OsStr) -> Result<Number, Errno> {
        self.thing(folder)?;
        let number = self.live.get(folder, name).ok_or(Errno::ENOENT)?;
        self.thing_mut(number)?.lookups += 1;
        Ok(number)
    }

    /// The kernel has forgotten it that often.
    pub fn forget(&mut self, number: Number, times: u64) {
        if let Some(thing) = self.things.get_mut(&number) {
            thing.lookups = thing.lookups.saturating_sub(times);
            self.drop_if_gone(number);
        }
    }

    fn drop_if_gone(&mut self, number: Number) {
        let known = self.things.get(&number).is_some_and(|thing| thing.lookups > 0);
        if !known && self.live.places(number).is_empty() && self.durable.places(number).is_empty() {
            self.things.remove(&number);
            self.live.forget(number);
            self.durable.forget(number);
        }
    }

    /// An entry that became durable may have been the end of what stood there before.
    fn drop_all_gone(&mut self) {
        let numbers: Vec<Number> = self.things.keys().copied().collect();
        for number in numbers {
            self.drop_if_gone(number);
        }
    }

    /// An empty file for the content of a new one.
    pub fn new_content(&self) -> Result<Content, Errno> {
        Ok(Content::new(tempfile::tempfile_in(&self.backing)?)?)
    }

    /// The content of a file that lies elsewhere.
    pub fn copied(&self, from: &Path) -> io::Result<Content> {
        let mut copy = tempfile::tempfile_in(&self.backing)?;
        io::copy(&mut File::open(from)?, &mut copy)?;
        Content::new(copy)
    }

    /// Puts something new there; the kernel is told of it.
    pub fn create(&mut self, folder: Number, name: &OsStr, kind: Kind, meta: Meta) -> Result<Number, Errno> {
        self.thing(folder)?;
        if self.live.get(folder, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let number = self.next;
        self.next += 1;
        self.things.insert(number, Thing { kind, meta, durable_meta: meta, lookups: 1 });
        self.live.put(folder, name, number);
        self.touch(folder);
        Ok(number)
    }

    /// Gives it one more name; the kernel is told of it.
    pub fn link(&mut self, number: Number, folder: Number, name: &OsStr) -> Result<(), Errno> {
        self.thing(folder)?;
        if self.live.get(folder, name).is_some() {
            return Err(Errno::EEXIST);
        }
        self.thing_mut(number)?.lookups += 1;
        self.live.put(folder, name, number);
        self.touch(folder);
        Ok(())
    }

    /// Removes the entry of a file, link or empty folder.
    pub fn remove(&mut self, folder: Number, name: &OsStr) -> Result<(), Errno> {
        let number = self.live.get(folder, name).ok_or(Errno::ENOENT)?;
        if !self.live.entries(number).is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        self.live.take(folder, name);
        self.touch(folder);
        self.unlinked(number);
        Ok(())
    }

    /// One of its names is gone. With the last one its room is free again, even while it is still open.
    fn unlinked(&mut self, number: Number) {
        if self.live.places(number).is_empty() {
            let freed = self.content(number).map_or(0, |content| content.size());
            self.give_room(freed);
            self.drop_if_gone(number);
        }
    }

    /// Moves the entry `from` to `to`, over what stands there.
    pub fn rename(&mut self, from: (Number, &OsStr), to: (Number, &OsStr)) -> Result<(), Errno> {
        let number = self.live.get(from.0, from.1).ok_or(Errno::ENOENT)?;
        let over = self.live.get(to.0, to.1);
        if over == Some(number) {
            return Ok(());
        }
        if over.is_some_and(|over| !self.live.entries(over).is_empty()) {
            return Err(Errno::ENOTEMPTY);
        }
        self.live.take(from.0, from.1);
        self.live.put(to.0, to.1, number);
        self.touch(from.0);
        self.touch(to.0);
        if let Some(over) = over {
            self.unlinked(over);
        }
        Ok(())
    }

    fn touch(&mut self, number: Number) {
        if let Some(thing) = self.things.get_mut(&number) {
            thing.meta.modified = SystemTime::now();
            thing.meta.changed = thing.meta.modified;
        }
    }

    /// Writes to a file, in memory only.
    pub fn write(&mut self, number: Number, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let size = self.content(number)?.size();
        let end = offset + data.len() as u64;
        let copied = if self.room.copy_on_write { data.len() as u64 } else { 0 };
        self.take_room(end.saturating_sub(size).max(copied))?;
        self.content(number)?.write(offset, data)?;
        self.used.bytes += data.len() as u64;
        self.touch(number);
        Ok(())
    }

    /// Cuts a file short or lengthens it, in memory only. Lengthening this way leaves a hole, which takes no room.
    pub fn resize(&mut self, number: Number, size: u64) -> Result<(), Errno> {
        let content = self.content(number)?;
        let freed = content.size().saturating_sub(size);
        content.resize(size);
        self.give_room(freed);
        self.touch(number);
        Ok(())
    }

    /// Lengthens a file with space that is set aside for it (fallocate).
    pub fn allocate(&mut self, number: Number, end: u64) -> Result<(), Errno> {
        let size = self.content(number)?.size();
        if end > size {
            self.take_room(end - size)?;
            self.content(number)?.resize(end);
            self.touch(number);
        }
        Ok(())
    }

    fn give_room(&mut self, bytes: u64) {
        if let Some(left) = &mut self.room.left {
            *left += bytes;
        }
    }

    fn take_room(&mut self, bytes: u64) -> Result<(), Errno> {
        let Some(left) = &mut self.room.left else { return Ok(()) };
        match left.checked_sub(bytes) {
            Some(rest) => *left = rest,
            None => {
                self.room.refused += 1;
                return Err(Errno::ENOSPC);
            }
        }
        Ok(())
    }

    /// fsync and fdatasync: makes a file durable, and its name if it has no durable one. Gives the backing file.
    pub fn settle(&mut self, number: Number) -> Result<Arc<File>, Errno> {
        let backing = self.content(number)?.settle()?;
        self.settle_meta(number)?;
        if self.durable.places(number).is_empty() {
            self.durable.settle_entry(&self.live, number);
            self.drop_all_gone();
        }
        Ok(backing)
    }

    /// fsync of a folder: makes its entries durable.
    pub fn settle_folder(&mut self, number: Number) -> Result<(), Errno> {
        self.settle_meta(number)?;
        self.durable.settle_folder(&self.live, number);
        self.drop_all_gone();
        Ok(())
    }

    fn settle_meta(&mut self, number: Number) -> Result<(), Errno> {
        self.used.fsyncs += 1;
        let thing = self.thing_mut(number)?;
        thing.durable_meta = thing.meta;
        Ok(())
    }

    /// Everything that is there becomes durable, and counts as not written since.
    pub fn settle_all(&mut self) -> Result<(), Errno> {
        let numbers: Vec<Number> = self.things.keys().copied().collect();
        for number in numbers {
            if matches!(self.thing(number)?.kind, Kind::File(_)) {
                self.settle(number)?;
            } else {
                self.settle_meta(number)?;
            }
        }
        self.durable = self.live.clone();
        self.used = Used::default();
        Ok(())
    }

    /// Loses the power: only what is durable is there afterwards, and `torn` of the rest.
    ///
    /// All that remains gets new numbers, which the kernel has never heard of. So nothing that it keeps in its caches
    /// can speak for a file, and what a survivor still has open is stale.
    pub fn crash(&mut self, torn: Option<Torn>, random: &mut impl Rng) -> io::Result<Lost> {
        let lost = self.lose(torn, random)?;
        let mut old = std::mem::take(&mut self.things);
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
            let mut thing = old.remove(&number).expect("what is durable is kept");
            thing.meta = thing.durable_meta;
            thing.lookups = u64::from(new == ROOT);
            if let Kind::File(content) = &mut thing.kind {
                content.crash();
            }
            self.things.insert(new, thing);
        }
        self.live = after.clone();
        self.durable = after;
        Ok(lost)
    }

    /// Bytes that were written since the mount or the last crash.
    pub fn written(&self) -> u64 {
        self.used.bytes
    }

    /// Counts what a crash takes, and lets survive what is torn.
    fn lose(&mut self, torn: Option<Torn>, random: &mut impl Rng) -> io::Result<Lost> {
        let used = std::mem::take(&mut self.used);
        let mut lost = Lost { written: used.bytes, fsyncs: used.fsyncs, ..Lost::default() };
        let undone = |there: &Tree, then: &Tree| -> Vec<Number> {
            let differs = |((folder, name), number): (&Place, Number)| {
                (then.get(*folder, name) != Some(number)).then_some(number)
            };
            there.all().filter_map(differs).collect()
        };
        let (gone, back) = (undone(&self.live, &self.durable), undone(&self.durable, &self.live));
        lost.entries = (gone.len() + back.len()) as u64;
        let mut paths: Vec<String> = gone.iter().filter_map(|number| self.live.path(*number)).collect();
        paths.extend(back.iter().filter_map(|number| self.durable.path(*number)));
        // In order of their numbers, so that the same seed tears the same files in the same way.
        let mut numbers: Vec<Number> = self.things.keys().copied().collect();
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
