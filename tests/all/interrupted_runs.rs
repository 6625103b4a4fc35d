//! What is left behind when a run ends before its time: nothing, or nothing that the next start does not
//! remove.

use crate::common::turn::{Turn, Weight};
use crate::common::{Left, Running, await_history, fencepost, test, under};
use fencepost_checker::RunVerdict;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Starts a test of clock jumps and pauses that would last for a minute.
fn start(driver: &str, results: &Path) -> Running {
    start_for("60s", driver, results)
}

fn start_for(time_limit: &str, driver: &str, results: &Path) -> Running {
    let results = results.to_str().expect("a path in UTF-8");
    let args = format!(
        "test --driver {driver} --nemesis clock-jump,pause --time-limit {time_limit} --seed 1 --results {results}"
    );
    Running::start(&args.split_whitespace().collect::<Vec<_>>(), Weight::of(&args))
}

/// Waits until a fault is in force: the history says so.
fn await_fault(results: &Path) {
    await_history(results, "a fault takes effect", |history| history.contains("\"effective\":true"));
}

/// Waits until the program prints a line that begins so.
fn await_line(running: &mut Running, beginning: &str) {
    let stdout = BufReader::new(running.child().stdout.take().expect("piped"));
    let found = stdout.lines().map_while(Result::ok).any(|line| line.starts_with(beginning));
    assert!(found, "the program ended before it printed `{beginning}`");
}

fn signal(running: &mut Running, signal: Signal) {
    let process = i32::try_from(running.child().id()).expect("a process number");
    kill(Pid::from_raw(process), signal).expect("it runs");
}

/// SIGKILL in the middle of a fault. What is left, the next start removes.
fn a_killed_run_is_cleaned_up_by_the_next(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut running = start(driver, results.path());
    await_fault(results.path());
    signal(&mut running, Signal::SIGKILL);
    let (_, left) = running.finish_whatever_is_left();
    let next = test(&format!("--driver {driver} --lock redis-single --acquisitions 10"));
    assert_eq!(next.code, 0);
    left.assert_none();
}

/// A terminal that is closed in the middle of a fault, and all that a user may send then: an orderly end with
/// exit code 255, or 1 if a violation had been seen.
fn an_interrupted_run_takes_everything_down(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut running = start(driver, results.path());
    await_fault(results.path());
    for each in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGINT] {
        signal(&mut running, each);
    }
    let output = running.finish();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(255 | 1)), "{:?}: {stderr}", output.status);
    assert!(stderr.contains("interrupted"), "{stderr}");
}

/// A scenario that was begun is not one that was played.
#[test]
fn an_interrupted_scenario_does_not_count_as_played() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let place = results.path().to_str().expect("a path in UTF-8");
    let args = ["scenario", "redis-clock-jump", "--driver", "local", "--results", place];
    let mut running = Running::start(&args, Weight::LIGHT);
    await_history(results.path(), "the run has begun", |history| !history.is_empty());
    signal(&mut running, Signal::SIGINT);
    let output = running.finish();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(255), "{stderr}");
    assert!(stderr.contains("interrupted; 0 of 1 scenario was played to the end"), "{stderr}");
}

/// A terminal that is gone: its signal comes, and nothing can be printed any more.
fn a_run_without_its_terminal_takes_everything_down(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut running = start_for("120s", driver, results.path());
    await_fault(results.path());
    drop((running.child().stdout.take(), running.child().stderr.take()));
    let begun = Instant::now();
    signal(&mut running, Signal::SIGHUP);
    let output = running.finish();
    assert!(matches!(output.status.code(), Some(255 | 1)), "{:?}", output.status);
    assert!(begun.elapsed() < Duration::from_secs(90), "it went on to its own end");
}

/// No file may grow any further in the middle of the run. What its history holds by then is judged.
fn a_violation_stands_where_the_history_may_not_grow(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let place = results.path().to_str().expect("a path in UTF-8");
    let args =
        format!("test --driver {driver} --lock canary-nolock --time-limit 60s --hold 20ms --results {place}");
    let mut running = Running::start(&args.split_whitespace().collect::<Vec<_>>(), Weight::of(&args));
    await_history(results.path(), "enough is acquired", |history| {
        history.matches("\"acquire\"").count() >= 60
    });
    let process = running.child().id().to_string();
    let limited = Command::new("prlimit").args(["--fsize=1:1", "--pid", &process]).status();
    assert!(limited.expect("prlimit").success());
    let output = running.finish();
    let [said, complaints] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert_eq!(output.status.code(), Some(1), "{said}{complaints}");
    assert!(said.contains("The lock did not hold"), "{said}");
    assert!(complaints.contains("the run ended early: cannot write the history"), "{complaints}");
}

