//! `fencepost fault`, `heal`, `faults` and `down`: faults that another shell injects into servers of
//! `fencepost up`. What is believed is what the servers say to a program of this machine.

use crate::clock_by_hand::now_s;
use crate::common::fencepost;
use crate::common::under;
use crate::common::waiting::await_until;
use crate::up::{Up, addresses, redis_s, try_to_ask};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(300);

/// What a command says to this cluster: its exit code, and all that it prints.
fn say(name: &str, words: &str) -> (Option<i32>, String) {
    let args: Vec<&str> = words.split(' ').chain(["--name", name]).collect();
    let ran = fencepost(&args).output().expect("it starts");
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    (ran.status.code(), said.into_owned())
}

fn done(name: &str, words: &str) -> String {
    let (code, said) = say(name, words);
    assert_eq!(code, Some(0), "{words}: {said}");
    said
}

/// How far the clock of a Redis is ahead of this machine's, in seconds.
fn ahead_s(address: &str) -> i64 {
    redis_s(address) - now_s()
}

fn answers(address: &str) -> bool {
    try_to_ask(address, "PING", PATIENCE).is_some_and(|line| line == "+PONG")
}

fn faults_come_from_another_shell_and_go(driver: &str) {
    let name = &format!("by-hand-{driver}");
    let (mut up, said) = Up::begin(&["redlock", "--driver", driver, "--nodes", "3", "--name", name]);
    let at = addresses(&said);
    let jump = done(name, "fault clock-jump n1 --by 1h");
    // To the millisecond it may be 3599.998 s on a busy machine.
    assert!(jump.contains("the wall clock of n1 jumped forward by 3"), "{jump}");
    assert!((ahead_s(&at[0]) - 3600).abs() <= 1 && ahead_s(&at[1]).abs() <= 1);

    done(name, "fault partition n2");
    assert!(!answers(&at[1]) && answers(&at[2]), "this program is cut off from n2, and from n2 alone");
    done(name, "fault pause n3 --for 500ms");
    assert!(!answers(&at[2]));
    await_until("the pause is over", || answers(&at[2]));

    let listed: Value = serde_json::from_str(&done(name, "faults --json")).expect("JSON");
    let states: Vec<&str> = listed["faults"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|fault| fault["state"].as_str().expect("a text"))
        .collect();
    assert_eq!(states[..2], ["in-force", "in-force"]);
    assert_eq!(listed["faults"][0]["observed"]["n1"]["mechanism"], "vdso");

    let (code, said) = say(name, "fault pause n1 --for 10s");
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = say(name, "fault pause n1");
    assert!(code == Some(254) && said.contains("another fault of its kind"), "{said}");
    done(name, "heal 1");
    done(name, "heal");
    assert!(at.iter().all(|address| answers(address) && ahead_s(address).abs() <= 1), "all is as before");

    done(name, "fault kill n1");
    assert!(!answers(&at[0]));
    done(name, "heal all");
    assert!(answers(&at[0]));
    // With a fault in force, which the end heals.
    done(name, "fault partition c1 n1,n2");
    assert!(!answers(&at[0]) && answers(&at[2]));
    done(name, "down");
    assert_eq!(up.ended(), Some(0));
    let (code, said) = say(name, "faults");
    assert!(code == Some(254) && said.contains("is running"), "{said}");
}

under!(
    local: [faults_come_from_another_shell_and_go],
    docker: [faults_come_from_another_shell_and_go],
    docker_by_night: [],
);

/// Faults as they are written on the command line. The parameters of all others are drawn.
const WRITTEN: [&str; 21] = [
    "clock-jump n1 --wall 30s",
    "clock-drift n1 --drift-ppm 500000",
    "clock-strobe n1 --size 2s",
    "clock-freeze n1",
    "pause n1",
    "partition n1",
    "delay n1 --delay 100ms",
    "loss n1 --loss 0.9",
    "reorder n1",
    "duplicate n1",
    "slow n1 --rate-kbit 64",
    "stall n1",
    "reset n1",
    "half-open n1 --idle 300ms",
    "error-replies n1 --reply readonly",
    "kill n1",
    "power-loss n1",
    "leader-kill n1",
    "leader-pause n1",
    "disk-full n1 --bytes-left 0 --copy-on-write true",
    "disk-slow n1",
];

