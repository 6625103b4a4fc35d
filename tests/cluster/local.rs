//! Real nodes under the driver `local`.

use crate::common::{isolation, scenarios};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn service_lives_and_dies() {
    scenarios::service_lives_and_dies("local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_hosts_of_their_own() {
    scenarios::nodes_are_hosts_of_their_own("local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_files() {
    scenarios::commands_and_files("local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attached_programs() {
    scenarios::attached_programs("local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once() {
    scenarios::two_at_once("local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped() {
    scenarios::dropped("local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_controller() {
    scenarios::killed_controller("local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_are_confined() {
    scenarios::programs_are_confined("local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_this_machine_do_not_reach_each_other() {
    isolation::nodes_and_this_machine_do_not_reach_each_other("local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities() {
    scenarios::capabilities("local").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs every night, by .ci/nightly"]
async fn fast_by_night() {
    scenarios::fast("local", Duration::from_secs(8), Duration::from_secs(8)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by killed_controller, which kills it"]
async fn controller_that_is_killed() {
    scenarios::controller("local").await;
}