/// SIGKILL as soon as the verdict is printed: the files of the run say the same.
#[test]
fn a_verdict_that_was_printed_is_kept_whatever_comes() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let place = results.path().to_str().expect("a path in UTF-8");
    let args = format!("test --driver local --lock canary-nolock --time-limit 3s --results {place}");
    let mut running = Running::start(&args.split_whitespace().collect::<Vec<_>>(), Weight::of(&args));
    let stdout = BufReader::new(running.child().stdout.take().expect("piped"));
    let printed = stdout.lines().map_while(Result::ok).find(|line| line.contains("mutual exclusion"));
    running.child().kill().expect("it runs, or has ended");
    let (_, left) = running.finish_whatever_is_left();
    let printed = printed.expect("the run was judged");
    let verdict = std::fs::read(results.path().join("latest/verdict.json")).expect("it is kept");
    let verdict: RunVerdict = serde_json::from_slice(&verdict).expect("a whole file");
    let kept = verdict.of_checker("exclusion").expect("judged").outcome;
    assert!(printed.contains(&kept.to_string()), "{kept}: {printed}");
    assert!(results.path().join("latest/report.html").is_file());
    // An engine may keep networks that it has miscounted; this run had none.
    let clean = fencepost(&["clean"]).env("DOCKER_HOST", "unix:///nowhere").output();
    assert!(clean.expect("the program starts").status.success());
    left.assert_none();
}

/// Ctrl-C while nodes are being started.
fn an_interrupted_start_takes_everything_down(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut running = start(driver, results.path());
    await_line(&mut running, "guard");
    std::thread::sleep(Duration::from_millis(300));
    signal(&mut running, Signal::SIGINT);
    let output = running.finish();
    assert!(matches!(output.status.code(), Some(255 | 1)), "{:?}", output.status);
}

/// SIGKILL while nodes are being started, and in the middle of a fault: `fencepost clean` removes what is
/// left, and a run that goes on stays as it is.
fn what_killed_runs_left_is_removed_at_once(driver: &str) {
    let results = tempfile::tempdir().expect("a temporary folder");
    // For longer than an engine under load takes to start the others.
    let mut living = start_for("300s", "local", results.path());
    await_fault(results.path());
    let killed = tempfile::tempdir().expect("a temporary folder");
    let left: Vec<_> = [true, false]
        .map(|early| {
            let killed = killed.path().join(early.to_string());
            let args = format!(
                "test --driver {driver} --nemesis clock-jump --time-limit 60s --results {}",
                killed.display()
            );
            let args: Vec<_> = args.split_whitespace().collect();
            let mut running = Running::start_in(None, &args, Weight::of(&args.join(" ")));
            if early {
                await_line(&mut running, "guard");
                std::thread::sleep(Duration::from_millis(200));
            } else {
                await_fault(&killed);
            }
            signal(&mut running, Signal::SIGKILL);
            running.finish_whatever_is_left().1
        })
        .into();
    let cleaned = fencepost(&["clean"]).output().expect("the program starts");
    let (printed, complaints) =
        (String::from_utf8_lossy(&cleaned.stdout), String::from_utf8_lossy(&cleaned.stderr));
    // A run of someone else that begins just then removes what was left, too.
    let words = ["of killed runs", "nothing was left"];
    assert!(words.iter().any(|words| printed.contains(words)), "{printed}{complaints}");
    left.iter().for_each(Left::assert_none);
    let held = living.child().try_wait().expect("it is ours").is_none();
    assert!(held, "the run that goes on has ended");
    signal(&mut living, Signal::SIGINT);
    let output = living.finish();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(255 | 1)) && stderr.contains("interrupted"), "{stderr}");
}

/// A run of the driver `local` removes what one of the driver `docker` left.
#[test]
fn a_killed_run_of_docker_is_cleaned_up_by_a_local_one() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let mut running = start("docker", results.path());
    await_fault(results.path());
    signal(&mut running, Signal::SIGKILL);
    let (_, left) = running.finish_whatever_is_left();
    let next = test("--driver local --lock redis-single --acquisitions 10");
    assert_eq!(next.code, 0);
    left.assert_none();
}