#[test]
fn every_nemesis_can_be_injected_by_hand_and_healed() {
    let (mut up, said) = Up::begin(&["redis", "--driver", "local", "--name", "each"]);
    let at = addresses(&said);
    for nemesis in fencepost_nemesis::registry() {
        let name = nemesis.name();
        match WRITTEN.iter().find(|words| words.split(' ').next() == Some(name)) {
            Some(words) => drop(done("each", &format!("fault {words}"))),
            // What is drawn may be too little to be seen, and some are for other servers.
            None => {
                let (code, said) = say("each", &format!("fault {name} n1"));
                assert!(matches!(code, Some(0 | 2 | 254)), "{name}: {code:?}: {said}");
            }
        }
        done("each", "heal");
        assert!(answers(&at[0]), "{name} is healed");
    }
    assert_eq!(up.end(), Some(0));
}

#[test]
fn what_cannot_be_injected_is_refused_in_a_sentence() {
    let (mut up, cluster) = Up::begin(&["redis", "--driver", "local", "--name", "refusing"]);
    let at = addresses(&cluster);
    for (words, sentence) in [
        ("fault pause n9", "there is no node n9"),
        ("fault puase n1", "did you mean \"pause\"?"),
        ("fault pause", "names no node"),
        ("fault pause holder", "that is known of the clients of a run"),
        ("fault pause leader", "none of these servers leads"),
        ("fault pause c1", "which stands for your own programs"),
        ("fault pause n1 --for never", "invalid duration \"never\""),
        ("fault pause n1 --strop 3s", "unknown key"),
        ("fault pause n1 --when c1", "and here is no run"),
        ("fault clock-jump n1 --by", "--by has no value"),
        ("heal 77", "there is no fault 77"),
        ("heal everything", "is no fault"),
        ("up redis", "a cluster named refusing is already running"),
    ] {
        let (code, said) = say("refusing", words);
        assert!(code == Some(254) && said.contains(sentence), "{words}: {said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
    }
    let (code, said) = say("refusing", "fault clock-drift n1 --drift-ppm 0");
    assert!(code == Some(2) && said.contains("showed no effect, and was healed"), "{code:?}: {said}");
    let (code, said) = say("nowhere", "faults");
    assert!(code == Some(254) && said.contains("nowhere is running"), "{said}");
    let elsewhere =
        fencepost(&["up", "redis", "--name", "else", "--api", "0.0.0.0:0"]).output().expect("it starts");
    assert_eq!(elsewhere.status.code(), Some(254));

    // The port itself: without the token it says nothing, and the file that has it is closed to others.
    let (api, control) =
        (cluster["api"].as_str().expect("an address"), cluster["control"].as_str().expect("a path"));
    let mode = std::fs::metadata(control).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let about = std::fs::read_to_string(control).expect("the file");
    let token =
        serde_json::from_str::<Value>(&about).expect("JSON")["token"].as_str().expect("a text").to_owned();
    for (path, token, status, part) in [
        ("/cluster", "wrong", "401", "the token is missing or wrong"),
        ("/faults", "", "401", "the token is missing or wrong"),
        ("/nothing", &token, "404", "no such page"),
        ("/cluster", &token, "200", "redis-server"),
        ("/openapi.json", "", "200", "securitySchemes"),
    ] {
        let answer = get(api, path, token);
        assert!(
            answer.starts_with(&format!("HTTP/1.0 {status}")) && answer.contains(part),
            "{path}: {answer}"
        );
    }
    let altered = about.replace(&token, "wrong");
    std::fs::write(control, altered).expect("it is ours");
    let (code, said) = say("refusing", "fault pause n1");
    assert!(code == Some(254) && said.contains("the token is missing or wrong"), "{said}");
    assert!(answers(&at[0]), "it was not paused");
    assert_eq!(up.end(), Some(0));
}

fn get(api: &str, path: &str, token: &str) -> String {
    let mut port = TcpStream::connect(api.trim_start_matches("http://")).expect("it listens");
    write!(port, "GET {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    port.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn what_was_killed_with_a_fault_in_force_frees_its_name_and_is_removed() {
    let (mut up, said) = Up::begin(&["redis", "--driver", "local", "--name", "killed"]);
    done("killed", "fault partition n1");
    let control = said["control"].as_str().expect("a path").to_owned();
    up.kill();
    let (code, said) = say("killed", "fault pause n1");
    assert!(code == Some(254) && said.contains("is running"), "{said}");
    let cleaned = fencepost(&["clean"]).output().expect("it starts");
    assert_eq!(cleaned.status.code(), Some(0), "{}", String::from_utf8_lossy(&cleaned.stderr));
    assert!(!std::path::Path::new(&control).exists());
    let (mut again, said) = Up::begin(&["redis", "--driver", "local", "--name", "killed"]);
    assert!(answers(&addresses(&said)[0]));
    assert_eq!(again.end(), Some(0));
}

/// A process that Fencepost did not start.
struct Sleeping(Child);

impl Sleeping {
    fn start() -> Sleeping {
        Sleeping(Command::new("sleep").arg("600").spawn().expect("sleep"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// The letter in /proc.
    fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).expect("it is there");
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).expect("a state")
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A fault of the process that lasts until something ends it.
fn hit(words: &str, sleeping: &Sleeping) -> (Child, BufReader<ChildStdout>) {
    let pid = sleeping.pid();
    let args: Vec<&str> = words.split(' ').chain(["--pid", &pid]).collect();
    let piped = || Stdio::piped();
    let mut command = fencepost(&args).stdout(piped()).stderr(piped()).spawn().expect("it starts");
    let mut says = BufReader::new(command.stdout.take().expect("its output"));
    let mut line = String::new();
    says.read_line(&mut line).expect("it says what it did");
    assert!(line.starts_with("in force"), "{words}: {line}");
    (command, says)
}

#[test]
fn a_process_that_fencepost_did_not_start_is_hit_and_goes_on_whatever_ends_the_fault() {
    let sleeping = Sleeping::start();
    for words in ["fault pause", "fault cpu --share 0.01", "fault thread-pause"] {
        let (mut command, _says) = hit(words, &sleeping);
        await_until("it stands still", || matches!(sleeping.state(), 'T' | 't'));
        command.kill().expect("it runs");
        command.wait().expect("it ends");
        await_until("it goes on", || sleeping.state() == 'S');
    }
    // The guard of the last one may wake its process only now: another one is hit from here on.
    let mut sleeping = Sleeping::start();
    let pid = sleeping.pid();
    let run = |words: &str| {
        let args: Vec<&str> = words.split(' ').chain(["--pid", &pid]).collect();
        let ran = fencepost(&args).output().expect("it starts");
        let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        (ran.status.code(), said.into_owned())
    };
    let (code, said) = run("fault pause --for 50ms");
    assert!(
        code == Some(0) && said.contains("(sleep) was stopped (SIGSTOP)") && said.contains("healed"),
        "{said}"
    );
    await_until("it sleeps again", || sleeping.state() == 'S');
    for (words, sentence) in [
        ("fault clock-jump --by 1h", "is no fault of a process"),
        ("fault pause n1", "nodes, or the process of --pid"),
        ("fault pause --for never", "invalid duration"),
        ("fault pause --strop 1s", "unknown"),
        ("fault pause --pid 1", "there is no process 1"),
    ] {
        let args: Vec<&str> = words.split(' ').collect();
        let ran = match words.contains("--pid") {
            true => fencepost(&args).output().expect("it starts"),
            false => fencepost(&[&args[..], &["--pid", &pid]].concat()).output().expect("it starts"),
        };
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(254) && said.contains(sentence), "{words}: {said}");
        assert_eq!(said.trim().lines().count(), 1, "{said}");
    }
    let (mut command, _says) = hit("fault pause", &sleeping);
    sleeping.0.kill().expect("it runs");
    sleeping.0.wait().expect("it ends");
    let mut said = String::new();
    command.stderr.take().expect("its errors").read_to_string(&mut said).expect("it ends them");
    assert!(command.wait().expect("it ends").success() && said.contains("has ended meanwhile"), "{said}");
    let (code, said) = run("fault pause");
    assert!(code == Some(254) && said.contains("there is no process"), "{said}");

    let sleeping = Sleeping::start();
    let (mut command, _says) = hit("fault kill", &sleeping);
    assert!(command.wait().expect("it ends").success() && sleeping.state() == 'Z');
}
