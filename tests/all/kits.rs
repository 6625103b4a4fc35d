//! The examples of the client kits as locks under test, as a user would run them.

use crate::common::turn::{Turn, Weight};
use crate::common::{root, test, under};
use crate::up::Up;
use fencepost_checker::Outcome;
use fencepost_cluster::{DriverOptions, Environment, Suite};
use std::path::PathBuf;
use std::sync::Arc;

// By day `own_locks` checks that every example keeps the protocol, on the same servers.
under!(
    local: [python_example_holds_without_faults, go_kit_passes_its_tests_and_its_example_holds_without_faults],
    local_by_night: [
        rust_example_holds_without_faults,
        java_example_holds_without_faults,
        javascript_example_holds_without_faults,
        php_example_holds_without_faults
    ],
    docker: [],
    docker_by_night: [
        python_example_holds_without_faults,
        rust_example_holds_without_faults,
        go_kit_passes_its_tests_and_its_example_holds_without_faults,
        java_example_holds_without_faults,
        javascript_example_holds_without_faults,
        php_example_holds_without_faults
    ],
);

/// A run with the guard that needs what the example's grants give.
fn holds_without_faults(lock: &str, driver: &str) {
    let ran = test(&format!(
        "--lock {}/{lock} --driver {driver} --guard unique --hold 20ms --acquisitions 40 --time-limit 300s",
        root()
    ));
    assert_eq!(ran.code, 0);
    for property in ["exclusion", "ownership", "lost-updates", "stale-writes", "linearizable", "progress"] {
        assert_eq!(ran.outcome(property), Outcome::Valid, "{property}");
    }
}

fn python_example_holds_without_faults(driver: &str) {
    holds_without_faults("kits/python/example", driver);
}

fn rust_example_holds_without_faults(driver: &str) {
    holds_without_faults("kits/rust/example", driver);
}

/// Machines need no Go: the setup of this lock runs the kit's tests on Debian's packages, and a failure of
/// these ends the run with their output.
fn go_kit_passes_its_tests_and_its_example_holds_without_faults(driver: &str) {
    holds_without_faults("tests/locks/go-kit", driver);
}

fn java_example_holds_without_faults(driver: &str) {
    holds_without_faults("kits/java/example", driver);
}

fn javascript_example_holds_without_faults(driver: &str) {
    holds_without_faults("kits/javascript/example", driver);
}

fn php_example_holds_without_faults(driver: &str) {
    holds_without_faults("kits/php/example", driver);
}

/// Plays the conversation that all kits share (`kits/tests/conversation.py`), and a kit's own tests, where
/// the kit's language is: on Debian's packages, in the setup of an environment. Machines need none of the
/// languages. A failure comes with what was printed.
pub fn passes_in_setup(language: &str, packages: &[&str], suite: Suite, setup: &[&str]) {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let environment = Environment {
        // Each its own: what is made of one name takes the place of the former.
        name: format!("kit-{language}"),
        folder: Some(PathBuf::from(root()).join("kits")),
        packages: owned(packages),
        suite: Some(suite),
        setup: owned(setup),
        ..Environment::default()
    };
    // A compiler, and a machine of its language.
    let _turn = Turn::take(Weight::of(&["test", "--driver", "local"]));
    let program = PathBuf::from(crate::PROGRAM);
    let options = DriverOptions { program, ..DriverOptions::new().expect("this program's path") };
    let prepared = tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
        let driver = fencepost_cluster::select_with("local", options).await?;
        driver.prepare_environment(&Arc::new(environment)).await
    });
    prepared.unwrap_or_else(|error| panic!("{error}"));
}

fn keeps_the_rules_of_kits(language: &str, packages: &[&str], setup: &[&str], fake_lock: &str) {
    let conversation = format!("python3 -B tests/conversation.py {fake_lock}");
    passes_in_setup(language, packages, suite_of_kits(), &[setup, &[&conversation]].concat());
}

/// That of the kits' examples.
pub fn suite_of_kits() -> Suite {
    Suite::find("trixie").expect("a suite")
}

#[test]
fn python_kit_keeps_the_rules_of_kits() {
    let own = ["python3 -B python/tests/test_python.py"];
    keeps_the_rules_of_kits("python", &["python3"], &own, "python3 python/tests/fake_lock.py");
}

