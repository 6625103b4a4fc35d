//! Programs that no patch of the vDSO reaches, since they ask the kernel each time: Go up to 1.21 on ARM64
//! (golang/go issue 62309); musl 1.2.5 where the vDSO has no DT_HASH table, as in Linux 6.12 on ARM64.

use super::ClockError;
use super::vdso::{Mapping, Memory, Vdso};
use std::fs;
use std::path::Path;

const BUILD_INFO: &[u8; 14] = b"\xff Go buildinf:";
const ALIGN: usize = 16;
/// What every static program of glibc says; up to 2.30 it keeps the vDSO's addresses in another form.
const OF_GLIBC: &[u8] = b"GLIBC_TUNABLES";

#[derive(Clone, Copy, Debug, Default)]
struct ReachedProgram {
    is_go: bool,
    /// Nothing but itself finds the vDSO for it, and that is not glibc; or musl's library does.
    finds_vdso_by_itself: bool,
    has_clock: bool,
}

impl ReachedProgram {
    /// Why it asks the kernel and not the vDSO, if known. `is_listed`: all libraries can read its symbols.
    fn asks_kernel(self, is_listed: bool) -> Option<&'static str> {
        match self {
            ReachedProgram { has_clock: true, .. } => None,
            ReachedProgram { is_go: true, .. } => Some(
                "it is a Go program that asks the kernel itself (on ARM64 every one of Go up to 1.21 does); build it \
                 with Go 1.22 or later",
            ),
            ReachedProgram { finds_vdso_by_itself: true, .. } if !is_listed => Some(
                "it has no glibc, and asks the kernel itself, since this kernel's vDSO lacks a table that musl up to \
                 1.2.5 needs (DT_HASH); link it with glibc",
            ),
            ReachedProgram { .. } => None,
        }
    }
}

/// Why this process asks the kernel instead of calling `function`, the vDSO's clock; `None` if it calls it. A
/// caller looks it up once, and keeps its address in its data: Go at its start, musl at the first use.
pub fn asks_kernel(
    pid: i32,
    memory: &Memory,
    vdso: &Vdso,
    function: u64,
) -> Result<Option<&'static str>, ClockError> {
    let about = |part: &str| format!("/proc/{pid}/{part}");
    let cannot = |error| ClockError::from_io(pid, "read its memory map", error);
    let path = fs::read_link(about("exe")).map_err(cannot)?;
    let maps = fs::read_to_string(about("maps")).map_err(cannot)?;
    let mut program = ReachedProgram::default();
    let mut has_loader = false;
    let mut data_end = None;
    for mapping in maps.lines().filter_map(Mapping::parse) {
        let is_musl = Path::new(mapping.path)
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("ld-musl-"));
        program.finds_vdso_by_itself |= is_musl;
        has_loader |= mapping.path.starts_with('/') && mapping.path != path.as_os_str();
        // Data without initial values lie in a mapping of no file, right behind the others.
        let is_data = is_musl
            || mapping.path == path.as_os_str()
            || data_end == Some(mapping.begin) && mapping.path.is_empty();
        if !is_data || mapping.rights.contains('x') {
            continue;
        }
        data_end = Some(mapping.end);
        let bytes = memory.read_some(mapping.begin, (mapping.end - mapping.begin) as usize);
        program.is_go |= bytes.chunks(ALIGN).any(|chunk| chunk.starts_with(BUILD_INFO));
        program.has_clock |= bytes.chunks(8).any(|word| word == function.to_le_bytes());
    }
    if !has_loader && !program.has_clock {
        let file = fs::read(about("exe")).map_err(cannot)?;
        program.finds_vdso_by_itself |= !file.windows(OF_GLIBC.len()).any(|text| text == OF_GLIBC);
    }
    Ok(program.asks_kernel(vdso.lists_symbols()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_reached() {
        let pid = std::process::id() as i32;
        let memory = Memory::open(pid).unwrap();
        let vdso = Vdso::of(pid, &memory).unwrap().expect("a vDSO");
        assert_eq!(asks_kernel(pid, &memory, &vdso, 1).unwrap(), None);
    }

    #[test]
    fn a_program_asks_the_kernel_if_it_cannot_have_found_the_clock() {
        let glibc = ReachedProgram::default();
        let go = ReachedProgram { is_go: true, finds_vdso_by_itself: true, has_clock: false };
        let musl = ReachedProgram { finds_vdso_by_itself: true, ..glibc };
        for (program, is_listed, why) in [
            (glibc, true, None),
            (glibc, false, None),
            (go, true, Some("Go 1.22")),
            (go, false, Some("Go 1.22")),
            (ReachedProgram { has_clock: true, ..go }, false, None),
            // It may not have asked for the time yet.
            (musl, true, None),
            (musl, false, Some("link it with glibc")),
            (ReachedProgram { has_clock: true, ..musl }, false, None),
        ] {
            let said = program.asks_kernel(is_listed);
            assert_eq!(said.is_some(), why.is_some(), "{program:?}: {said:?}");
            assert!(said.unwrap_or("").contains(why.unwrap_or("")), "{program:?}: {said:?}");
        }
    }
}
