//! Runs on servers that exist already: a verdict, nothing touched but keys of the run's own, nothing left,
//! and no secret anywhere.

use crate::access::{command_lines_now, contains, files_in};
use crate::common::by_hand::{ByHand, Certificates, PASSWORD, etcd_dump};
use crate::common::turn::{Turn, Weight};
use crate::common::waiting::look_while;
use crate::common::{Ran, Running, await_history, fencepost, under};
use fencepost_checker::Outcome;
use fencepost_history::Kind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::TcpListener;
use std::process::Command;

under!(
    local: [
        redis_with_a_limited_user_gives_a_verdict_and_is_left_as_it_was,
        etcd_with_a_limited_user_gives_a_verdict_and_is_left_as_it_was,
        faults_of_packets_reach_the_way_to_the_server,
        a_hook_stops_and_continues_a_server,
        a_hook_that_does_nothing_makes_a_run_vacuous,
        an_interrupted_run_continues_the_server_and_removes_its_keys,
        a_server_that_cannot_be_used_is_one_sentence,
    ],
    docker: [],
    docker_by_night: [
        redis_with_a_limited_user_gives_a_verdict_and_is_left_as_it_was,
        etcd_with_a_limited_user_gives_a_verdict_and_is_left_as_it_was,
        faults_of_packets_reach_the_way_to_the_server,
        a_hook_stops_and_continues_a_server,
    ],
);

/// `fencepost test` on servers that exist already, with the password in its environment.
fn command(driver: &str, args: &str, results: &tempfile::TempDir) -> Command {
    let results = results.path().to_str().expect("a path in UTF-8");
    let args = format!("test --i-own-these-servers --driver {driver} --results {results} {args}");
    let mut command = fencepost(&args.split_whitespace().collect::<Vec<_>>());
    command.env("FENCEPOST_SERVERS_PASSWORD", PASSWORD);
    command
}

fn run(command: Command, driver: &str, results: tempfile::TempDir) -> Ran {
    ended(start(command, driver), results)
}

fn start(command: Command, driver: &str) -> Running {
    let weight = Weight::of(&["test", "--driver", driver]);
    Running::start_command(Some(Turn::take(weight)), command, weight)
}

fn ended(running: Running, results: tempfile::TempDir) -> Ran {
    let ran = Ran::new(running.finish(), results);
    eprintln!("exit {}\n{}\n{}", ran.code, ran.stdout, ran.stderr);
    ran
}

/// Runs with a secret, and looks for it everywhere.
fn run_and_find_no_secret(driver: &str, args: &str) -> Ran {
    let results = tempfile::tempdir().expect("a temporary folder");
    let command = command(driver, args, &results);
    let mut lines = std::collections::BTreeSet::new();
    let (ran, in_use) = look_while(
        || lines.extend(command_lines_now()),
        || {
            let running = start(command, driver);
            let acquired = |history: &str| history.contains("\"acquire\"");
            await_history(results.path(), "the lock is in use", acquired);
            let in_use = command_lines_now();
            (ended(running, results), in_use)
        },
    );
    assert!(lines.iter().chain(&in_use).any(|line| contains(line, "i-own-these-servers")), "it was watched");
    lines.extend(in_use);
    for line in &lines {
        assert!(!contains(line, PASSWORD), "{}", String::from_utf8_lossy(line));
    }
    for file in files_in(&ran.folder()) {
        let content = std::fs::read(&file).expect("a readable file");
        assert!(!contains(&content, PASSWORD), "{} has the password", file.display());
        assert!(!contains(&content, "PRIVATE KEY"), "{} has a key", file.display());
    }
    assert!(!ran.stdout.contains(PASSWORD) && !ran.stderr.contains(PASSWORD));
    ran
}

const SHORT: &str = "--hold 20ms --acquisitions 30 --time-limit 300s";

fn assert_held(ran: &Ran, version: &str) {
    assert_eq!(ran.code, 0);
    assert_eq!(ran.verdict().outcome, Outcome::Valid);
    assert!(ran.stdout.contains(version), "{}", ran.stdout);
}

