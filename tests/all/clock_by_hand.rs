//! `fencepost clock`: programs that Fencepost did not start. What is believed is what the program itself
//! prints.

use crate::common::fencepost;
use crate::common::waiting::await_until;
use crate::kits::{passes_in_setup, suite_of_kits};
use crate::up::{Up, addresses, redis_s};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

/// A shell that prints its time, in seconds, for each line that it reads.
const TELLS_THE_TIME: &str = "while read -r _; do printf '%(%s)T\\n' -1; done";

/// The same in Python, with a thread that sleeps beside it.
const PYTHON_TELLS_IT: &str = "import sys, threading, time\n\
                               threading.Thread(target=threading.Event().wait, daemon=True).start()\n\
                               for _ in sys.stdin: print(int(time.time()), flush=True)";

struct Shell {
    child: Child,
    says: BufReader<ChildStdout>,
}

impl Shell {
    fn start() -> Shell {
        Shell::of("bash", TELLS_THE_TIME)
    }

    fn of(program: &str, script: &str) -> Shell {
        let mut shell = Command::new(program);
        shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().expect("a shell");
        let says = BufReader::new(child.stdout.take().expect("its output"));
        Shell { child, says }
    }

    fn pid(&self) -> String {
        self.child.id().to_string()
    }

    fn time_s(&mut self) -> i64 {
        writeln!(self.child.stdin.as_mut().expect("its input"), "?").expect("it reads");
        let mut line = String::new();
        self.says.read_line(&mut line).expect("it answers");
        line.trim().parse().expect("seconds")
    }

    /// How far its clock is ahead of this program's.
    fn ahead_s(&mut self) -> i64 {
        self.time_s() - now_s()
    }
}

pub fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    i64::try_from(now.as_secs()).expect("seconds")
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn clock(args: &[&str]) -> (Option<i32>, String) {
    let ran = fencepost(&[&["clock"], args].concat()).output().expect("it starts");
    let said = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    (ran.status.code(), said.into_owned())
}

#[test]
fn a_program_that_is_no_node_sees_what_is_done_to_its_clock_and_nothing_afterwards() {
    let mut shell = Shell::start();
    assert!(shell.ahead_s().abs() <= 1);
    let pid = shell.pid();
    let (code, said) = clock(&["jump", "+1h", "--pid", &pid, "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let seen: Value = serde_json::from_str(said.trim()).expect("a line of JSON");
    assert_eq!(seen["program"], "bash");
    assert!(seen["seen"]["wall_ns"].as_i64().expect("a number").abs_diff(3_600_000_000_000) < 1_000_000_000);
    assert!((shell.ahead_s() - 3600).abs() <= 1, "the shell sees it itself");
    assert_eq!(clock(&["jump", "-30min", "--pid", &pid]).0, Some(0));
    assert!((shell.ahead_s() - 1800).abs() <= 1, "it jumps from where it is");

    let (code, said) = clock(&["freeze", "--pid", &pid]);
    assert!(code == Some(0) && said.contains("stands still") && said.contains("clock reset --pid"), "{said}");
    let frozen = shell.time_s();
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    assert_eq!(shell.time_s(), frozen);

    let (code, said) = clock(&["reset", "--pid", &pid]);
    assert!(code == Some(0) && said.contains("the wall clock is true"), "{said}");
    assert!(shell.ahead_s().abs() <= 1);
}

#[test]
fn a_python_program_with_threads_sees_its_clock_jump_drift_and_come_back() {
    let mut python = Shell::of("python3", PYTHON_TELLS_IT);
    assert!(python.ahead_s().abs() <= 1);
    let pid = python.pid();
    let (code, said) = clock(&["jump", "+1h", "--pid", &pid]);
    assert!(code == Some(0) && said.contains("one of its 2 threads"), "{said}");
    assert!((python.ahead_s() - 3600).abs() <= 1, "the program prints it itself");
    assert_eq!(clock(&["drift", "50", "--pid", &pid]).0, Some(0));
    let before = python.ahead_s();
    await_until("it gains on this machine", || python.ahead_s() > before + 20);
    assert_eq!(clock(&["reset", "--pid", &pid]).0, Some(0));
    assert!(python.ahead_s().abs() <= 1);
}

/// The same in Go and in Java. A shell of Debian's packages compiles and starts them, and connects them to
/// the test.
const GO_TELLS_IT: &str = r#"package main
import ("bufio"; "fmt"; "os"; "time")
func main() {
    for lines := bufio.NewScanner(os.Stdin); lines.Scan(); { fmt.Println(time.Now().Unix()) }
}"#;
const JAVA_TELLS_IT: &str = r#"class Clock {
    public static void main(String[] arguments) throws Exception {
        var lines = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        while (lines.readLine() != null) System.out.println(System.currentTimeMillis() / 1000);
    }
}"#;

/// A program of these packages, which tells its time over a connection: it sees its clock jump, drift, and
/// come back, by its own word.
fn sees_its_clock_moved(program: &str, packages: &[&str], file: &str, source: &str, starts: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("it is a socket");
    let port = listener.local_addr().expect("an address").port();
    let write = format!("mkdir -p /tmp/clock && cat > /tmp/clock/{file} <<'END'\n{source}\nEND");
    let run =
        if program == "java" { "java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 Clock" } else { "./go-clock" };
    let start = format!(
        "cd /tmp/clock && HOME=/tmp && export HOME && {starts} && bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}; \
         exec {run} <&3 >&3'"
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            passes_in_setup(&format!("clock-of-{program}"), packages, suite_of_kits(), &[&write, &start])
        });
        let mut accepted = None;
        await_until("it connects", || {
            accepted = listener.accept().ok();
            accepted.is_some()
        });
        let (mut stream, _) = accepted.expect("it has connected");
        let mut says = BufReader::new(stream.try_clone().expect("its output"));
        let mut ahead_s = || {
            writeln!(stream, "?").expect("it reads");
            let mut line = String::new();
            says.read_line(&mut line).expect("it answers");
            line.trim().parse::<i64>().expect("seconds") - now_s()
        };
        assert!(ahead_s().abs() <= 1);
        let pid = below_this_test(program).to_string();
        let (code, said) = clock(&["jump", "+1h", "--pid", &pid]);
        assert!(code == Some(0) && said.contains("threads, which share the clocks"), "{said}");
        assert!((ahead_s() - 3600).abs() <= 1, "the program prints it itself");
        assert_eq!(clock(&["drift", "50", "--pid", &pid]).0, Some(0));
        let before = ahead_s();
        await_until("it gains on this machine", || ahead_s() > before + 20);
        assert_eq!(clock(&["reset", "--pid", &pid]).0, Some(0));
        assert!(ahead_s().abs() <= 1);
        stream.shutdown(std::net::Shutdown::Both).expect("it is open");
    });
}

