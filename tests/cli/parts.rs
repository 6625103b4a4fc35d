//! Parts of a campaign that cannot be.

use crate::common::fencepost;

#[test]
fn parts_that_cannot_be_are_refused() {
    let refused = |words: &str, why: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let output = fencepost(&words).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(254) && said.contains(why), "{words:?}: {said}");
    };
    for (shard, why) in [
        ("5/4", "there is no part 5 of 4"),
        ("0/4", "there is no part 0"),
        ("1/0", "0 parts"),
        ("x", "expected K/N"),
    ] {
        refused(&format!("compare --seed 1 --shard {shard}"), why);
    }
    refused("compare --shard 1/4", "--shard needs --seed");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let empty = folder.path().display();
    refused(&format!("merge {empty} --out {empty}/out"), "there is no part in");
    refused(&format!("merge {empty}/nowhere --out {empty}/out"), "cannot read");
    assert!(!folder.path().join("out").exists(), "nothing was written");
}
