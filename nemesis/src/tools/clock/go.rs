//! Go programs that no patch of the vDSO reaches: those whose runtime has not found the clock in it, and asks
//! the kernel each time. On ARM64 that is Go up to 1.21 (golang/go issue 62309).

use super::ClockError;
use super::vdso::Memory;
use std::fs;

/// What every Go program has in its data, aligned.
const BUILD_INFO: &[u8; 14] = b"\xff Go buildinf:";
const ALIGN: usize = 16;

/// Whether this process runs a Go program that does not call `function`, the vDSO's clock: the runtime looks
/// it up once, as the program starts, and keeps its address in its data.
pub fn asks_kernel(pid: i32, memory: &Memory, function: u64) -> Result<bool, ClockError> {
    let about = |part: &str| format!("/proc/{pid}/{part}");
    let cannot = |error| ClockError::from_io(pid, "read its memory map", error);
    let program = fs::read_link(about("exe")).map_err(cannot)?;
    let maps = fs::read_to_string(about("maps")).map_err(cannot)?;
    let mappings = maps.lines().filter_map(Mapping::parse);
    let (mut is_go, mut has_clock) = (false, false);
    let mut data_end = None;
    for mapping in mappings {
        // Data without initial values lie in a mapping of no file, right behind the others.
        let is_data =
            mapping.path == program.as_os_str() || data_end == Some(mapping.begin) && mapping.path.is_empty();
        if !is_data || mapping.rights.contains('x') {
            continue;
        }
        data_end = Some(mapping.end);
        let bytes = memory.read_some(mapping.begin, (mapping.end - mapping.begin) as usize);
        is_go |= bytes.chunks(ALIGN).any(|chunk| chunk.starts_with(BUILD_INFO));
        has_clock |= bytes.chunks(8).any(|word| word == function.to_le_bytes());
    }
    Ok(is_go && !has_clock)
}

/// One line of a process's memory map.
struct Mapping<'a> {
    begin: u64,
    end: u64,
    rights: &'a str,
    /// Empty where no file is mapped.
    path: &'a str,
}

impl Mapping<'_> {
    fn parse(line: &str) -> Option<Mapping<'_>> {
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

    #[test]
    fn this_program_is_no_go_program() {
        let pid = std::process::id() as i32;
        assert!(!asks_kernel(pid, &Memory::open(pid).unwrap(), 1).unwrap());
    }
}
