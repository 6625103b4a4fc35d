//! The conversation that every kit is tested by, with the lock of `examples/fake_lock.rs`.

use std::path::Path;
use std::process::Command;

#[test]
fn kit_keeps_the_rules_of_all_kits() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    // Cargo builds examples beside the tests.
    let test = std::env::current_exe().expect("the path of this test");
    let fake_lock = test.parent().and_then(Path::parent).expect("target/debug").join("examples/fake_lock");
    let played = Command::new("python3")
        .arg("-B")
        .arg(folder.join("../../tests/conversation.py"))
        .arg(&fake_lock)
        .status()
        .expect("python3 is installed");
    assert!(played.success(), "see above");
}
