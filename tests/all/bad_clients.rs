//! Clients that misbehave: a run ends with one sentence that names the client, and its last words where it
//! has any.

use crate::common::{Ran, fencepost, output, test, under};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/locks/misbehaves");

/// Little to wait for: after an operation that is not answered a run waits for ten TTLs and more.
const SHORT: &str =
    "--driver local --clients 1 --concurrency 2 --ttl 100ms --time-limit 1s --acquire-timeout 200ms";

/// Enough time for a client to use much.
const LONGER: &str =
    "--clients 1 --concurrency 2 --ttl 100ms --time-limit 300s --acquire-timeout 200ms --client-memory 200";

const FULL: &str = "`OSError: [Errno 28] No space left on device";

/// Runs a client with this habit, which fails the run, and gives the sentence.
fn sentence_of(habit: &str) -> String {
    failure(&test(&format!("{SHORT} --workload lock --lock {FOLDER}@{habit}")))
}

/// Clients with these habits end their runs under this driver, with these words.
fn assert_named(driver: &str, habits: &[(&str, &str)]) {
    for (habit, words) in habits {
        let ran = test(&format!("--driver {driver} {LONGER} --workload lock --lock {FOLDER}@{habit}"));
        let sentence = failure(&ran);
        assert!(sentence.contains(words), "{habit}: {words}: {sentence}");
    }
}

/// The one sentence of a run that failed.
fn failure(ran: &Ran) -> String {
    assert_eq!(ran.code, 255, "{}", ran.stdout);
    let sentences: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("fencepost: ")).collect();
    assert_eq!(sentences.len(), 1, "one sentence: {}", ran.stderr);
    sentences[0].to_owned()
}

macro_rules! habits {
    ($($test:ident: $habit:literal says $($words:literal),+;)*) => {$(
        #[test]
        fn $test() {
            let sentence = sentence_of($habit);
            for words in [$($words),+] {
                assert!(sentence.contains(words), "{words}: {sentence}");
            }
        }
    )*};
}

habits! {
    a_client_that_exits_at_once_is_named_with_its_last_words: "exits" says
        "client c1 ended before it answered the hello", "`ImportError: no module named lock_library`", "logs/c1.log";
    a_client_without_a_hello_is_named: "says-nothing" says
        "client c1 did not answer the hello within 10 s", "`waiting for a server`";
    a_hello_that_is_no_message_is_shown: "chats" says
        "client c1 printed a line that is not of the client protocol: `hello, I am a client`", "belongs on standard error";
    a_client_that_ends_later_is_named_with_its_last_words: "ends-later" says "client c1 ended", "`MemoryError`";
    an_answer_to_no_operation_is_shown: "invents-ids" says "client c1 answered with the id 10000", "`last operation: acquire`";
    a_second_answer_is_shown: "answers-twice" says "client c1 answered with the id 1,", "which no open operation has";
    an_answer_for_another_operation_is_shown_by_the_second: "answers-for-another" says
        "client c1 answered with the id", "which no open operation has";
    a_flood_of_notices_ends_the_run: "floods" says "client c1 sent more than 5000 notices within a second";
    a_client_that_never_answers_is_named: "never-answers" says
        "client c1 answered none of its", "`last operation: acquire`";
    a_pid_that_there_is_not_is_refused: "invents-a-pid" says
        "client c1 announced the pid 99999", "no such process";
    a_pid_of_another_is_refused: "names-the-first-pid" says
        "client c1 announced the pid 1,", "no such process";
    a_notice_for_a_key_without_end_ends_the_run: "sends-long-keys" says
        "client c1 sent the notice lost for a key of 100000 bytes";
    a_line_that_is_no_message_is_shown: "prints-later" says
        "client c1 printed a line that is not of the client protocol: `Segmentation fault";
    bytes_that_are_no_text_end_the_run: "is-binary" says "client c1 cannot be read", "UTF8";
    a_client_that_reads_no_more_is_named: "stops-reading" says "client c1 answered none of its last ", " operations, of ";
    a_client_that_closes_its_output_is_named: "closes-output" says "client c1 closed its standard output and runs on";
    a_client_that_leaves_a_program_behind_is_named: "leaves-a-child" says
        "client c1 ended, and a program that it started still holds its standard output";
    a_notice_for_a_foreign_process_ends_the_run: "speaks-for-another" says
        "client c1 sent the notice lost for process 10", "which is not one of its own";
    an_answer_about_belief_of_another_type_ends_the_run: "counts-holds" says
        "client c1 answered `holds` with 1: expected true or false";
    a_release_that_reports_belief_in_words_ends_the_run: "believes-in-words" says
        "client c1 answered `release` with the believed \"yes\": expected true or false";
    a_negative_token_ends_the_run: "sends-a-negative-token" says
        "client c1 answered `acquire` with the token -1: expected a whole number from 0 to 2^63 - 1";
    a_token_in_words_ends_the_run: "sends-a-token-in-words" says
        "client c1 answered `acquire` with the token \"7\": expected a whole number";
    a_list_in_place_of_a_grant_ends_the_run: "acquires-a-list" says
        "client c1 answered `acquire` with [7]: expected {\"token\":7}, or no value";
    an_unknown_notice_ends_the_run: "invents-notices" says
        "client c1 sent the notice \"acquire\", which there is not";
    a_promise_that_the_hello_does_not_keep_is_named: "breaks-promises" says
        "client c1 does not fit", "does not announce token, which lock.toml promises";
}

