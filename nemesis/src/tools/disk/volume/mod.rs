//! The files and folders of a disk: what programs do to them.

mod durable;

use super::content::Content;
use super::tree::{InodeNumber, ROOT, Tree};
pub use durable::Lost;
use fuser::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Everything on a disk. What programs do changes `live`; an fsync carries it over to `durable`.
pub struct Volume {
    inodes: HashMap<InodeNumber, Inode>,
    pub live: Tree,
    durable: Tree,
    next: InodeNumber,
    /// Folder of the real disk that holds the content of files, each under no name.
    backing: PathBuf,
    pub quota: Quota,
    used: VolumeUse,
}

#[derive(Clone, Copy, Debug, Default)]
struct VolumeUse {
    bytes: u64,
    fsyncs: u64,
}

pub struct Inode {
    pub kind: Kind,
    pub meta: Meta,
    durable_meta: Meta,
    /// How often the kernel got to know of it and has not forgotten it: as long, it may be open.
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

#[derive(Clone, Copy, Debug, Default)]
pub struct Quota {
    /// Bytes by which files may still grow; none: as much as the real disk has.
    pub left: Option<u64>,
    /// Whether overwriting needs room, too, as on copy-on-write systems (btrfs, ZFS, thin volumes).
    pub copy_on_write: bool,
    pub refused: u64,
}

impl Volume {
    /// An empty one, whose topmost folder is like `meta`.
    pub fn new(backing: PathBuf, meta: Meta) -> Volume {
        let root = Inode { kind: Kind::Folder, meta, durable_meta: meta, lookups: 1 };
        Volume {
            inodes: HashMap::from([(ROOT, root)]),
            live: Tree::default(),
            durable: Tree::default(),
            next: ROOT + 1,
            backing,
            quota: Quota::default(),
            used: VolumeUse::default(),
        }
    }

    pub fn inode(&self, number: InodeNumber) -> Result<&Inode, Errno> {
        // What is not known was there before a crash.
        self.inodes.get(&number).ok_or(Errno::ESTALE)
    }

    pub fn inode_mut(&mut self, number: InodeNumber) -> Result<&mut Inode, Errno> {
        self.inodes.get_mut(&number).ok_or(Errno::ESTALE)
    }

    pub fn content(&mut self, number: InodeNumber) -> Result<&mut Content, Errno> {
        match &mut self.inode_mut(number)?.kind {
            Kind::File(content) => Ok(content),
            Kind::Folder => Err(Errno::EISDIR),
            Kind::Link(_) => Err(Errno::EINVAL),
        }
    }

    pub fn files(&self) -> Vec<InodeNumber> {
        let is_file = |inode: &Inode| matches!(inode.kind, Kind::File(_));
        self.inodes.iter().filter(|(_, inode)| is_file(inode)).map(|(&number, _)| number).collect()
    }

    /// What stands there; the kernel gets to know of it.
    pub fn look_up(&mut self, folder: InodeNumber, name: &OsStr) -> Result<InodeNumber, Errno> {
        self.inode(folder)?;
        let number = self.live.get(folder, name).ok_or(Errno::ENOENT)?;
        self.inode_mut(number)?.lookups += 1;
        Ok(number)
    }

