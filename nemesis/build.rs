//! Compiles the one C file that has to be a shared library: see src/tools/clock/faketime.rs. By the C
//! compiler that rustc links with.

use std::env;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "src/tools/clock/jemalloc.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-env-changed=CC");
    let folder = env::var_os("OUT_DIR").expect("cargo tells where to build");
    let library = Path::new(&folder).join("libjemalloc.so.2");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        // Nodes are Linux; elsewhere nothing is ever preloaded.
        std::fs::write(&library, []).expect("a folder that can be written to");
        return;
    }
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(["-shared", "-fPIC", "-O1", "-nostdlib", "-Wl,-soname,libjemalloc.so.2", "-o"]);
    let status = command.arg(&library).arg(SOURCE).status();
    let compiled = status.is_ok_and(|status| status.success());
    assert!(compiled, "cannot compile {SOURCE} by {}: is a C compiler installed?", compiler.display());
}