fn a_client_that_uses_too_much_memory_is_named(driver: &str) {
    let words = "client c1 used more than 200 MiB of memory, the limit of --client-memory, and was ended";
    assert_named(driver, &[("uses-memory", words), ("forks-and-uses-memory", words)]);
}

/// Memory that no program of the client has mapped.
fn memory_that_the_kernel_keeps_for_a_client_is_counted(driver: &str) {
    let words = "client c1 used more than 200 MiB of memory, the limit of --client-memory, and was ended";
    let habits = [
        "keeps-files-in-memory",
        "fills-sockets",
        "fills-sockets-and-leaves",
        "evades-maps-files-in-memory",
        "evades-shares-anonymous-memory",
        "evades-makes-page-tables",
        "evades-fills-netlink",
        "evades-sends-datagrams-and-leaves",
        "evades-gives-pages-to-pipes",
        "evades-maps-files-without-a-name",
        "evades-ends-its-first-thread",
    ];
    assert_named(driver, &habits.map(|habit| (habit, words)));
    // The local driver also gives these a size.
    let full = if driver == "docker" { words } else { FULL };
    assert_named(driver, &[("keeps-segments", full), ("evades-fills-shared-memory", FULL)]);
}

/// Where the control groups lie in memory that programs can write to, that counts as memory; elsewhere
/// nothing can be written there.
fn what_a_client_writes_among_the_control_groups_counts(driver: &str) {
    let ran =
        test(&format!("--driver {driver} {LONGER} --workload lock --lock {FOLDER}@fills-control-groups"));
    let sentence = failure(&ran);
    let named = ["client c1 used more than 200 MiB of memory", "`not written: "];
    assert!(named.iter().any(|words| sentence.contains(words)), "{sentence}");
}

/// Each sentence of docs/security.md about what a node's programs cannot do.
fn a_client_does_not_get_out_of_its_node(driver: &str) {
    assert_named(driver, &[("breaks-out", "`possible: nothing`")]);
}

fn a_client_that_starts_too_many_threads_is_named(driver: &str) {
    let words = "client c1 started more than 5000 programs and threads, and was ended";
    assert_named(driver, &[("starts-without-end", words)]);
}

fn a_client_writes_only_where_it_is_counted(driver: &str) {
    let habits =
        ["fills-its-disk", "fills-its-disk-without-a-name", "nests-folders", "makes-files-without-end"];
    assert_named(driver, &habits.map(|habit| (habit, FULL)));
    assert_named(driver, &[("writes-elsewhere", "`wrote to nothing`")]);
}