    /// The kernel has forgotten it that often.
    pub fn forget(&mut self, number: InodeNumber, times: u64) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.lookups = inode.lookups.saturating_sub(times);
            self.drop_if_gone(number);
        }
    }

    fn drop_if_gone(&mut self, number: InodeNumber) {
        let known = self.inodes.get(&number).is_some_and(|inode| inode.lookups > 0);
        if !known && self.live.places(number).is_empty() && self.durable.places(number).is_empty() {
            self.inodes.remove(&number);
            self.live.forget(number);
            self.durable.forget(number);
        }
    }

    /// An entry that became durable may have been the end of what stood there before.
    fn drop_all_gone(&mut self) {
        let numbers: Vec<InodeNumber> = self.inodes.keys().copied().collect();
        for number in numbers {
            self.drop_if_gone(number);
        }
    }

    pub fn new_content(&self) -> Result<Content, Errno> {
        Ok(Content::new(tempfile::tempfile_in(&self.backing)?)?)
    }

    pub fn copied(&self, from: &Path) -> io::Result<Content> {
        let mut copy = tempfile::tempfile_in(&self.backing)?;
        io::copy(&mut File::open(from)?, &mut copy)?;
        Content::new(copy)
    }

    /// Puts something new there; the kernel gets to know of it.
    pub fn create(
        &mut self,
        folder: InodeNumber,
        name: &OsStr,
        kind: Kind,
        meta: Meta,
    ) -> Result<InodeNumber, Errno> {
        self.inode(folder)?;
        if self.live.get(folder, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let number = self.next;
        self.next += 1;
        self.inodes.insert(number, Inode { kind, meta, durable_meta: meta, lookups: 1 });
        self.live.put(folder, name, number);
        self.touch(folder);
        Ok(number)
    }

    /// Gives it one more name; the kernel gets to know of it.
    pub fn link(&mut self, number: InodeNumber, folder: InodeNumber, name: &OsStr) -> Result<(), Errno> {
        self.inode(folder)?;
        if self.live.get(folder, name).is_some() {
            return Err(Errno::EEXIST);
        }
        self.inode_mut(number)?.lookups += 1;
        self.live.put(folder, name, number);
        self.touch(folder);
        Ok(())
    }

    pub fn remove(&mut self, folder: InodeNumber, name: &OsStr) -> Result<(), Errno> {
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
    fn unlinked(&mut self, number: InodeNumber) {
        if self.live.places(number).is_empty() {
            let freed = self.content(number).map_or(0, |content| content.size());
            self.give_room(freed);
            self.drop_if_gone(number);
        }
    }

    /// Moves the entry `from` to `to`, over what stands there.
    pub fn rename(&mut self, from: (InodeNumber, &OsStr), to: (InodeNumber, &OsStr)) -> Result<(), Errno> {
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

    fn touch(&mut self, number: InodeNumber) {
        if let Some(inode) = self.inodes.get_mut(&number) {
            inode.meta.modified = SystemTime::now();
            inode.meta.changed = inode.meta.modified;
        }
    }

    pub fn write(&mut self, number: InodeNumber, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let size = self.content(number)?.size();
        let end = offset + data.len() as u64;
        let copied = if self.quota.copy_on_write { data.len() as u64 } else { 0 };
        self.take_room(end.saturating_sub(size).max(copied))?;
        self.content(number)?.write(offset, data)?;
        self.used.bytes += data.len() as u64;
        self.touch(number);
        Ok(())
    }

    /// Cuts a file short or lengthens it, in memory only. Lengthening leaves a hole, which takes no room.
    pub fn resize(&mut self, number: InodeNumber, size: u64) -> Result<(), Errno> {
        let content = self.content(number)?;
        let freed = content.size().saturating_sub(size);
        content.resize(size);
        self.give_room(freed);
        self.touch(number);
        Ok(())
    }

    /// Lengthens a file with space that is set aside for it (fallocate).
    pub fn allocate(&mut self, number: InodeNumber, end: u64) -> Result<(), Errno> {
        let size = self.content(number)?.size();
        if end > size {
            self.take_room(end - size)?;
            self.content(number)?.resize(end);
            self.touch(number);
        }
        Ok(())
    }

    fn give_room(&mut self, bytes: u64) {
        if let Some(left) = &mut self.quota.left {
            *left += bytes;
        }
    }

    fn take_room(&mut self, bytes: u64) -> Result<(), Errno> {
        let Some(left) = &mut self.quota.left else { return Ok(()) };
        match left.checked_sub(bytes) {
            Some(rest) => *left = rest,
            None => {
                self.quota.refused += 1;
                return Err(Errno::ENOSPC);
            }
        }
        Ok(())
    }
}
