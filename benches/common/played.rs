//! What the program needs for one command.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub struct Played {
    pub code: Option<i32>,
    pub took: Duration,
    pub most_memory_mib: u64,
}

pub fn play(command: &mut Command) -> Played {
    let begun = Instant::now();
    let mut program = command.stdout(Stdio::null()).spawn().expect("the program starts");
    // The usage of children that the kernel keeps counts what this process had before they began.
    let mut memory_kib = 0;
    let status = loop {
        memory_kib = most_memory_kib(program.id()).unwrap_or(memory_kib);
        if let Some(status) = program.try_wait().expect("a child") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Played { code: status.code(), took: begun.elapsed(), most_memory_mib: memory_kib / 1024 }
}

fn most_memory_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
