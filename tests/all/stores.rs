//! Results in an object store, on a real server of S3's protocol (`moto_server`, of PyPI's `moto[server]`).

use crate::common::fencepost;
use crate::common::waiting::await_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// In no file of a run may this be found.
const SECRET: &str = "a-secret-that-must-not-be-kept";

/// The server. It keeps everything in its memory, and ends with the test.
struct Store {
    server: Child,
    port: u16,
    /// The working directory of commands, and their cache.
    folder: tempfile::TempDir,
}

impl Store {
    fn start() -> Store {
        let store = Store::start_with(&[]);
        await_until("the server answers", || store.curl(&["--request", "PUT"], "/bucket").status.success());
        store
    }

    /// With these variables of the environment; it may not serve yet.
    fn start_with(settings: &[(&str, &str)]) -> Store {
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let mut command = Command::new("moto_server");
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).envs(settings.iter().copied());
        let server = command.spawn().expect("this test needs moto_server: pip install 'moto[server]'");
        Store { server, port, folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn curl(&self, args: &[&str], path: &str) -> Output {
        let mut command = Command::new("curl");
        command.args(["--silent", "--fail", "--max-time", "5"]).args(args);
        command.arg(format!("http://127.0.0.1:{}{path}", self.port)).output().expect("this test needs curl")
    }

    /// The keys of all objects.
    fn keys(&self) -> Vec<String> {
        let listed = self.curl(&[], "/bucket?list-type=2&max-keys=10000");
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
        keys.map(|(key, _)| key.to_owned()).collect()
    }

    fn command(&self, args: &str) -> Command {
        let args: Vec<&str> = args.split_whitespace().collect();
        let mut command = fencepost(&args);
        command.current_dir(self.folder.path());
        command
            .env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_ALLOW_HTTP", "true");
        command.env("AWS_ACCESS_KEY_ID", "known").env("AWS_SECRET_ACCESS_KEY", SECRET);
        command.env("AWS_REGION", "us-east-1");
        // Of the cache the copies of stores alone: images are those of this machine.
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &str) -> (i32, String) {
        let output = self.command(args).output().expect("the program starts");
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        eprintln!("--- fencepost {args}: {:?}\n{text}", output.status.code());
        (output.status.code().expect("it ends by itself"), text)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn names(results: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(results).expect("a folder").flatten();
    let runs = entries.filter(|entry| entry.path().join("run.toml").is_file() && !entry.path().is_symlink());
    let mut names: Vec<String> = runs.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Files that hold the secret.
fn leaks(folder: &Path) -> Vec<String> {
    let mut command = Command::new("grep");
    let found =
        command.args(["--recursive", "--files-with-matches", SECRET]).arg(folder).output().expect("grep");
    String::from_utf8_lossy(&found.stdout).lines().map(str::to_owned).collect()
}

/// The server stands still in the middle of a comparison, until a run could not be sent: all runs are sent in
/// the end, each whole.
#[test]
fn a_store_that_goes_away_for_a_while_loses_no_run() {
    let store = Store::start();
    let args = "compare --driver local --locks redis-single --nemeses none,pause --runs 3 --seed 7 --time-limit 3s \
                --results s3://bucket/campaign";
    let mut comparing = store.command(args).spawn().expect("the program starts");
    let mut lines = BufReader::new(comparing.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let line = lines.find(|line| line.trim_start().starts_with("1/6")).expect("a run ends");
    eprintln!("{line}");
    let server = Pid::from_raw(i32::try_from(store.server.id()).expect("a process"));
    kill(server, Signal::SIGSTOP).expect("it runs");
    let reader = std::thread::spawn(move || lines.collect::<Vec<String>>());
    let mut complaints =
        BufReader::new(comparing.stderr.take().expect("a pipe")).lines().map_while(Result::ok);
    let unsent = complaints.find(|line| line.contains("stays here, and is sent again at the end"));
    assert!(unsent.is_some(), "the comparison ended while the store stood still");
    kill(server, Signal::SIGCONT).expect("it is stopped");
    let errors = complaints.collect::<Vec<String>>().join("\n");
    let rest = reader.join().expect("no panic");
    let ended = comparing.wait().expect("it ends");
    assert_eq!(ended.code(), Some(0), "{rest:#?}\n{errors}");

    let made = names(&store.folder.path().join("results"));
    assert_eq!(made.len(), 6);
    let keys = store.keys();
    for run in &made {
        assert!(keys.contains(&format!("campaign/{run}/uploaded.json")), "{run} is not there: {keys:#?}");
    }
    assert_eq!(leaks(&store.folder.path().join("results")), [""; 0]);
    // Reading checks the length and the hash of every file.
    let (code, text) = store.run("compare --from s3://bucket/campaign --json there.json");
    assert_eq!(code, 0);
    assert!(text.contains("in 6 runs"), "{text}");
    // The comparison was sent, too; a second attempt elsewhere brings its runs and makes none.
    std::fs::rename(store.folder.path().join("results"), store.folder.path().join("gone")).expect("a folder");
    let (code, text) = store.run(args);
    assert_eq!(code, 0);
    assert!(text.contains("0 to do, 6 done before"), "{text}");
}

#[test]
fn results_are_sent_later_and_removed_there() {
    let store = Store::start();
    let (code, _) = store.run("test --driver local --lock redis-single --acquisitions 10 --results runs");
    assert_eq!(code, 0);
    let run = names(&store.folder.path().join("runs")).remove(0);
    let (code, text) = store.run("upload runs s3://bucket/later");
    assert_eq!((code, text.contains(&format!("{run} sent"))), (0, true));
    let (code, text) = store.run("upload runs s3://bucket/later");
    assert_eq!((code, text.contains(&format!("{run} is there already"))), (0, true));
    // A run without its marker is not there.
    assert!(store.curl(&["--request", "PUT"], "/bucket/half/run/run.toml").status.success());
    let (code, text) = store.run("compare --from s3://bucket/half");
    assert_eq!(code, 254, "{text}");
    assert!(text.contains("there is no result in s3://bucket/half"), "{text}");
    let (code, text) = store.run("gc --results s3://bucket/later --keep 0");
    assert_eq!((code, text.contains("1 of 1 run removed")), (0, true), "{text}");
    assert_eq!(store.keys(), ["half/run/run.toml"]);
}

#[test]
fn a_hunt_begins_with_what_one_before_it_sent() {
    let store = Store::start();
    let hunt =
        "hunt --driver local --lock redis-single --nemeses duplicate --ttl 500ms --for 10s --jobs 2 --seed 3";
    // How much it plays depends on the machine, and 2 says that it was little; what it kept is sent all the
    // same.
    let has_ended = |code| [0, 2].contains(&code);
    let (code, text) = store.run(&format!("{hunt} --results s3://bucket/hunts"));
    assert!(has_ended(code), "{text}");
    // Only the store has it now.
    std::fs::remove_dir_all(store.folder.path().join("results")).expect("the folder of the hunt");
    let (code, text) = store.run(&format!("{hunt} --corpus s3://bucket/hunts"));
    assert!(has_ended(code), "{text}");
    assert!(text.contains("of the schedules that s3://bucket/hunts holds"), "{text}");
    assert!(!text.contains("begins with 0 of"), "{text}");
    let (code, text) = store.run(&format!("{hunt} --corpus s3://bucket/empty"));
    assert_eq!(code, 254, "{text}");
    assert!(text.contains("there is no result in s3://bucket/empty"), "{text}");
}

#[test]
fn a_store_that_cannot_be_written_to_ends_a_command_before_it_begins() {
    let store = Store::start();
    let (code, text) = store.run("test --driver local --lock redis-single --results s3://nowhere/runs");
    assert_eq!(code, 255);
    assert!(text.contains("cannot write to s3://nowhere/runs: there is no such bucket"), "{text}");
    assert!(!text.contains("<?xml") && !text.contains("Error performing"), "raw text of a library: {text}");
    assert!(!store.folder.path().join("results").exists(), "nothing was begun");
    let (code, text) =
        store.run("test --driver local --lock redis-single --results s3://known:secret@bucket/runs");
    assert_eq!(code, 254);
    assert!(text.contains("bears credentials") && !text.contains("known:secret"), "{text}");
}

/// The server knows no user, and lets none in.
#[test]
fn a_store_that_refuses_the_credentials_is_said_so() {
    let store = Store::start_with(&[("INITIAL_NO_AUTH_ACTION_COUNT", "0")]);
    let (code, text) = store.run("test --driver local --lock redis-single --results s3://bucket/runs");
    assert_eq!(code, 255, "{text}");
    assert!(text.contains("cannot write to s3://bucket/runs: the store refuses these credentials"), "{text}");
    assert!(!text.contains(SECRET), "{text}");
}
