//! The examples of the client kits as locks under test, as a user would run them.

use crate::common::{test, under};
use fencepost_checker::Outcome;

// By day `own_locks` checks that every example keeps the protocol, on the same servers.
under!(
    local: [python_example_holds_in_peace, go_kit_passes_its_tests_and_its_example_holds_in_peace],
    local_by_night: [
        rust_example_holds_in_peace,
        java_example_holds_in_peace,
        javascript_example_holds_in_peace,
        php_example_holds_in_peace
    ],
    docker: [python_example_holds_in_peace],
    docker_by_night: [
        rust_example_holds_in_peace,
        go_kit_passes_its_tests_and_its_example_holds_in_peace,
        java_example_holds_in_peace,
        javascript_example_holds_in_peace,
        php_example_holds_in_peace
    ],
);

/// A run with the guard that needs what the example's grants give.
fn holds_in_peace(lock: &str, driver: &str) {
    let ran = test(&format!(
        "--lock {}/{lock} --driver {driver} --guard unique --hold 20ms --acquisitions 40 --time-limit 30s",
        env!("CARGO_MANIFEST_DIR")
    ));
    assert_eq!(ran.code, 0);
    for property in ["exclusion", "ownership", "lost-updates", "stale-writes", "linearizable", "progress"] {
        assert_eq!(ran.outcome(property), Outcome::Valid, "{property}");
    }
}

fn python_example_holds_in_peace(driver: &str) {
    holds_in_peace("kits/python/example", driver);
}

fn rust_example_holds_in_peace(driver: &str) {
    holds_in_peace("kits/rust/example", driver);
}

/// Machines need no Go: the setup of this lock runs the kit's tests on Debian's packages, and a failure of these ends the
/// run with their output.
fn go_kit_passes_its_tests_and_its_example_holds_in_peace(driver: &str) {
    holds_in_peace("tests/locks/go-kit", driver);
}

fn java_example_holds_in_peace(driver: &str) {
    holds_in_peace("kits/java/example", driver);
}

fn javascript_example_holds_in_peace(driver: &str) {
    holds_in_peace("kits/javascript/example", driver);
}

fn php_example_holds_in_peace(driver: &str) {
    holds_in_peace("kits/php/example", driver);
}
