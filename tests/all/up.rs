//! `fencepost up`: servers for tests of somebody's own, spoken to from this machine.

use crate::common::fencepost;
use crate::common::under;
use crate::common::waiting::await_until;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Greets the first server, a Redis, and ends with a code of its own.
const GREETS: &str = "exec 3<>/dev/tcp/127.0.0.1/${FENCEPOST_N1#*:}; printf 'PING\\r\\n' >&3; read -r -u 3 line; \
                      echo \"${line%?} $FENCEPOST_SERVERS\"; exit 3";

/// Servers that stand until this is dropped.
pub struct Up {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Up {
    /// With these arguments, and what it says in its first line.
    pub fn begin(args: &[&str]) -> (Up, Value) {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let logs = logs.path().to_str().expect("UTF-8").to_owned();
        let args = [&["up"], args, &["--json", "--logs", &logs]].concat();
        let mut child = fencepost(&args).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut says = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        says.read_line(&mut line).expect("it says where its servers are");
        (Up { child, says }, serde_json::from_str(&line).expect("a line of JSON"))
    }

    /// Asks it to end, and gives its exit code.
    pub fn end(&mut self) -> Option<i32> {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).expect("a number"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
        self.ended()
    }

    /// Waits for its end, and gives its exit code.
    pub fn ended(&mut self) -> Option<i32> {
        self.says.read_to_string(&mut String::new()).expect("it ends its output");
        self.child.wait().expect("it ends").code()
    }

    /// A process of this program among those that it started.
    pub fn process(&self, program: &str) -> i32 {
        let pid = i32::try_from(self.child.id()).expect("a number");
        let name = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let below = fencepost_cluster::agent::descendants(pid);
        below.into_iter().find(|pid| name(pid).trim_end() == program).expect("it runs that program")
    }