/// Plays tests that find a cluster as a command beside `fencepost up` does: the servers are of this machine,
/// what runs the tests is of Debian's packages.
fn passes_beside_servers(name: &str, packages: &[&str], command: &str) {
    let (mut up, said) = Up::begin(&["redlock", "--driver", "local", "--name", name]);
    let control = std::fs::read_to_string(said["control"].as_str().expect("a path")).expect("the file");
    let control: serde_json::Value = serde_json::from_str(&control).expect("JSON");
    let value = |key: &str| control[key].as_str().expect("a text");
    let variables = format!("export FENCEPOST_API={} FENCEPOST_TOKEN={}", value("api"), value("token"));
    passes_in_setup(name, packages, suite_of_kits(), &[&format!("{variables}; {command}")]);
    assert_eq!(up.end(), Some(0));
}

/// As `fencepost up redlock --record -- pytest`, whose tests judge what they did.
#[test]
fn what_pytest_does_with_a_lock_is_recorded() {
    let pytest = "cd python && PYTHONPATH=. python3 -B -m pytest -q -p fencepost_pytest -p no:cacheprovider \
                  tests/test_recorded.py";
    passes_in_setup("pytest-recorded", &["python3", "python3-pytest"], suite_of_kits(), &[pytest]);
}

#[test]
fn the_fixture_for_pytest_injects_faults_and_heals_them() {
    let pytest = "cd python && PYTHONPATH=. python3 -B -m pytest -q -p fencepost_pytest -p no:cacheprovider \
                  tests/test_faults.py";
    passes_beside_servers("pytest", &["python3", "python3-pytest"], pytest);
}

/// A block of the documentation, in this language.
fn documented(language: &str) -> String {
    let page = std::fs::read_to_string(PathBuf::from(root()).join("docs/faults-for-your-tests.md"));
    let page = page.expect("the page");
    let (_, block) = page.split_once(&format!("```{language}\n")).expect("a block");
    block.split_once("```").expect("its end").0.to_owned()
}

#[test]
fn the_documented_test_in_node_injects_a_fault() {
    let node = format!(
        "cat > /tmp/documented.test.mjs <<'END'\n{}\nEND\nnode --test /tmp/documented.test.mjs",
        documented("javascript")
    );
    passes_beside_servers("node-test", &["python3", "nodejs"], &node);
}

/// The docs leave out the head of the file, which every editor writes.
#[test]
#[ignore = "runs every night, by .ci/nightly"]
fn the_documented_test_in_go_injects_a_fault_by_night() {
    let head = "package locks\nimport (\"io\"; \"net/http\"; \"os\"; \"strings\"; \"testing\")\n";
    let go = format!(
        "mkdir /tmp/locks && cd /tmp/locks && cat > lock_test.go <<'END'\n{head}{}\nEND\nHOME=/tmp go test lock_test.go",
        documented("go")
    );
    passes_beside_servers("go-test", &["golang-go", "python3"], &go);
}

#[test]
fn javascript_kit_keeps_the_rules_of_kits() {
    keeps_the_rules_of_kits("javascript", &["python3", "nodejs"], &[], "node javascript/test/fake_lock.js");
}

#[test]
fn java_kit_keeps_the_rules_of_kits() {
    let compile = ["javac -d classes java/Fencepost.java java/test/FakeLock.java"];
    let java = "java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp classes FakeLock";
    keeps_the_rules_of_kits("java", &["python3", "openjdk-21-jdk-headless"], &compile, java);
}

#[test]
fn php_kit_keeps_the_rules_of_kits() {
    keeps_the_rules_of_kits("php", &["python3", "php8.4-cli"], &[], "php php/test/fake_lock.php");
}

/// A crate of its own, which the build of Fencepost does not compile. Its tests play the conversation.
#[test]
fn rust_kit_keeps_the_rules_of_kits() {
    let suite = Suite::find("trixie-backports").expect("a suite");
    let test = "cd rust/fencepost-client && CARGO_HOME=/tmp/cargo cargo test --quiet";
    passes_in_setup("rust", &["python3", "cargo", "libc6-dev"], suite, &[test]);
}
