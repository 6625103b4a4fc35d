//! How the kernel is answered: what an inode on the volume is, in FUSE's words.

use super::super::tree::InodeNumber;
use super::super::volume::{Inode, Kind, Meta, Volume};
use fuser::{Errno, FileAttr, FileType, Generation, INodeNo, ReplyAttr, ReplyEmpty, ReplyEntry, TimeOrNow};
use std::time::{Duration, SystemTime};

/// The kernel asks each time, so that after a crash it believes nothing that it knew before.
pub(super) const TTL: Duration = Duration::ZERO;

/// Numbers are never used again, so that they need no generation.
pub(super) const GENERATION: Generation = Generation(0);

pub(super) fn file_type(inode: &Inode) -> FileType {
    match inode.kind {
        Kind::File(_) => FileType::RegularFile,
        Kind::Folder => FileType::Directory,
        Kind::Link(_) => FileType::Symlink,
    }
}

pub(super) fn attributes(volume: &Volume, number: InodeNumber) -> Result<FileAttr, Errno> {
    let inode = volume.inode(number)?;
    let size = match &inode.kind {
        Kind::File(content) => content.size(),
        Kind::Folder => 0,
        Kind::Link(target) => target.as_os_str().len() as u64,
    };
    let links = match inode.kind {
        Kind::Folder => 2,
        _ => volume.live.places(number).len() as u32,
    };
    let Meta { permissions, user, group, accessed, modified, changed } = inode.meta;
    Ok(FileAttr {
        ino: INodeNo(number),
        size,
        blocks: size.div_ceil(512),
        atime: accessed,
        mtime: modified,
        ctime: changed,
        crtime: changed,
        kind: file_type(inode),
        perm: permissions,
        nlink: links,
        uid: user,
        gid: group,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

pub(super) fn moment(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    }
}

pub(super) fn done(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

pub(super) fn entry(result: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match result {
        Ok(attributes) => reply.entry(&TTL, &attributes, GENERATION),
        Err(error) => reply.error(error),
    }
}

pub(super) fn attr(result: Result<FileAttr, Errno>, reply: ReplyAttr) {
    match result {
        Ok(attributes) => reply.attr(&TTL, &attributes),
        Err(error) => reply.error(error),
    }
}
