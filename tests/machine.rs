//! What no run may change on this machine, looked at as a whole, around runs of both drivers that use every
//! kind of thing that could stay behind. What bears a run's name is looked for by each test by itself
//! (`common::leftovers`); here it is what bears none: links, rules, mounts, files in shared folders, shared
//! memory, volumes, control groups, processes of servers.

#[path = "all/common/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros, reason = "the other test program uses all of it")]
mod common;

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_tested_fencepost");

use common::leftovers::{controller, run_of_mount};
use common::turn::{Turn, Weight};
use common::waiting::await_nothing;
use common::{Ran, Running};
use std::collections::BTreeSet;
use std::process::{Command, Output};

/// What is looked at, and how. Counters and times are left out.
const LOOKS: &[(&str, &str)] = &[
    ("namespace", "ip netns list"),
    // With the bridge that a link belongs to.
    (
        "link",
        "ip -o link show | sed 's/^[0-9]*: //; s/@[^:]*:/:/' | sed -E 's/^([^:]*):.*(master [^ ]*).*/\\1 \\2/; t; s/^([^:]*):.*/\\1/'",
    ),
    ("packet filter", "iptables-save | grep -v '^[#:]' | sed 's/\\[.*\\]//'"),
    ("mount", "cut -d' ' -f1-3 /proc/mounts"),
    ("shared memory", "ls -A /dev/shm"),
    ("message queue", "ls -A /dev/mqueue"),
    (
        "System V",
        "for kind in shm sem msg; do tail -n +2 /proc/sysvipc/$kind | awk -v kind=$kind '{ print kind, $1, $2 }'; done",
    ),
    ("volume", "docker volume ls -q"),
    ("control group", "find /sys/fs/cgroup -type d | grep -E 'docker|fencepost'"),
    ("file", "ls -dA /tmp/* /tmp/.[!.]* /run/* /var/tmp/* /var/run/*/* 2>/dev/null"),
    (
        "process",
        "ps -eo pid=,args= | grep -E 'redis-server|etcd --|QuorumPeerMain|postgres|mariadbd|fencepost (agent|sandbox|client|storage)'",
    ),
];

/// Files that come and go with this very test, with builds and with the engine.
const PASSING: &[&str] = &["/tmp/rustc", "/tmp/cargo", "/run/docker/", "/run/containerd/"];

fn look() -> BTreeSet<String> {
    let lines = LOOKS.iter().flat_map(|(subject, command)| {
        let text = text(&shell(command));
        text.lines().map(|line| format!("{subject}: {}", line.trim())).collect::<Vec<_>>()
    });
    let passing = |line: &String| {
        line.strip_prefix("file: ")
            .is_some_and(|path| PASSING.iter().any(|beginning| path.starts_with(beginning)))
            || line.contains("grep -E redis-server")
    };
    lines.filter(|line| !passing(line)).collect()
}