fn redis_with_a_limited_user_gives_a_verdict_and_is_left_as_it_was(driver: &str) {
    let tls = Certificates::make();
    let redis = ByHand::redis_with_tls(&tls);
    redis.redis_set(Some(&tls));
    let before = redis.redis_dump(Some(&tls));
    assert!(before.contains("fencepost-of-others=precious") && before.contains("maxmemory"), "{before}");
    let (port, options) = (redis.port, tls.options());
    let args = format!("--lock redis-single --servers rediss://limited@localhost:{port} {options} {SHORT}");
    let ran = run_and_find_no_secret(driver, &args);
    assert_held(&ran, &format!("on n1 (localhost:{port})"));
    assert_eq!(redis.redis_dump(Some(&tls)), before);
}

fn etcd_with_a_limited_user_gives_a_verdict_and_is_left_as_it_was(driver: &str) {
    let tls = Certificates::make();
    let (etcd, gateway) = ByHand::etcd_with_tls(&tls);
    let before = etcd_dump(gateway);
    let (port, options) = (etcd.port, tls.options());
    let args =
        format!("--lock etcd --servers https://localhost:{port} --servers-user limited {options} {SHORT}");
    let ran = run_and_find_no_secret(driver, &args);
    assert_held(&ran, &format!("on n1 (localhost:{port})"));
    assert_eq!(etcd_dump(gateway), before);
}

fn faults_of_packets_reach_the_way_to_the_server(driver: &str) {
    let redis = ByHand::redis();
    let plan = "[[fault]]\nwhen = 'any acquire'\nfault = 'partition'\ngroups = 'c1,c2|n1'\nfor = '800ms'\n\n\
        [[fault]]\nwhen = 'partition healed'\nfault = 'delay'\non = ['n1']\npeers = ['c3']\ndelay = '500ms'\nfor = '800ms'\n";
    let (command, results, _plan) = planned(driver, plan, &redis, "300s --brief");
    let ran = run(command, driver, results);
    ran.assert_all_effective(&["partition", "delay"]);
    assert_eq!(ran.outcome("exclusion"), Outcome::Valid);
}

const PAUSE: &str = "[[fault]]\nwhen = 'any acquire'\nfault = 'pause'\non = ['n1']\nfor_ms = 1000\n";

/// A hook that stops and continues this server.
fn hook_of(redis: &ByHand, folder: &tempfile::TempDir) -> String {
    let file = folder.path().join("hook.sh");
    let process = redis.process();
    let text = format!(
        "case $1 in stop) kill -STOP {process};; continue) kill -CONT {process};; *) exit 1;; esac\n"
    );
    std::fs::write(&file, text).expect("a writable folder");
    format!("sh {} {{action}} {{server}}", file.display())
}

/// A run with this plan, on a Redis without a password; the files that it needs.
fn planned(
    driver: &str,
    plan: &str,
    redis: &ByHand,
    time_limit: &str,
) -> (Command, tempfile::TempDir, tempfile::NamedTempFile) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), plan).expect("a writable file");
    let results = tempfile::tempdir().expect("a temporary folder");
    let args = format!(
        "--lock redis-single --nemesis-file {} --hold 20ms --servers localhost:{} --time-limit {time_limit}",
        file.path().display(),
        redis.port
    );
    let mut command = command(driver, &args, &results);
    command.env_remove("FENCEPOST_SERVERS_PASSWORD");
    (command, results, file)
}

