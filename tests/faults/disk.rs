//! The disk, mounted on a folder of this machine, served by another process. Needs root and /dev/fuse.

use crate::served::Disk;
use fencepost_nemesis::tools::disk::{DiskCallKind, Failing, Slow, Torn};
use nix::sys::mman::{MapFlags, MsFlags, ProtFlags, mmap, msync, munmap};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::num::NonZero;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A mounted disk, and the folder that is removed after it.
struct Mounted {
    disk: Disk,
    folder: TempDir,
}

impl Mounted {
    fn new() -> Mounted {
        let folder = TempDir::new().unwrap();
        let disk = Disk::mount(folder.path()).expect("mounting takes root and /dev/fuse");
        Mounted { disk, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn create(&self, name: &str, content: &[u8]) -> File {
        let path = self.path(name);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        file.write_all(content).unwrap();
        file
    }

    fn create_durable(&self, name: &str, content: &[u8]) -> File {
        let file = self.create(name, content);
        file.sync_all().unwrap();
        file
    }

    fn fsync_folder(&self, name: &str) {
        File::open(self.path(name)).unwrap().sync_all().unwrap();
    }

    fn read(&self, name: &str) -> Option<Vec<u8>> {
        match fs::read(self.path(name)) {
            Ok(content) => Some(content),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => panic!("{name}: {error}"),
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

#[test]
fn a_crash_takes_what_was_not_fsynced_and_nothing_else() {
    let mounted = Mounted::new();
    let mut log = mounted.create_durable("log", b"one ");
    log.write_all(b"two").unwrap();
    mounted.create("never", b"fsynced");
    assert_eq!(mounted.read("log").unwrap(), b"one two", "until then all is there");
    let lost = mounted.disk.crash(None, 0).unwrap();
    assert_eq!((lost.bytes, lost.files, lost.entries, lost.survived), (10, 2, 1, 0));
    assert_eq!((lost.written, lost.fsyncs), (14, 1));
    assert_eq!(lost.paths, ["log", "never"]);
    assert_eq!(mounted.read("log").unwrap(), b"one ");
    assert_eq!(mounted.names(), ["log"]);
}

#[test]
fn a_second_crash_finds_nothing_to_take() {
    let mounted = Mounted::new();
    mounted.create_durable("log", b"one");
    mounted.create("never", b"fsynced");
    mounted.disk.crash(None, 0).unwrap();
    assert_eq!(mounted.disk.crash(None, 0).unwrap(), Default::default());
    assert_eq!(mounted.names(), ["log"]);
}

#[test]
fn what_the_kernel_had_cached_is_forgotten() {
    let mounted = Mounted::new();
    let mut file = mounted.create_durable("log", &[1; 10_000]);
    file.write_all_at(&[2; 10_000], 0).unwrap();
    let mut seen = Vec::new();
    file.read_to_end(&mut seen).unwrap();
    mounted.read("log").unwrap();
    mounted.disk.crash(None, 0).unwrap();
    assert!(mounted.read("log").unwrap() == [1; 10_000]);
}

#[test]
fn who_survives_a_crash_has_nothing_left_in_hand() {
    let mounted = Mounted::new();
    let mut file = mounted.create_durable("log", b"one");
    mounted.disk.crash(None, 0).unwrap();
    assert_eq!(file.write_all(b"two").unwrap_err().kind(), ErrorKind::StaleNetworkFileHandle);
    assert!(file.sync_all().is_err());
    drop(file);
    assert_eq!(mounted.read("log").unwrap(), b"one");
}

#[test]
fn new_folders_become_durable_with_the_first_fsync_within() {
    let mounted = Mounted::new();
    fs::create_dir_all(mounted.path("a/b")).unwrap();
    fs::create_dir(mounted.path("c")).unwrap();
    mounted.create_durable("a/b/file", b"durable");
    assert_eq!(mounted.disk.crash(None, 0).unwrap().entries, 1);
    assert_eq!(mounted.read("a/b/file").unwrap(), b"durable");
    assert_eq!(mounted.names(), ["a"]);
}

#[test]
fn a_file_replaced_by_rename_comes_back_unless_the_folder_was_fsynced() {
    for fsynced in [false, true] {
        let mounted = Mounted::new();
        mounted.create_durable("state", b"old");
        mounted.create_durable("state.tmp", b"new");
        fs::rename(mounted.path("state.tmp"), mounted.path("state")).unwrap();
        if fsynced {
            mounted.fsync_folder("");
        }
        let lost = mounted.disk.crash(None, 0).unwrap();
        let (state, names): (&[u8], &[&str]) =
            if fsynced { (b"new", &["state"]) } else { (b"old", &["state", "state.tmp"]) };
        assert_eq!(mounted.read("state").unwrap(), state);
        assert_eq!(mounted.names(), names);
        assert_eq!(lost.entries > 0, !fsynced);
    }
}

#[test]
fn a_rename_over_a_file_that_was_never_fsynced_leaves_it_empty() {
    let mounted = Mounted::new();
    mounted.create("state.tmp", b"new");
    fs::rename(mounted.path("state.tmp"), mounted.path("state")).unwrap();
    mounted.fsync_folder("");
    mounted.disk.crash(None, 0).unwrap();
    assert_eq!(mounted.read("state").unwrap(), b"");
}

#[test]
fn a_removed_file_comes_back_unless_the_folder_was_fsynced() {
    let mounted = Mounted::new();
    for name in ["kept", "removed"] {
        mounted.create_durable(name, b"content");
    }
    fs::remove_file(mounted.path("removed")).unwrap();
    mounted.fsync_folder("");
    fs::remove_file(mounted.path("kept")).unwrap();
    assert_eq!(mounted.names(), Vec::<String>::new());
    assert_eq!(mounted.disk.crash(None, 0).unwrap().entries, 1);
    assert_eq!(mounted.names(), ["kept"]);
    assert_eq!(mounted.read("kept").unwrap(), b"content");
}

#[test]
fn a_file_that_was_cut_short_or_set_aside_gets_its_durable_size_back() {
    let mounted = Mounted::new();
    let cut = mounted.create_durable("cut", &[1; 9000]);
    cut.set_len(100).unwrap();
    cut.set_len(5000).unwrap();
    assert!(mounted.read("cut").unwrap()[100..] == [0; 4900], "what was cut off is gone");
    let reserved = mounted.create_durable("reserved", b"");
    nix::fcntl::posix_fallocate(&reserved, 0, 1 << 20).unwrap();
    reserved.sync_data().unwrap();
    nix::fcntl::posix_fallocate(&reserved, 0, 1 << 21).unwrap();
    assert_eq!(mounted.disk.crash(None, 0).unwrap().files, 2);
    assert!(mounted.read("cut").unwrap() == [1; 9000]);
    assert_eq!(mounted.read("reserved").unwrap().len(), 1 << 20);
}

#[test]
fn o_sync_makes_each_write_durable() {
    let mounted = Mounted::new();
    let path = mounted.path("log");
    let flags = nix::fcntl::OFlag::O_DSYNC.bits();
    let mut file = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path).unwrap();
    file.write_all(b"one").unwrap();
    file.write_all(b"two").unwrap();
    assert_eq!(mounted.disk.crash(None, 0).unwrap().bytes, 0);
    assert_eq!(mounted.read("log").unwrap(), b"onetwo");
}

#[test]
fn a_mapped_file_is_durable_as_far_as_msync_made_it() {
    let mounted = Mounted::new();
    let file = mounted.create_durable("map", &[0; 8192]);
    let length = NonZero::new(8192).unwrap();
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a fresh mapping that no other code knows, unmapped at the end, used only through this pointer.
    unsafe {
        let map = mmap(None, length, protection, MapFlags::MAP_SHARED, &file, 0).unwrap();
        let bytes = map.cast::<u8>();
        bytes.write(1);
        msync(map, 4096, MsFlags::MS_SYNC).unwrap();
        bytes.add(4096).write(2);
        munmap(map, 8192).unwrap();
    }
    drop(file);
    assert_eq!(mounted.read("map").unwrap()[4096], 2, "the mapping was written back");
    let lost = mounted.disk.crash(None, 0).unwrap();
    assert_eq!((lost.files, lost.bytes), (1, 4096));
    let content = mounted.read("map").unwrap();
    assert_eq!((content[0], content[4096]), (1, 0));
}

#[test]
fn torn_writes_leave_a_part_that_the_seed_decides() {
    let run = |torn, seed| {
        let mounted = Mounted::new();
        let mut log = mounted.create_durable("log", b"durable");
        log.write_all(&[7; 20_000]).unwrap();
        let lost = mounted.disk.crash(Some(torn), seed).unwrap();
        assert_eq!(lost.bytes + lost.survived, 20_000);
        let content = mounted.read("log").unwrap();
        assert!(content.starts_with(b"durable"));
        (lost.survived, content)
    };
    for torn in [Torn::Prefix, Torn::Sectors] {
        assert!(run(torn, 3) == run(torn, 3));
        assert!((0..20).map(|seed| run(torn, seed).0).any(|survived| survived > 0 && survived < 20_000));
    }
}

#[test]
fn a_full_disk_refuses_to_grow_until_it_is_healed() {
    let mounted = Mounted::new();
    let mut file = mounted.create_durable("file", &[1; 4096]);
    assert!(!mounted.disk.probe(4096).unwrap().full);
    mounted.disk.fill(1000, false);
    file.write_all(&[2; 1000]).unwrap();
    assert_eq!(file.write_all(b"more").unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_all_at(&[3; 4096], 0).expect("overwriting takes no room");
    assert!(mounted.disk.probe(1).unwrap().full);
    file.set_len(0).unwrap();
    file.write_all_at(&[1; 5096], 0).expect("what was cut off made room");
    assert!(mounted.disk.probe(1).unwrap().full);
    fs::remove_file(mounted.path("file")).unwrap();
    let mut file = mounted.create("another", &[1; 5096]);
    mounted.disk.fill(0, true);
    assert_eq!(file.write_all_at(&[3; 4096], 0).unwrap_err().kind(), ErrorKind::StorageFull);
    assert!(mounted.disk.heal().refused > 0);
    file.write_all(b"more").unwrap();
    assert_eq!(mounted.disk.heal().refused, 0);
}

#[test]
fn a_slow_disk_delays_each_kind_of_request_as_configured() {
    let mounted = Mounted::new();
    let mut file = mounted.create_durable("file", b"");
    // What was not delayed is seen by the count: a busy machine is as slow as a slow disk.
    let mut took = |slow: Slow| {
        mounted.disk.slow(slow);
        let begun = Instant::now();
        file.write_all(b"x").unwrap();
        let written = begun.elapsed();
        file.sync_data().unwrap();
        (written, begun.elapsed() - written, mounted.disk.heal().delayed)
    };
    let (ms, long) = (Duration::from_millis, 100);
    let (write, fsync, delayed) = took(Slow { write_ms: long, ..Slow::default() });
    assert!(write >= ms(long) && delayed == 1, "{write:?} {fsync:?} {delayed}");
    let (write, fsync, delayed) = took(Slow { fsync_ms: long, ..Slow::default() });
    assert!(fsync >= ms(long) && delayed == 1, "{write:?} {fsync:?} {delayed}");
    mounted.disk.slow(Slow { fsync_ms: long, ..Slow::default() });
    assert!(mounted.disk.probe(4096).unwrap().ms >= 100.0);
    assert_eq!(mounted.disk.heal().delayed, 1);
    mounted.disk.probe(4096).unwrap();
    assert_eq!(mounted.disk.heal().delayed, 0);
}

/// Every call of this kind on a file whose name contains "log".
fn every(call: DiskCallKind) -> Failing {
    Failing { call, share: 1.0, nth: 0, path: Some("log".to_owned()), lost: false }
}

#[test]
fn reads_fail_also_where_the_kernel_had_the_answer() {
    let mounted = Mounted::new();
    mounted.create_durable("log", b"one");
    mounted.create_durable("other", b"two");
    let file = File::open(mounted.path("log")).unwrap();
    let read = || file.read_exact_at(&mut [0; 3], 0);
    read().unwrap();
    mounted.disk.fail(&every(DiskCallKind::Read));
    assert_eq!(read().unwrap_err().raw_os_error(), Some(nix::libc::EIO));
    assert_eq!(mounted.read("other").unwrap(), b"two", "it has another name");
    assert!(mounted.disk.probe(4096).unwrap().failed, "a file without a name counts");
    assert!(mounted.disk.heal().failed > 0);
    read().unwrap();
    assert!(!mounted.disk.probe(4096).unwrap().failed);
}

#[test]
fn one_write_is_lost_alone() {
    let mounted = Mounted::new();
    let file = mounted.create_durable("log", b"one two three");
    mounted.disk.fail(&Failing { share: 0.0, nth: 2, lost: true, ..every(DiskCallKind::Write) });
    for (at, word) in [(0, b"ONE"), (4, b"TWO"), (14, b"END")] {
        file.write_all_at(word, at).unwrap();
        file.sync_all().unwrap();
    }
    assert_eq!(mounted.disk.heal().failed, 1);
    mounted.disk.crash(None, 0).unwrap();
    assert_eq!(mounted.read("log").unwrap(), b"ONE two three\0END");
}

#[test]
fn a_bit_of_what_is_stored_turns() {
    let mounted = Mounted::new();
    mounted.create_durable("log", &[0; 9000]).write_all_at(&[1; 9], 5000).unwrap();
    mounted.create_durable("other", &[1; 9000]);
    mounted.disk.crash(None, 0).unwrap();
    assert_eq!(mounted.disk.flip(1, "log", 7).unwrap(), [""; 0], "all of its pages are zeros");
    let places = mounted.disk.flip(2, "other", 7).unwrap();
    let bytes = mounted.read("other").unwrap();
    let turned: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 1).collect();
    let mut said: Vec<usize> =
        places.iter().map(|place| place.strip_prefix("other, byte ").unwrap().parse().unwrap()).collect();
    said.sort_unstable();
    assert_eq!((turned.len(), turned), (2, said));
}

#[test]
fn what_was_in_the_folder_is_on_the_disk_and_comes_back_with_the_unmount() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("sub/settings"), b"port 6379").unwrap();
    symlink("sub/settings", folder.path().join("link")).unwrap();
    let disk = Disk::mount(folder.path()).unwrap();
    fs::write(folder.path().join("sub/settings"), b"overwritten").unwrap();
    disk.crash(None, 0).unwrap();
    assert_eq!(fs::read(folder.path().join("link")).unwrap(), b"port 6379");
    fs::remove_file(folder.path().join("link")).unwrap();
    drop(disk);
    assert_eq!(
        fs::read(folder.path().join("link")).unwrap(),
        b"port 6379",
        "the folder beneath is untouched"
    );
}

#[test]
fn folders_with_many_files_can_be_listed_and_removed() {
    let mounted = Mounted::new();
    fs::create_dir(mounted.path("many")).unwrap();
    for number in 0..500 {
        mounted.create(&format!("many/{number}"), b"x");
    }
    fs::hard_link(mounted.path("many/1"), mounted.path("link")).unwrap();
    assert_eq!(fs::read_dir(mounted.path("many")).unwrap().count(), 500);
    assert_eq!(fs::remove_dir(mounted.path("many")).unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    fs::remove_dir_all(mounted.path("many")).unwrap();
    assert_eq!(mounted.names(), ["link"]);
}

#[test]
fn several_threads_write_and_fsync_at_once() {
    let mounted = Mounted::new();
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let mut file = mounted.create(&format!("{thread}"), b"");
            scope.spawn(move || {
                for _ in 0..200 {
                    file.write_all(&[thread; 700]).unwrap();
                    file.sync_data().unwrap();
                }
                file.write_all(b"not fsynced").unwrap();
            });
        }
    });
    assert_eq!(mounted.disk.crash(None, 0).unwrap().bytes, 4 * 11);
    for thread in 0..4_u8 {
        assert!(mounted.read(&thread.to_string()).unwrap() == [thread; 140_000]);
    }
}
