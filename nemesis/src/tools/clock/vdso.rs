//! The memory of another process, and the vDSO in it.

use super::ClockError;
use nix::errno::Errno;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// The memory of one process as it was when opened: all access fails after its end or exec.
#[derive(Debug)]
pub struct Memory {
    pid: i32,
    file: File,
}

impl Memory {
    pub fn open(pid: i32) -> Result<Memory, ClockError> {
        let opened = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
        Ok(Memory { pid, file: opened.map_err(|error| ClockError::from_io(pid, "open its memory", error))? })
    }

    pub fn read(&self, at: u64, length: usize) -> Result<Vec<u8>, ClockError> {
        let mut bytes = vec![0; length];
        match self.file.read_exact_at(&mut bytes, at) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(ClockError::from_io(self.pid, "read its memory", error)),
        }
    }

    pub fn read_some(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let got = self.file.read_at(&mut bytes, at).unwrap_or(0);
        bytes.truncate(got);
        bytes
    }

    /// Writes through the protection, into a private page. `false`: use [`super::threads::Stopped::write`].
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<bool, ClockError> {
        match self.file.write_all_at(bytes, at) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(Errno::EIO as i32) && self.is_there(at) => Ok(false),
            Err(error) => Err(ClockError::from_io(self.pid, "write to its memory", error)),
        }
    }

    fn is_there(&self, at: u64) -> bool {
        self.file.read_exact_at(&mut [0], at).is_ok()
    }
}

/// A process's vDSO: where it lies, and its bytes when they were read.
#[derive(Debug)]
pub struct Vdso {
    pub base: u64,
    pub image: Vec<u8>,
}

impl Vdso {
    /// The vDSO of this process; `None` if it has none (a kernel thread, a process that has ended).
    pub fn of(pid: i32, memory: &Memory) -> Result<Option<Vdso>, ClockError> {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))
            .map_err(|error| ClockError::from_io(pid, "read its memory map", error))?;
        let vdso = maps.lines().filter_map(Mapping::parse).find(|mapping| mapping.path == "[vdso]");
        let Some(Mapping { begin, end, .. }) = vdso else { return Ok(None) };
        Ok(Some(Vdso { base: begin, image: memory.read(begin, (end - begin) as usize)? }))
    }

    /// Where a function begins, and its length. `None` if it is missing, or this is no 64-bit ELF image.
    pub fn function(&self, name: &str) -> Option<(usize, usize)> {
        const DYNSYM: u64 = 11;
        if self.image.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let (headers, count) = (self.word(0x28, 8)?, self.word(0x3c, 2)?);
        // A section's offset, size, type and link, which for symbols is the section of their names.
        let section = |index: usize| {
            let at = headers + 64 * index;
            Some((
                self.word(at + 4, 4)?,
                self.word(at + 0x18, 8)?,
                self.word(at + 0x20, 8)?,
                self.word(at + 0x28, 4)?,
            ))
        };
        let (_, symbols, size, link) =
            (0..count).filter_map(section).find(|&(kind, ..)| kind as u64 == DYNSYM)?;
        let (_, names, _, _) = section(link)?;
        (0..size / 24).map(|index| symbols + 24 * index).find_map(|symbol| {
            let text = self.image.get(names + self.word(symbol, 4)?..)?;
            let same = text.strip_prefix(name.as_bytes())?.first() == Some(&0);
            same.then_some((self.word(symbol + 8, 8)?, self.word(symbol + 16, 8)?))
        })
    }

    /// Whether its symbols are in the table that every library reads (`DT_HASH`), not only in GNU's.
    pub fn lists_symbols(&self) -> bool {
        const HASH: usize = 5;
        let (headers, count) = (self.word(0x28, 8), self.word(0x3c, 2));
        headers
            .zip(count)
            .is_some_and(|(at, count)| (0..count).any(|it| self.word(at + 64 * it + 4, 4) == Some(HASH)))
    }

    /// Where the zeros at the end begin, aligned for code.
    pub fn room(&self) -> usize {
        let used = self.image.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        used.next_multiple_of(16)
    }

    pub fn find(&self, bytes: &[u8], align: usize) -> Option<usize> {
        self.image.windows(bytes.len()).step_by(align).position(|window| window == bytes).map(|at| at * align)
    }

    fn word(&self, at: usize, length: usize) -> Option<usize> {
        let mut word = [0; 8];
        word[..length].copy_from_slice(self.image.get(at..at.checked_add(length)?)?);
        usize::try_from(u64::from_le_bytes(word)).ok()
    }
}

/// A line of `/proc/PID/maps`.
pub struct Mapping<'a> {
    pub begin: u64,
    pub end: u64,
    pub rights: &'a str,
    pub path: &'a str,
}

impl Mapping<'_> {
    pub fn parse(line: &str) -> Option<Mapping<'_>> {
        let mut parts = line.splitn(6, ' ');
        let (begin, end) = parts.next()?.split_once('-')?;
        let parse = |text| u64::from_str_radix(text, 16).ok();
        let rights = parts.next()?;
        Some(Mapping {
            begin: parse(begin)?,
            end: parse(end)?,
            rights,
            path: parts.nth(3).unwrap_or("").trim(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_of_our_own_vdso_are_found_within_it() {
        let pid = std::process::id() as i32;
        let vdso = Vdso::of(pid, &Memory::open(pid).unwrap()).unwrap().expect("a vDSO");
        for (name, _) in super::super::processor::replacements() {
            let (at, length) = vdso.function(name).expect(name);
            assert!(length >= 8 && at + length < vdso.room(), "{name} at {at}, {length} long");
        }
        let (first, _) = super::super::processor::replacements()[0];
        assert_eq!(vdso.function(&first[..first.len() - 1]), None, "a prefix is not a name");
    }

    #[test]
    fn nothing_is_found_in_what_is_no_image() {
        for image in [vec![], vec![0; 8192], b"\x7fELF\x02\x01".repeat(200)] {
            assert_eq!(Vdso { base: 0, image }.function("__vdso_time"), None);
        }
    }

    #[test]
    fn a_line_of_a_memory_map_is_read() {
        let line = "00400000-00452000 r-xp 00000000 08:02 173521      /usr/bin/a program";
        let read = Mapping::parse(line).unwrap();
        assert_eq!(
            (read.begin, read.end, read.rights, read.path),
            (0x40_0000, 0x45_2000, "r-xp", "/usr/bin/a program")
        );
        let line = "7f0000000000-7f0000001000 rw-p 00000000 00:00 0 ";
        assert_eq!(Mapping::parse(line).unwrap().path, "");
        assert!(Mapping::parse("nothing").is_none());
    }
}
