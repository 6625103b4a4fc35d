//! Real nodes under the driver `docker`.

use crate::common::{isolation, scenarios};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn service_lives_and_dies() {
    scenarios::service_lives_and_dies("docker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_hosts_of_their_own() {
    scenarios::nodes_are_hosts_of_their_own("docker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_and_files() {
    scenarios::commands_and_files("docker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attached_programs() {
    scenarios::attached_programs("docker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once() {
    scenarios::two_at_once("docker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped() {
    scenarios::dropped("docker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_controller() {
    scenarios::killed_controller("docker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_are_confined() {
    scenarios::programs_are_confined("docker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_and_this_machine_do_not_reach_each_other() {
    isolation::nodes_and_this_machine_do_not_reach_each_other("docker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities() {
    scenarios::capabilities("docker").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "runs every night, by .ci/nightly"]
async fn fast_by_night() {
    scenarios::fast("docker", Duration::from_secs(40), Duration::from_secs(20)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by killed_controller, which kills it"]
async fn controller_that_is_killed() {
    scenarios::controller("docker").await;
}