/// An engine that accepts connections and never answers makes no local run slow, and no search of `clean`
/// endless.
#[test]
fn an_engine_that_hangs_keeps_no_local_run_from_going_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("docker.sock");
    let _engine = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    let host = format!("unix://{}", socket.display());
    let results = folder.path().join("results");
    let args =
        format!("test --driver local --lock redis-single --acquisitions 10 --results {}", results.display());
    let run = fencepost(&args.split_whitespace().collect::<Vec<_>>())
        .env("DOCKER_HOST", &host)
        .output()
        .expect("the program starts");
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
    let cleaned = fencepost(&["clean"]).env("DOCKER_HOST", &host).output().expect("the program starts");
    let printed = String::from_utf8_lossy(&cleaned.stdout);
    assert_eq!(cleaned.status.code(), Some(0), "{}", String::from_utf8_lossy(&cleaned.stderr));
    assert!(printed.contains("not searched: no Docker engine answers"), "{printed}");
}

under!(
    local: [a_killed_run_is_cleaned_up_by_the_next, an_interrupted_run_takes_everything_down, a_run_without_its_terminal_takes_everything_down, a_violation_stands_where_the_history_may_not_grow, an_interrupted_start_takes_everything_down, what_killed_runs_left_is_removed_at_once],
    docker: [a_killed_run_is_cleaned_up_by_the_next, an_interrupted_run_takes_everything_down, an_interrupted_start_takes_everything_down, what_killed_runs_left_is_removed_at_once],
    docker_by_night: [a_run_without_its_terminal_takes_everything_down, a_violation_stands_where_the_history_may_not_grow],
);

/// What a local run uses stays where it is until the run has ended.
#[test]
fn images_are_not_removed_below_a_run() {
    let turn = Turn::take(Weight::LIGHT);
    // A cache of its own with copies of the root file systems that the run needs: other tests need theirs.
    // Copies, since a link to a file changes its inode, and what is just being imported into an engine must
    // not change.
    let known = fencepost_cluster::cache_folder().expect("a cache");
    let own = tempfile::tempdir_in(&known).expect("a folder in the cache");
    std::fs::create_dir(own.path().join("rootfs")).expect("a folder");
    for whole in std::fs::read_dir(known.join("rootfs")).into_iter().flatten().flatten() {
        // One that is being made just now gets its name when it is whole.
        let name = whole.file_name().into_string().unwrap_or_default();
        let needed = ["redis-", "client-"].iter().any(|image| name.starts_with(image));
        if needed && whole.path().extension().is_none_or(|extension| extension != "unfinished") {
            let copy = Command::new("cp").arg("-a").arg(whole.path()).arg(own.path().join("rootfs")).status();
            assert!(copy.expect("cp").success());
        }
    }
    let with_own = |args: &[&str]| {
        let mut command = fencepost(args);
        command.env("FENCEPOST_CACHE", own.path()).env("DOCKER_HOST", "unix:///nowhere/docker.sock");
        command
    };
    let results = own.path().join("results");
    let place = results.to_str().expect("UTF-8");
    let run = with_own(&[
        "test",
        "--driver",
        "local",
        "--lock",
        "redis-single",
        "--time-limit",
        "8s",
        "--results",
        place,
    ])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .expect("the program starts");
    await_history(&results, "something is acquired", |history| history.contains("\"acquire\""));
    let used_before = redis_roots(own.path());
    let removed = with_own(&["images", "remove"]).output().expect("the program starts");
    let complaint = String::from_utf8_lossy(&removed.stderr).into_owned();
    assert!(used_before > 0, "a run uses the root file system of its servers, whatever the machine has");
    assert_eq!(removed.status.code(), Some(255), "{complaint}");
    assert!(complaint.contains("nothing was removed; wait for the end"), "{complaint}");
    assert_eq!(redis_roots(own.path()), used_before);
    let ended = run.wait_with_output().expect("it ends");
    drop(turn);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let removed = with_own(&["images", "remove"]).output().expect("the program starts");
    assert_eq!(removed.status.code(), Some(0), "{}", String::from_utf8_lossy(&removed.stderr));
    assert_eq!(redis_roots(own.path()), 0);
}

/// Root file systems of Redis in a cache.
fn redis_roots(cache: &Path) -> usize {
    let entries = std::fs::read_dir(cache.join("rootfs")).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.path().is_dir() && entry.file_name().as_encoded_bytes().starts_with(b"redis-"))
        .count()
}
