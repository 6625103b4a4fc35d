//! The agent without any tools: for the tests of this crate, and for other programs that embed it.

fn main() {
    if let Some(code) = fencepost_cluster::run_internal_command(Vec::new) {
        std::process::exit(code);
    }
    eprintln!("bare_node: this is the inside of a node; it is started by Fencepost, not by hand");
    std::process::exit(254);
}
