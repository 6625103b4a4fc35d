//! The fuzzer. `FENCEPOST_READER` names the reader; the arguments are those of libFuzzer.

#![no_main]

use fencepost_fuzz::reader;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static READER: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("FENCEPOST_READER").unwrap_or_default();
    reader(&name).unwrap_or_else(|| panic!("FENCEPOST_READER={name:?} names no reader"))
});

fuzz_target!(|input: &[u8]| READER(input));