fn a_client_that_breaks_its_streams_is_named(driver: &str) {
    let left = "client c1 ended, and a program that it started still holds its standard output";
    let flood = "client c1 sent more than 5000 notices within a second";
    let binary = "client c1 cannot be read";
    assert_named(driver, &[("leaves-a-child", left), ("floods", flood), ("is-binary", binary)]);
}

under!(
    local: [what_a_client_writes_among_the_control_groups_counts, a_client_that_uses_too_much_memory_is_named, memory_that_the_kernel_keeps_for_a_client_is_counted, a_client_does_not_get_out_of_its_node, a_client_that_starts_too_many_threads_is_named, a_client_writes_only_where_it_is_counted],
    docker: [],
    docker_by_night: [what_a_client_writes_among_the_control_groups_counts, a_client_that_uses_too_much_memory_is_named, memory_that_the_kernel_keeps_for_a_client_is_counted, a_client_does_not_get_out_of_its_node, a_client_that_starts_too_many_threads_is_named, a_client_writes_only_where_it_is_counted, a_client_that_breaks_its_streams_is_named],
);

#[test]
fn a_line_without_an_end_ends_the_run() {
    // A busy machine takes its time to carry so much.
    assert_named(
        "local",
        &[("never-ends-a-line", "client c1 cannot be read"), ("never-ends-a-line", "longer than")],
    );
}

/// Colours in a client's last words would steer the terminal, and stand in the logs of what runs Fencepost.
#[test]
fn last_words_in_colour_are_shown_without_it() {
    let sentence = sentence_of("exits-in-colour");
    assert!(sentence.contains("[31mImportError\u{fffd}[0m: no module named lock_library`"), "{sentence}");
    assert!(!sentence.contains(char::is_control), "{sentence:?}");
}

#[test]
fn a_client_that_prints_much_to_standard_error_goes_on() {
    // What a busy machine makes of 20 MB is no reason to give the client up.
    let patient = "--driver local --clients 1 --concurrency 2 --ttl 3s --acquisitions 10 --time-limit 120s --acquire-timeout 3s";
    let ran = test(&format!("{patient} --hold 1ms --workload lock --lock {FOLDER}@fills-its-log"));
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn a_client_by_its_command_line_misbehaves_as_well() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::copy(format!("{FOLDER}/client.py"), folder.path().join("client.py")).expect("a file");
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut args: Vec<&str> = SHORT.split(' ').collect();
    args.extend([
        "--workload",
        "lock",
        "--lock",
        "redis-single",
        "--client",
        "python3 client.py closes-output",
        "--client-packages",
        "python3",
    ]);
    let places = [folder.path(), results.path()].map(|path| path.to_str().expect("UTF-8"));
    args.extend(["--client-files", places[0], "--results", places[1]]);
    let args = [&["test"][..], &args].concat();
    let sentence = failure(&Ran::new(output(&args), results));
    assert!(sentence.contains("client c1 closed its standard output and runs on"), "{sentence}");
}

#[test]
fn a_line_of_the_library_on_standard_output_is_shown() {
    let prints = concat!(env!("CARGO_MANIFEST_DIR"), "/locks/prints");
    let sentence = failure(&test(&format!("{SHORT} --workload lock --lock {prints}")));
    assert!(sentence.contains("is not of the client protocol: `process "), "{sentence}");
    assert!(sentence.contains("a client's own output belongs on standard error"), "{sentence}");
}

/// Runs a lock whose folder has this lock.toml, and a file `client` that cannot be executed.
fn of_lock_file(text: &str, args: &str) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("lock.toml"), text).expect("a file");
    let client = folder.path().join("client");
    std::fs::write(&client, "#!/bin/sh\n").expect("a file");
    std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o644)).expect("its own file");
    test(&format!("{SHORT} {args} --lock {}", folder.path().display()))
}