fn shell(command: &str) -> Output {
    Command::new("sh").args(["-c", command]).output().expect("a shell")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What others have to do with: all that the engine knows of containers and networks that are there, which
/// after our own runs are those of others, and which files are open in programs that go on.
struct Others {
    engine: String,
    open: String,
}

impl Others {
    fn look() -> Others {
        let ids = "docker ps -aq --no-trunc; docker network ls -q --no-trunc";
        let engine = format!("docker inspect $({ids}) 2>/dev/null; {ids}");
        let open = "for process in /proc/[0-9]*; do readlink $process/cwd; tr '\\0' '\\n' < $process/cmdline; \
             find $process/fd -type l -printf '%l\\n'; done 2>/dev/null | sort -u";
        Others { engine: text(&shell(&engine)), open: text(&shell(open)) }
    }

    /// Whether a line of [`look`] belongs to somebody who is still at work.
    fn have(&self, line: &str) -> bool {
        let (subject, rest) = line.split_once(": ").expect("each line has its subject");
        match subject {
            // A bridge of the engine has the beginning of its network's number in its name.
            "link" | "packet filter" => rest
                .split_whitespace()
                .filter_map(|word| word.strip_prefix("br-"))
                .any(|id| self.engine.contains(id)),
            "mount" => rest.split_whitespace().nth(1).is_some_and(|target| {
                self.engine.contains(target)
                    || self.engine.contains(&target.replacen("/run/", "/var/run/", 1))
            }),
            // Of a container that is there.
            "volume" => self.engine.contains(rest),
            "process" => rest.split_whitespace().next().is_some_and(|process| self.have_process(process)),
            // The private folder of a run whose controller lives, or its entry in the register.
            "file" if run_of_file(rest).and_then(controller).is_some_and(lives) => true,
            // The engine names one after each of its own.
            "control group" => {
                rest.split(['/', '-', '.']).any(|part| part.len() == 64 && self.engine.contains(part))
            }
            "file" | "shared memory" => self.open.lines().any(|path| path.contains(rest)),
            _ => false,
        }
    }

    /// A process in a container that is there, or in a run whose controller lives, or started by such a
    /// controller.
    fn have_process(&self, process: &str) -> bool {
        let read =
            |name: &str| std::fs::read_to_string(format!("/proc/{process}/{name}")).unwrap_or_default();
        let mounts = read("mountinfo");
        let in_run = mounts.lines().filter_map(run_of_mount).filter_map(controller).any(lives);
        let in_container = read("cgroup")
            .split('/')
            .any(|part| part.trim().len() == 64 && self.engine.contains(part.trim()));
        let parent = read("stat");
        let parent = parent.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        in_run || in_container || parent.is_some_and(|parent: u32| parent > 1 && lives(parent))
    }
}

fn run_of_file(path: &str) -> Option<&str> {
    run_of_mount(path).or_else(|| path.split_once("/fencepost/").map(|(_, run)| run))
}

fn lives(process: u32) -> bool {
    std::path::Path::new(&format!("/proc/{process}")).exists()
}

/// Runs `fencepost test` with this plan, unless that is empty. The test has taken its turn for all of its
/// runs.
fn run(plan: &str, args: &str) -> Ran {
    let results = tempfile::tempdir().expect("a temporary folder");
    let file = results.path().join("written.toml");
    std::fs::write(&file, plan).expect("a writable file");
    let [folder, file] =
        [results.path(), &file].map(|path| path.to_str().expect("a path in UTF-8").to_owned());
    let mut words = vec!["test", "--results", &folder];
    if !plan.is_empty() {
        words.extend(["--nemesis-file", &file]);
    }
    words.extend(args.split_whitespace());
    let ran = Ran::new(
        Running::start_command(None, common::fencepost(&words), Weight::of(&words)).finish(),
        results,
    );
    eprintln!("--- fencepost test {args}: exit {}\n{}\n{}", ran.code, ran.stdout, ran.stderr);
    ran
}

/// Runs that use everything: disks, clocks, packets, shared memory of PostgreSQL, files of the JVM.
fn use_everything() {
    let plan = |driver: &str| {
        let faults = [
            ("power-loss", "n1", "flicker_ms = 50"),
            ("clock-jump", "n2", "wall_ms = 30000\nmonotonic_ms = 30000"),
            ("delay", "n3", "delay_ms = 20\npeers = ['n1']"),
            ("partition", "c1", "groups = [['c1'], ['n4']]"),
        ];
        let faults = faults.map(|(fault, on, parameters)| {
            format!("[[fault]]\nat_ms = 500\nfor_ms = 1000\nfault = '{fault}'\non = ['{on}']\n{parameters}\n")
        });
        let ran = run(
            &faults.concat(),
            &format!("--driver {driver} --lock redlock --redis-persistence always --ttl 1s --time-limit 2s"),
        );
        ran.assert_faults_real();
    };
    let without_faults = |lock: &str| {
        let ran =
            run("", &format!("--driver local --lock {lock} --hold 20ms --acquisitions 20 --time-limit 60s"));
        assert_eq!(ran.code, 0);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| plan("docker"));
        scope.spawn(|| {
            plan("local");
            ["postgres-row", "zookeeper-sequential", "etcd"].into_iter().for_each(without_faults);
        });
    });
}

#[test]
fn runs_leave_the_machine_as_it_was() {
    let _turn = Turn::take(Weight::alone());
    // What is made once and kept, images and copies of the program, is no leftover.
    use_everything();
    let before = look();
    use_everything();
    let mut new: BTreeSet<String> = look().difference(&before).cloned().collect();
    // What goes away was on its way out, or another's.
    let new = await_nothing(|| {
        let now = look();
        new.retain(|line| now.contains(line));
        let others = Others::look();
        new.retain(|line| !others.have(line));
        new.iter().cloned().collect()
    });
    assert!(new.is_empty(), "the machine is not as it was before; new: {new:#?}");
}
