//! The disk as the kernel sees it: each request of FUSE becomes a call on the volume.

mod answers;

use super::shared::{Delays, DiskCallKind, Shared};
use super::tree::InodeNumber;
use super::volume::{Kind, Meta, Volume};
use answers::{GENERATION, TTL, attr, attributes, done, entry, file_type, moment};
use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use nix::fcntl::{FallocateFlags, OFlag};
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

const WRITE_MAX: u32 = 1 << 20;

pub struct Fuse {
    pub shared: Arc<Shared>,
    listings: Mutex<HashMap<u64, Vec<Listed>>>,
    next_listing: AtomicU64,
}

/// An entry of a folder as it was when the folder was opened: what comes and goes meanwhile shifts no other.
struct Listed {
    number: InodeNumber,
    kind: FileType,
    name: OsString,
}

impl Fuse {
    pub fn new(shared: Arc<Shared>) -> Fuse {
        Fuse { shared, listings: Mutex::default(), next_listing: AtomicU64::new(1) }
    }

    fn volume(&self) -> MutexGuard<'_, Volume> {
        self.shared.volume.lock()
    }

    fn delays(&self) -> &Delays {
        &self.shared.delays
    }

    fn fails(&self, call: DiskCallKind, number: InodeNumber) -> bool {
        self.shared.errors.lock().fails(call, || self.volume().live.path(number))
    }

    fn fail(&self, call: DiskCallKind, number: InodeNumber) -> Result<(), Errno> {
        if self.fails(call, number) { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Writes, fails, or says yes and leaves the file as it was but for its size.
    fn put(&self, number: InodeNumber, offset: u64, data: &[u8]) -> Result<(), Errno> {
        if !self.fails(DiskCallKind::Write, number) {
            return self.volume().write(number, offset, data);
        }
        match self.shared.errors.lock().loses() {
            true => self.volume().allocate(number, offset + data.len() as u64),
            false => Err(Errno::EIO),
        }
    }

    fn make(
        &self,
        request: &Request,
        at: (INodeNo, &OsStr),
        kind: Kind,
        mode: u32,
    ) -> Result<FileAttr, Errno> {
        let now = SystemTime::now();
        let meta = Meta {
            permissions: (mode & 0o7777) as u16,
            user: request.uid(),
            group: request.gid(),
            accessed: now,
            modified: now,
            changed: now,
        };
        let mut volume = self.volume();
        let number = volume.create(at.0.0, at.1, kind, meta)?;
        attributes(&volume, number)
    }

    fn make_file(&self, request: &Request, at: (INodeNo, &OsStr), mode: u32) -> Result<FileAttr, Errno> {
        let content = self.volume().new_content()?;
        self.make(request, at, Kind::File(content), mode)
    }

    /// Makes a file durable, in the real disk's time; without the lock, so that others can go on meanwhile.
    fn sync(&self, number: InodeNumber) -> Result<(), Errno> {
        self.delays().sync.wait();
        self.fail(DiskCallKind::Fsync, number)?;
        if self.shared.lies.lie() {
            return Ok(());
        }
        let backing = self.volume().sync(number)?;
        Ok(backing.sync_data()?)
    }

    fn list(&self, folder: INodeNo) -> Result<Vec<Listed>, Errno> {
        let volume = self.volume();
        volume.inode(folder.0)?;
        let above = volume.live.places(folder.0).first().map_or(folder.0, |(above, _)| *above);
        let dots = [(".", folder.0), ("..", above)].map(|(name, number)| Listed {
            number,
            kind: FileType::Directory,
            name: name.into(),
        });
        let entries = volume.live.entries(folder.0).iter().map(|(name, &number)| {
            Ok(Listed { number, kind: file_type(volume.inode(number)?), name: name.clone() })
        });
        dots.into_iter().map(Ok).chain(entries).collect()
    }
}

impl Filesystem for Fuse {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // An error only says which value it took instead.
        let _ = config.set_max_write(WRITE_MAX);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut volume = self.volume();
        let found = volume.look_up(parent.0, name).and_then(|number| attributes(&volume, number));
        entry(found, reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.volume().forget(number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attr(attributes(&self.volume(), number.0), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        changed: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut volume = self.volume();
        let result = size.map_or(Ok(()), |size| volume.resize(number.0, size)).and_then(|()| {
            let meta = &mut volume.inode_mut(number.0)?.meta;
            meta.permissions = mode.map_or(meta.permissions, |mode| (mode & 0o7777) as u16);
            meta.user = user.unwrap_or(meta.user);
            meta.group = group.unwrap_or(meta.group);
            meta.accessed = accessed.map_or(meta.accessed, moment);
            meta.modified = modified.map_or(meta.modified, moment);
            meta.changed = changed.unwrap_or_else(SystemTime::now);
            attributes(&volume, number.0)
        });
        attr(result, reply);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.volume().inode(number.0).map(|inode| &inode.kind) {
            Ok(Kind::Link(target)) => reply.data(target.as_os_str().as_encoded_bytes()),
            Ok(_) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        // Pipes, sockets and devices have no content to lose, and no server keeps one among its data.
        let regular = mode & 0o170_000 == 0o100_000;
        let made = if regular { self.make_file(request, (parent, name), mode) } else { Err(Errno::EPERM) };
        entry(made, reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        entry(self.make(request, (parent, name), Kind::Folder, mode), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        entry(self.make(request, (parent, name), Kind::Link(target.to_owned()), 0o777), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.make_file(request, (parent, name), mode) {
            Ok(attributes) => {
                reply.created(&TTL, &attributes, GENERATION, FileHandle(0), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut volume = self.volume();
        let linked = volume.link(number.0, parent.0, name).and_then(|()| attributes(&volume, number.0));
        entry(linked, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.volume().remove(parent.0, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.volume().remove(parent.0, name), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut volume = self.volume();
        let taken = volume.live.get(new_parent.0, new_name).is_some();
        let result = match flags {
            RenameFlags::RENAME_NOREPLACE if taken => Err(Errno::EEXIST),
            flags if flags.is_empty() || flags == RenameFlags::RENAME_NOREPLACE => {
                volume.rename((parent.0, name), (new_parent.0, new_name))
            }
            _ => Err(Errno::EINVAL),
        };
        done(result, reply);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.delays().read.wait();
        let read = self
            .fail(DiskCallKind::Read, number.0)
            .and_then(|()| Ok(self.volume().content(number.0)?.read(offset, size as usize)?));
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.delays().write.wait();
        let mut result = self.put(number.0, offset, data);
        // O_SYNC contains this flag.
        if result.is_ok() && OFlag::from_bits_retain(flags.0).contains(OFlag::O_DSYNC) {
            result = self.sync(number.0);
        }
        match result {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let result = match FallocateFlags::from_bits_retain(mode) {
            mode if mode.is_empty() => self.volume().allocate(number.0, offset + length),
            // It changes nothing that a program can see.
            FallocateFlags::FALLOC_FL_KEEP_SIZE => Ok(()),
            _ => Err(Errno::EOPNOTSUPP),
        };
        done(result, reply);
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(self.sync(number.0), reply);
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(number) {
            Ok(listed) => {
                let handle = self.next_listing.fetch_add(1, Ordering::Relaxed);
                self.listings.lock().insert(handle, listed);
                reply.opened(FileHandle(handle), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listings = self.listings.lock();
        let listed = listings.get(&handle.0).map_or(&[][..], Vec::as_slice);
        for (next, entry) in (1..).zip(listed).skip(offset as usize) {
            if reply.add(INodeNo(entry.number), next, entry.kind, &entry.name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.lock().remove(&handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.delays().sync.wait();
        if self.shared.lies.lie() {
            return done(Ok(()), reply);
        }
        let failed = self.fail(DiskCallKind::Fsync, number.0);
        let synced = failed.and_then(|()| self.volume().sync_folder(number.0));
        done(synced.and_then(|()| Ok(self.shared.beneath.sync_data()?)), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let Ok(real) = nix::sys::statvfs::fstatvfs(&self.shared.beneath) else {
            return reply.error(Errno::EIO);
        };
        let block = real.fragment_size();
        let free = self.volume().quota.left.map_or(real.blocks_available(), |left| left / block);
        let (blocks, files, left) = (real.blocks(), real.files(), real.files_free());
        reply.statfs(blocks, free, free, files, left, block as u32, real.name_max() as u32, block as u32);
    }

    // The kernel remembers these answers, and asks no more: extended attributes are not kept (the kernel
    // would ask for one with every write), and there is nothing to do as a file is closed.

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn setxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: &[u8], _: i32, _: u32, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }
}