#[test]
fn a_client_that_cannot_be_executed_is_named() {
    let text = "about = \"x\"\nservice = \"redis\"\nclient = \"./client\"\n";
    let sentence = failure(&of_lock_file(text, "--workload lock"));
    assert!(sentence.contains("client c1: cannot start ./client: it is not executable"), "{sentence}");
}

#[test]
fn a_version_command_that_fails_is_shown_with_its_last_words() {
    let text = "about = \"x\"\nservice = \"redis\"\nclient = \"cat\"\n\
                version = [\"sh\", \"-c\", \"echo no library here >&2; exit 3\"]\n";
    let sentence = failure(&of_lock_file(text, "--workload lock"));
    assert!(sentence.contains("the version command of"), "{sentence}");
    assert!(sentence.contains("no library here"), "{sentence}");
}

#[test]
fn a_guard_that_the_lock_cannot_feed_is_refused() {
    let text = "about = \"x\"\nservice = \"redis\"\nclient = \"cat\"\n";
    let ran = of_lock_file(text, "--guard token");
    assert_eq!(ran.code, 254, "{}", ran.stderr);
    assert!(ran.stderr.contains("--guard token needs a fencing token"), "{}", ran.stderr);
    assert_eq!(ran.stderr.trim().lines().count(), 1, "{}", ran.stderr);
}

#[test]
fn two_locks_of_one_name_are_not_compared() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let lock = |parent: &str| {
        let path = folder.path().join(parent).join("my-lock");
        std::fs::create_dir_all(&path).expect("a folder");
        let text = "about = \"x\"\nservice = \"redis\"\nclient = \"cat\"\n";
        std::fs::write(path.join("lock.toml"), text).expect("a file");
        path.display().to_string()
    };
    let locks = format!("{},{}", lock("a"), lock("b"));
    let compared = fencepost(&["compare", "--locks", &locks]).output().expect("the program starts");
    let stderr = String::from_utf8_lossy(&compared.stderr);
    assert_eq!(compared.status.code(), Some(254), "{stderr}");
    assert!(stderr.contains("two locks that are called my-lock"), "{stderr}");
}

/// The adapter of docs/client-protocol.md, with its calls of the server or without them.
fn from_the_page(folder: &Path, calls_the_server: bool) -> Ran {
    let page = include_str!("../../docs/client-protocol.md");
    let (_, rest) = page.split_once("```python\n").expect("the page holds an adapter in Python");
    let adapter = rest.split_once("```").expect("the block ends").0;
    let without =
        "def redis(timeout, *words):\n    return b\"+OK\" if words[0] == \"SET\" else b\":1\"\n\ndef perform";
    let adapter = match calls_the_server {
        true => adapter.to_owned(),
        false => adapter.replacen("def perform", without, 1),
    };
    std::fs::write(folder.join("client.py"), adapter).expect("a file");
    let results = tempfile::tempdir().expect("a temporary folder");
    let args =
        ["test", "--driver", "local", "--lock", "redis-single", "--workload", "lock", "--hold", "20ms"];
    let more = ["--acquisitions", "60", "--time-limit", "30s", "--client", "python3 client.py"];
    let more = [&more[..], &["--client-packages", "python3", "--client-files"]].concat();
    let at = [folder.to_str().expect("UTF-8"), "--results", results.path().to_str().expect("UTF-8")];
    let ran = Ran::new(output(&[&args[..], &more[..], &at[..]].concat()), results);
    eprintln!("exit {}\n{}\n{}", ran.code, ran.stdout, ran.stderr);
    ran
}

#[test]
fn the_adapter_of_the_page_holds_and_is_caught_without_its_server_calls() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let honest = from_the_page(folder.path(), true);
    assert_eq!(honest.code, 0);
    let pretender = from_the_page(folder.path(), false);
    assert_eq!(pretender.code, 1);
    assert_eq!(pretender.outcome("exclusion"), fencepost_checker::Outcome::Violation);
}