fn a_hook_stops_and_continues_a_server(driver: &str) {
    let (redis, folder) = (ByHand::redis(), tempfile::tempdir().expect("a temporary folder"));
    let hook = hook_of(&redis, &folder);
    let (mut command, results, _plan) = planned(driver, PAUSE, &redis, "300s --brief");
    command.args(["--server-hook", &hook]);
    let ran = run(command, driver, results);
    ran.assert_faults_real();
    let injected = ran.stages("inject", Kind::Ok).remove(0);
    let seen = &injected["observed"]["n1"];
    assert_eq!((&seen["answered_before"], &seen["answers"]), (&true.into(), &false.into()), "{injected}");
    assert!(
        injected["description"]["sentence"].as_str().unwrap().contains("by the server hook"),
        "{injected}"
    );
    let page = std::fs::read_to_string(ran.folder().join("report.html")).expect("a page");
    assert!(page.contains("n1 stopped"), "the fault is not drawn");
    assert_ne!(redis.state(), 'T');
}

fn a_hook_that_does_nothing_makes_a_run_vacuous(driver: &str) {
    let redis = ByHand::redis();
    let (mut command, results, _plan) = planned(driver, PAUSE, &redis, "300s --brief");
    command.args(["--server-hook", "true {action} {server}"]);
    let ran = run(command, driver, results);
    assert_eq!(ran.verdict().outcome, Outcome::Vacuous);
    assert_ne!(ran.code, 0);
}

fn an_interrupted_run_continues_the_server_and_removes_its_keys(driver: &str) {
    let (redis, folder) = (ByHand::redis(), tempfile::tempdir().expect("a temporary folder"));
    let before = redis.redis_dump(None);
    let hook = hook_of(&redis, &folder);
    let plan = PAUSE.replace("for_ms = 1000", "for_ms = 600000");
    let (mut command, results, _plan) = planned(driver, &plan, &redis, "700s");
    command.args(["--server-hook", &hook]);
    let mut running = start(command, driver);
    await_history(results.path(), "the server is stopped", |history| history.contains("\"effective\":true"));
    assert_eq!(redis.state(), 'T');
    let process = i32::try_from(running.child().id()).expect("a process number");
    kill(Pid::from_raw(process), Signal::SIGINT).expect("it runs");
    assert_eq!(running.finish().status.code(), Some(255));
    assert_ne!(redis.state(), 'T');
    assert_eq!(redis.redis_dump(None), before);
}

fn a_server_that_cannot_be_used_is_one_sentence(driver: &str) {
    let (tls, foreign) = (Certificates::make(), Certificates::make());
    let (secured, plain) = (ByHand::redis_with_tls(&tls), ByHand::redis());
    let (etcd, _) = ByHand::etcd_with_tls(&tls);
    let before = plain.redis_dump(None);
    let unused = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
    let (with, other) = (tls.options(), foreign.options());
    let (redis, etcd, plain_port) = (secured.port, etcd.port, plain.port);
    for (args, sentence) in [
        (
            format!(
                "redis-single --servers rediss://limited@localhost:{redis} {with} --password-file Cargo.toml"
            ),
            "there are two passwords",
        ),
        (
            format!("redis-single --servers rediss://unknown@localhost:{redis} {with}"),
            "does not take the user and password",
        ),
        (
            format!("redis-single --servers rediss://reader@localhost:{redis} {with}"),
            "does not let this user do",
        ),
        (
            format!("redis-single --servers rediss://limited@localhost:{redis} {other}"),
            "of an authority that the client does not trust",
        ),
        (format!("redis-single --servers localhost:{redis}"), "speaks TLS, and the client does not"),
        (format!("redis-single --servers localhost:{plain_port}"), "asks for no password"),
        (format!("redis-single --servers localhost:{unused}"), "does not answer: Connection refused"),
        (
            format!("etcd --servers https://unknown@localhost:{etcd} {with}"),
            "does not take the user and password",
        ),
        (format!("etcd --servers http://localhost:{plain_port}"), "does not answer"),
    ] {
        let results = tempfile::tempdir().expect("a temporary folder");
        let command = command(driver, &format!("--lock {args}"), &results);
        let ran = run(command, driver, results);
        assert_eq!(ran.code, 255, "{args}");
        assert!(ran.stderr.contains(sentence) && ran.stderr.lines().count() == 1, "{args}: {}", ran.stderr);
    }
    assert_eq!(plain.redis_dump(None), before);
}
