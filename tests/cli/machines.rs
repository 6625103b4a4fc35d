//! What `doctor` says of a machine, as data.

use crate::common::fencepost;
use serde_json::Value;
use std::fs;

#[test]
fn doctor_prints_one_json_object_and_exits_as_it_concludes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = fencepost(&["doctor", "--json"]);
    // No engine, and no image made: no node is started.
    command.env("DOCKER_HOST", "unix:///nowhere").env("FENCEPOST_CACHE", folder.path());
    let output = command.output().expect("the program starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let code = if report["can_test"] == true { 0 } else { 255 };
    assert_eq!(output.status.code(), Some(code), "{report}");
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    assert_eq!(report["machine"]["kernel"], kernel.trim());
    assert_eq!(report["engines"], Value::Array(Vec::new()));
    let [docker, local] = &report["drivers"].as_array().expect("drivers")[..] else { panic!("{report}") };
    assert_eq!((&docker["name"], &docker["starts_nodes"]), (&"docker".into(), &"no".into()), "{report}");
    assert!(docker["reason"].as_str().expect("a reason").contains("unix:///nowhere"), "{report}");
    let starts = local["starts_nodes"].as_str().expect("whether a node starts");
    assert_eq!(report["can_test"], starts == "not-tried", "{report}");
    assert_eq!(report["nemeses"][0]["drivers"], Value::Object(serde_json::Map::new()));
}