/// The program of this name that was started here: other tests may run others of it.
fn below_this_test(program: &str) -> i32 {
    let own = i32::try_from(std::process::id()).expect("a number");
    let name = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let below = fencepost_cluster::agent::descendants(own);
    below.into_iter().find(|pid| name(pid).trim_end() == program).expect("it runs that program")
}

#[test]
fn a_go_program_sees_its_clock_jump_drift_and_come_back() {
    let build = "go build -o go-clock clock.go";
    sees_its_clock_moved("go-clock", &["golang-go"], "clock.go", GO_TELLS_IT, build);
}

#[test]
fn a_jvm_sees_its_clock_jump_drift_and_come_back() {
    sees_its_clock_moved(
        "java",
        &["openjdk-21-jdk-headless"],
        "Clock.java",
        JAVA_TELLS_IT,
        "javac Clock.java",
    );
}

/// The time in the header `Date` of an HTTP server's answer, in seconds.
fn date_s(address: &str) -> i64 {
    let mut server = TcpStream::connect(address).expect("it listens");
    write!(server, "GET /health HTTP/1.0\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    server.read_to_string(&mut answer).expect("it answers");
    let date = answer.lines().find_map(|line| line.strip_prefix("Date: ")).expect("a header");
    let shown = Command::new("date").args(["-d", date, "+%s"]).output().expect("date");
    String::from_utf8_lossy(&shown.stdout).trim().parse().expect("seconds")
}

/// A server in C, and one in Go that no library reaches; the witness is what each says over the network.
#[test]
fn servers_see_their_clocks_jump() {
    for (lock, program, time_s) in
        [("redis", "redis-server", redis_s as fn(&str) -> i64), ("etcd", "etcd", date_s)]
    {
        let name = format!("clock-of-{lock}");
        let nodes = if lock == "etcd" { "3" } else { "1" };
        let (mut up, said) = Up::begin(&[lock, "--driver", "local", "--nodes", nodes, "--name", &name]);
        let pid = up.process(program);
        let at = addresses(&said);
        // Which of the servers it is.
        let ahead = || at.iter().map(|address| time_s(address) - now_s()).collect::<Vec<_>>();
        assert!(ahead().iter().all(|ahead| ahead.abs() <= 1), "{:?}", ahead());
        let (code, said) = clock(&["jump", "+1h", "--pid", &pid.to_string()]);
        assert!(code == Some(0) && said.contains("s ahead") && said.contains("threads"), "{said}");
        assert_eq!(ahead().iter().filter(|ahead| (**ahead - 3600).abs() <= 1).count(), 1, "{:?}", ahead());
        assert_eq!(clock(&["reset", "--pid", &pid.to_string()]).0, Some(0));
        assert!(ahead().iter().all(|ahead| ahead.abs() <= 1), "{:?}", ahead());
        assert_eq!(up.end(), Some(0));
    }
}

#[test]
fn what_cannot_be_moved_is_refused_in_a_sentence() {
    let gone = {
        let shell = Shell::start();
        shell.pid()
    };
    let (code, said) = clock(&["show", "--pid", &gone]);
    assert_eq!(code, Some(254));
    assert!(said.contains(&format!("there is no process {gone}")), "{said}");
    let shell = Shell::start();
    for (args, sentence) in [
        (&["drift", "-2", "--pid", &shell.pid()][..], "from 0 to 100, not -2"),
        (&["jump", "later", "--pid", &shell.pid()], "such as +30s or -1h"),
        (&["jump", "+999999h", "--pid", &shell.pid()], "beyond the year 2099"),
        (&["show"], "--pid <N>"),
        (&["show", "--container", "no-such-container"], "no-such-container"),
    ] {
        let (code, said) = clock(args);
        assert!(code.is_some_and(|code| code >= 254), "{args:?}: {said}");
        assert!(said.contains(sentence), "{args:?}: {said}");
    }
}
