//! The program `fencepost`.

fn main() {
    std::process::exit(fencepost::main());
}