    /// Kills it, as the kernel does that lacks memory.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

pub fn addresses(said: &Value) -> Vec<String> {
    let servers = said["servers"].as_array().expect("a list of servers");
    servers.iter().map(|server| server["address"].as_str().expect("an address").to_owned()).collect()
}

/// What a Redis answers to a command in a line.
pub fn ask(address: &str, command: &str) -> String {
    try_to_ask(address, command, Duration::from_secs(60)).expect("it answers")
}

/// The time that a Redis shows, in seconds.
pub fn redis_s(address: &str) -> i64 {
    let time = ask(address, "EVAL \"return redis.call('TIME')[1]+0\" 0");
    time.trim_start_matches(':').parse().expect("seconds")
}

/// The same as [`ask`]; none if it gives no answer in that time.
pub fn try_to_ask(address: &str, command: &str, patience: Duration) -> Option<String> {
    let mut server = TcpStream::connect(address).expect("it listens");
    server.set_read_timeout(Some(patience)).expect("a time-out");
    write!(server, "{command}\r\n").ok()?;
    let mut line = String::new();
    BufReader::new(server).read_line(&mut line).ok()?;
    line.ends_with('\n').then(|| line.trim().to_owned())
}

/// As `eval "$(fencepost up … --env)"`, and then what a shell in the node says of the same server.
const EVALUATES: &str = "eval \"$($FENCEPOST up redis --driver $DRIVER --name $NAME --logs $LOGS --env)\" || exit 1; \
                         exec 3<>/dev/tcp/127.0.0.1/${FENCEPOST_N1#*:}; \
                         printf 'SET lock mine\\r\\n' >&3; read -r -u 3 line; echo \"${line%?} $FENCEPOST_NAME\"; \
                         echo 'redis-cli GET lock; exit 4' | $FENCEPOST shell n1; \
                         $FENCEPOST shell n1 -- sh -c 'redis-cli GET lock; exit 5'; echo $?; \
                         $FENCEPOST shell n9 -- true; echo $?; $FENCEPOST shell n1 -- no-such-program; echo $?; \
                         $FENCEPOST down";

fn servers_in_the_background_are_reached_by_variables_and_by_shells(driver: &str) {
    let logs = tempfile::tempdir().expect("a temporary folder");
    let name = format!("background-{driver}");
    let mut bash = Command::new("bash");
    bash.args(["-c", EVALUATES]).envs([("DRIVER", driver), ("NAME", &name), ("LOGS", path(logs.path()))]);
    let ran = bash.env("FENCEPOST", fencepost(&[]).get_program()).output().expect("bash");
    let (said, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let expected = format!("+OK {name}\nmine\nmine\n5\n254\n254\n{name} is down\n");
    assert_eq!(said, expected, "{errors}");
    assert!(errors.contains(&format!("runs until `fencepost down --name {name}`, or 1 h has passed")));
    assert!(errors.contains("there is no node n9; there are n1, c1"), "{errors}");
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn a_command_finds_its_servers_and_they_end_with_it(driver: &str) {
    let logs = tempfile::tempdir().expect("a temporary folder");
    let logs = logs.path().to_str().expect("UTF-8");
    let name = format!("greeted-{driver}");
    let args =
        ["up", "redis", "--driver", driver, "--name", &name, "--logs", logs, "--", "bash", "-c", GREETS];
    let ran = fencepost(&args).output().expect("it starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert_eq!(ran.status.code(), Some(3), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    let address = said.trim().strip_prefix("+PONG ").expect("an answer of Redis");
    assert!(address.starts_with("127.0.0.1:") && TcpStream::connect(address).is_err(), "{address}");
}

/// Asks a Sentinel for the primary, writes to that, and lets the Sentinels choose another.
fn sentinel_names_addresses_that_this_machine_reaches(driver: &str) {
    let name = format!("sentinel-{driver}");
    let (mut up, said) = Up::begin(&["redis-sentinel", "--driver", driver, "--name", &name]);
    let addresses = addresses(&said);
    let primary = || {
        let lines = ask_all(&addresses[5], "SENTINEL get-master-addr-by-name fencepost", 5);
        format!("{}:{}", lines[2], lines[4])
    };
    let first = primary();
    assert_eq!(first, addresses[0], "as the table says");
    assert_eq!(ask(&first, "SET lock mine"), "+OK");
    assert_eq!(ask(&addresses[5], "SENTINEL FAILOVER fencepost"), "+OK");
    await_until("another server is the primary", || primary() != first);
    assert!(addresses[1..3].contains(&primary()), "{}", primary());
    await_until("it says so itself", || ask_all(&primary(), "ROLE", 3)[2] == "master");
    assert_eq!(ask_all(&primary(), "GET lock", 2)[1], "mine");
    assert_eq!(up.end(), Some(0));
}

/// Each key is written where the servers say, by following each of them once.
fn redis_cluster_sends_programs_to_addresses_that_this_machine_reaches(driver: &str) {
    let name = format!("cluster-{driver}");
    let (mut up, said) = Up::begin(&["redis-cluster", "--driver", driver, "--name", &name]);
    let addresses = addresses(&said);
    let mut sent_on = 0;
    for key in ["a", "b", "c", "d", "e", "f"] {
        let answer = ask(&addresses[0], &format!("SET {key} mine"));
        if let Some(moved) = answer.strip_prefix("-MOVED ") {
            let (_, there) = moved.split_once(' ').expect("a slot and an address");
            assert!(addresses.iter().any(|address| address == there), "{moved}");
            assert_eq!(ask(there, &format!("SET {key} mine")), "+OK");
            sent_on += 1;
        } else {
            assert_eq!(answer, "+OK");
        }
    }
    assert!(sent_on > 0, "three servers share six keys");
    assert_eq!(up.end(), Some(0));
}

/// What a Redis answers, in so many lines.
fn ask_all(address: &str, command: &str, lines: usize) -> Vec<String> {
    let mut server = TcpStream::connect(address).expect("it listens");
    write!(server, "{command}\r\n").expect("it reads");
    let mut answer = BufReader::new(server).lines();
    (0..lines).map(|_| answer.next().expect("a line").expect("UTF-8").trim_end().to_owned()).collect()
}

under!(
    local: [
        a_command_finds_its_servers_and_they_end_with_it,
        servers_in_the_background_are_reached_by_variables_and_by_shells,
        sentinel_names_addresses_that_this_machine_reaches,
        redis_cluster_sends_programs_to_addresses_that_this_machine_reaches,
    ],
    docker: [
        a_command_finds_its_servers_and_they_end_with_it,
        servers_in_the_background_are_reached_by_variables_and_by_shells,
        sentinel_names_addresses_that_this_machine_reaches,
    ],
    docker_by_night: [redis_cluster_sends_programs_to_addresses_that_this_machine_reaches],
);

/// A lock by SET NX PX, used by two at once; with `jump` the clock of the server jumps beyond its TTL.
const USES_A_LOCK: &str = r#"
import socket, sys
from fencepost_pytest import recorded, standing

class Lock:
    def __init__(self, server):
        self.connection = socket.create_connection((server.host, server.port))
        self.lines = self.connection.makefile("r")

    def acquire(self, key, ttl, timeout):
        self.connection.sendall(f"SET {key} mine NX PX {ttl * 1000}\r\n".encode())
        return self.lines.readline() == "+OK\n"

    def release(self, key):
        self.connection.sendall(f"DEL {key}\r\n".encode())
        return self.lines.readline() == ":1\n"

cluster, jumps = standing(), "jump" in sys.argv
one, other = (recorded(Lock(cluster.servers[0])) for _ in range(2))
assert one.acquire("k", 60, 1)
if jumps:
    cluster.clock("n1").jump(120)
assert other.acquire("k", 60, 1) == jumps
one.works("k")
one.release("k")
assert jumps or other.acquire("k", 60, 1)
other.release("k")
"#;

/// The Python kit, for a program beside servers.
fn with_kit(mut command: Command) -> Command {
    command.env("PYTHONPATH", format!("{}/kits/python", crate::common::root())).env("USES", USES_A_LOCK);
    command
}

#[test]
fn what_a_test_does_is_judged_when_its_command_ends() {
    for (argument, code, said) in [("", Some(0), "valid"), ("jump", Some(1), "granted")] {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let name = format!("judged-{argument}");
        let args =
            ["up", "redis", "--driver", "local", "--name", &name, "--record", "--logs", path(logs.path())];
        let command = ["--", "python3", "-c", USES_A_LOCK, argument];
        let ran = with_kit(fencepost(&[&args[..], &command].concat())).output().expect("it starts");
        let shown = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == code && shown.contains(said), "{argument}: {:?} {shown}", ran.status);
        assert!(logs.path().join("report.html").exists());
        let history = std::fs::read_to_string(logs.path().join("history.jsonl")).expect("a history");
        assert_eq!(history.contains("\"clock-jump\""), argument == "jump", "faults are in the same history");
    }
}

/// As somebody's own integration test, with servers in the background.
const IS_JUDGED: &str = "eval \"$($FENCEPOST up redis --driver local --name $NAME --logs $LOGS --record --env)\" || exit 9; \
                         python3 -c \"$USES\" jump || exit 8; $FENCEPOST down";

#[test]
fn down_judges_what_was_recorded() {
    let logs = tempfile::tempdir().expect("a temporary folder");
    let mut bash = with_kit(Command::new("bash"));
    bash.args(["-c", IS_JUDGED]).envs([("NAME", "judged-by-down"), ("LOGS", path(logs.path()))]);
    let ran = bash.env("FENCEPOST", fencepost(&[]).get_program()).output().expect("bash");
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains("judged-by-down is down") && said.contains("granted"), "{said}");
}

#[test]
fn servers_stand_until_a_signal_and_are_apart_from_each_other() {
    let (mut up, said) = Up::begin(&["redlock", "--driver", "local", "--nodes", "3", "--name", "apart"]);
    let addresses = addresses(&said);
    assert_eq!(addresses.len(), 3);
    assert!(said["versions"][0].as_str().is_some_and(|version| version.starts_with("redis-server")));
    assert_eq!(ask(&addresses[0], "SET lock mine NX PX 10000"), "+OK");
    assert_eq!(ask(&addresses[0], "SET lock mine NX PX 10000"), "$-1", "it is the same server");
    assert_eq!(ask(&addresses[1], "SET lock mine NX PX 10000"), "+OK", "it is another one");
    assert_eq!(up.end(), Some(0));
    assert!(addresses.iter().all(|address| TcpStream::connect(address).is_err()));
}

#[test]
fn what_cannot_stand_is_refused_in_a_sentence() {
    for (args, code, sentence) in [
        (&["canary-nolock"][..], 254, "canary-nolock has no servers"),
        (&["no-such-lock"], 254, "unknown lock \"no-such-lock\""),
        (&["redis", "--nodes", "2"], 254, "redis-single"),
        (&["redis", "--nodes", "2", "--env"], 254, "redis-single"),
        (&["redis", "--driver", "local", "--", "no-such-program"], 255, "cannot start no-such-program"),
    ] {
        let logs = tempfile::tempdir().expect("a temporary folder");
        let args = [&["up", "--logs", logs.path().to_str().expect("UTF-8")], args].concat();
        let ran = fencepost(&args).output().expect("it starts");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(code) && said.contains(sentence), "{args:?}: {said}");
    }
}
