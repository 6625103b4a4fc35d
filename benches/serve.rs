//! What looking around costs a user with 10,000 runs: `cargo bench --bench serve`, as root.

#[path = "../tests/all/common/server.rs"]
mod server;
#[path = "common/synthetic.rs"]
mod synthetic;

const PROGRAM: &str = env!("CARGO_BIN_EXE_fencepost");

fn main() {
    synthetic::Original::make().serve(10_000);
}
