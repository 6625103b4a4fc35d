//! The program `fencepost`, as the tests of this package run it.

fn main() {
    std::process::exit(fencepost::main());
}
