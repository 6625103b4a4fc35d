//! Compiles the shared library of src/tools/clock/faketime.rs.

use std::env;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "src/tools/clock/jemalloc.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    let folder = env::var_os("OUT_DIR").expect("cargo tells where to build");
    let library = Path::new(&folder).join("libjemalloc.so.2");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system != "linux") {
        // Nodes are Linux; elsewhere nothing is ever preloaded.
        std::fs::write(&library, []).expect("a folder that can be written to");
        return;
    }
    // Of a build for another architecture, the compiler for that one.
    let own = format!("CC_{}", env::var("TARGET").expect("cargo tells the target").replace('-', "_"));
    let named = [own.as_str(), "CC"].map(|name| {
        println!("cargo::rerun-if-env-changed={name}");
        env::var_os(name)
    });
    let compiler = named.into_iter().flatten().next().unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(["-shared", "-fPIC", "-O1", "-nostdlib", "-Wl,-soname,libjemalloc.so.2", "-o"]);
    let status = command.arg(&library).arg(SOURCE).status();
    let compiled = status.is_ok_and(|status| status.success());
    assert!(compiled, "cannot compile {SOURCE} by {}: is a C compiler installed?", compiler.display());
}
