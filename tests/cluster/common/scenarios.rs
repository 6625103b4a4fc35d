//! What every driver's nodes must do.

use super::*;
use fencepost_cluster::{Attached, Capability, clean_up_before};
use std::process::{Command, Stdio};
use std::task::Poll;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

/// How long it is tried to reach what cannot be reached, and to wait for what does not end.
pub const NO_ANSWER: Duration = Duration::from_secs(1);

const SIGKILL: i32 = 9;
const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;

/// A server is started, stopped, continued, killed, and started again.
pub async fn service_lives_and_dies(name: &str) {
    let (driver, spec) = (driver(name).await, spec(&format!("service-{name}"), &[("n1", "redis")]));
    let cluster = start(&*driver, &spec).await;
    let node = cluster.node("n1").unwrap();
    assert_eq!(node.service_pid("redis"), None);
    let pid = start_redis(node).await;
    assert_eq!(node.service_pid("redis"), Some(pid));
    let again = node.start(&redis()).await.unwrap_err().0;
    assert_eq!(again, format!("n1: the service redis runs already, as process {pid}; end it first"));

    node.signal(pid, SIGSTOP).await.unwrap();
    eventually("Redis is stopped", async || node.state(pid).await.unwrap() == Some('T')).await;
    node.signal(pid, SIGCONT).await.unwrap();
    eventually("Redis goes on", async || node.state(pid).await.unwrap() != Some('T')).await;

    let early = node.await_exit(pid, NO_ANSWER).await.unwrap_err().0;
    assert!(early.starts_with(&format!("n1: process {pid} is still there after 1000 ms")), "{early}");
    node.signal(pid, SIGKILL).await.unwrap();
    node.await_exit(pid, PATIENCE).await.unwrap();
    // No waiting in between: the end is reported before the wait is over.
    assert_eq!(node.service_pid("redis"), None);
    assert_eq!(node.state(pid).await.unwrap(), None);
    assert_eq!(node.signal(pid, SIGKILL).await.unwrap_err().0, format!("n1: there is no process {pid}"));

    let pid = start_redis(node).await;
    assert_eq!(node.service_pid("redis"), Some(pid));
    let log = std::fs::read_to_string(spec.logs.join("n1.log")).unwrap();
    assert!(log.contains("redis | -- process"), "{log}");
    assert!(log.contains("was ended by SIGKILL"), "{log}");
    assert!(log.contains("Ready to accept connections"), "{log}");
    stop(cluster, &spec).await;
}

/// Nodes reach each other, see each other's real addresses, and can be cut off by a packet filter.
pub async fn nodes_are_hosts_of_their_own(name: &str) {
    let nodes = [("n1", "redis"), ("n2", "redis"), ("c1", "client")];
    let (driver, spec) = (driver(name).await, spec(&format!("hosts-{name}"), &nodes));
    let cluster = start(&*driver, &spec).await;
    let [n1, n2, c1] = ["n1", "n2", "c1"].map(|name| cluster.node(name).unwrap());
    start_redis(n1).await;
    assert_ne!(n1.address(), n2.address());
    assert_eq!(output(n2, &["hostname"]).await.trim(), "n2");
    let redis = n1.address().to_string();
    let clients = output(n2, &["redis-cli", "-h", &redis, "client", "list"]).await;
    assert!(clients.contains(&format!("addr={}:", n2.address())), "{clients}");

    let server = format!("{redis}:6379");
    let begun = Instant::now();
    let round_trip = c1.connect(&server, PATIENCE).await.unwrap().unwrap();
    assert!(round_trip <= begun.elapsed(), "{round_trip:?}");
    let rule = ["INPUT", "-s", &c1.address().to_string(), "-j", "DROP"].map(str::to_owned);
    let filter = |verb| {
        ["iptables", "-w", verb].into_iter().chain(rule.iter().map(String::as_str)).collect::<Vec<_>>()
    };
    output(n1, &filter("-A")).await;
    let cut = c1.connect(&server, NO_ANSWER).await.unwrap();
    assert_eq!(cut.unwrap_err().to_string(), "no answer within 1000 ms");
    assert!(n2.connect(&server, PATIENCE).await.unwrap().is_ok(), "only c1 is cut off");
    output(n1, &filter("-D")).await;
    assert!(c1.connect(&server, PATIENCE).await.unwrap().is_ok());
    let refused = c1.connect(&format!("{}:6379", n2.address()), PATIENCE).await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("refused"), "{refused}");
    stop(cluster, &spec).await;
}

/// Commands and files, and what is said when they fail.
pub async fn commands_and_files(name: &str) {
    let (driver, spec) = (driver(name).await, spec(&format!("files-{name}"), &[("c1", "client")]));
    let cluster = start(&*driver, &spec).await;
    let node = cluster.node("c1").unwrap();
    let content: Vec<u8> = (0..=255).collect();
    node.put("{data}/deep/down/file", &content).await.unwrap();
    assert_eq!(node.get("{data}/deep/down/file").await.unwrap(), content);
    assert_eq!(output(node, &["sh", "-c", "wc -c < {data}/deep/down/file"]).await.trim(), "256");
    node.remove("{data}/deep").await.unwrap();
    node.remove("{data}/deep").await.unwrap();
    let missing = node.get("{data}/deep/down/file").await.unwrap_err().0;
    assert!(missing.starts_with("c1: cannot read /data/deep/down/file: No such file"), "{missing}");

    let failed = node.exec(&["sh", "-c", "echo out; echo err >&2; exit 3"], PATIENCE).await.unwrap();
    assert_eq!((failed.code, failed.stdout.as_str(), failed.stderr.as_str()), (Some(3), "out\n", "err\n"));
    let slow = node.exec(&["sleep", "600"], NO_ANSWER).await.unwrap();
    assert_eq!(slow.code, None);
    let absent = node.exec(&["no-such-program"], PATIENCE).await.unwrap_err().0;
    assert!(absent.starts_with("c1: cannot start no-such-program: No such file"), "{absent}");
    // A child that outlives its parent is the agent's to reap, and holds nothing up.
    let orphan = output(node, &["sh", "-c", "sleep 0.1 & echo $!"]).await;
    let orphan: i32 = orphan.trim().parse().unwrap();
    node.await_exit(orphan, PATIENCE).await.unwrap();
    assert_eq!(node.state(orphan).await.unwrap(), None);
    let tool = node.tool("clock", serde_json::Value::Null).await.unwrap_err().0;
    assert!(tool.starts_with("c1: this agent has no tool clock"), "{tool}");
    stop(cluster, &spec).await;
}

/// A program attached to its caller: streams, log, signals, end.
pub async fn attached_programs(name: &str) {
    let (driver, spec) = (driver(name).await, spec(&format!("attach-{name}"), &[("c1", "client")]));
    let cluster = start(&*driver, &spec).await;
    let node = cluster.node("c1").unwrap();
    let script = "echo $$; echo trouble >&2; exec cat";
    let Attached { mut stdin, stdout } = node.attach(&["sh", "-c", script].map(str::to_owned)).await.unwrap();
    let mut lines = BufReader::new(stdout).lines();
    let pid: i32 = lines.next_line().await.unwrap().unwrap().parse().unwrap();
    for number in 0..1000 {
        stdin.write_all(format!("line {number}\n").as_bytes()).await.unwrap();
        stdin.flush().await.unwrap();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), format!("line {number}"));
    }
    node.signal(pid, SIGSTOP).await.unwrap();
    eventually("the program is stopped", async || node.state(pid).await.unwrap() == Some('T')).await;
    node.signal(pid, SIGKILL).await.unwrap();
    node.await_exit(pid, PATIENCE).await.unwrap();
    assert_eq!(lines.next_line().await.unwrap(), None);
    let log = spec.logs.join("c1.log");
    eventually("its standard error is in the log", async || {
        std::fs::read_to_string(&log).unwrap().contains("sh | trouble")
    })
    .await;

    // The name `fencepost` means this program; and closing its input is seen by the program.
    let Attached { stdin, mut stdout } =
        node.attach(&["fencepost", "agent", "/data"].map(str::to_owned)).await.unwrap();
    let mut hello = vec![0; 16];
    stdout.read_exact(&mut hello).await.unwrap();
    assert_eq!(hello, *br#"{"type":"hello","#);
    drop(stdin);
    tokio::time::timeout(PATIENCE, stdout.read_to_end(&mut hello)).await.unwrap().unwrap();
    stop(cluster, &spec).await;
}

/// Two clusters at once do not see each other, and a name is not used twice.
pub async fn two_at_once(name: &str) {
    let driver = driver(name).await;
    let (one, two) =
        (spec(&format!("one-{name}"), &[("n1", "redis")]), spec(&format!("two-{name}"), &[("n1", "redis")]));
    let (first, second) = tokio::join!(start(&*driver, &one), start(&*driver, &two));
    let same = driver.start(&one).await.err().unwrap().0;
    assert_eq!(same, format!("a run named {} is going on already; give this one another name", one.run));
    let (n1, other) = (first.node("n1").unwrap(), second.node("n1").unwrap());
    assert_ne!(n1.address(), other.address());
    start_redis(n1).await;
    let across = format!("{}:6379", n1.address());
    let connections = async || {
        let stats = output(n1, &["redis-cli", "info", "stats"]).await;
        let count = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        count.and_then(|count| count.trim().parse::<u64>().ok()).expect("Redis counts its connections")
    };
    let before = connections().await;
    assert!(other.connect(&across, NO_ANSWER).await.unwrap().is_err());
    assert_eq!(connections().await, before + 1, "only the one that asks has come");
    // What cleans up after the dead leaves the living alone.
    let _alone = CLEANING.lock().await;
    clean_up_before(&*driver).await.unwrap();
    stop(second, &two).await;
    assert!(n1.connect(&across, PATIENCE).await.unwrap().is_ok());
    stop(first, &one).await;
    for run in [&one.run, &two.run] {
        assert_eq!(leftovers::of_run(name, run).await, Vec::<String>::new());
    }
}

/// However a cluster is dropped, in the middle of its start or later, nothing of it is left.
pub async fn dropped(name: &str) {
    let driver = driver(name).await;
    let nodes = [("n1", "redis"), ("n2", "redis"), ("c1", "client")];
    // The first start makes images, if need be: that is another matter.
    let whole = spec(&format!("whole-{name}"), &nodes);
    let cluster = start(&*driver, &whole).await;
    start_redis(cluster.node("n1").unwrap()).await;
    drop(cluster);
    let _ = std::fs::remove_dir_all(&whole.logs);
    assert_eq!(leftovers::of_run(name, &whole.run).await, Vec::<String>::new());
    for after in [0, 1, 2, 4, 8, 16, 32, 64] {
        let spec = spec(&format!("dropped-{name}-{after}"), &nodes);
        polled(driver.start(&spec), after).await;
        // A container whose agent ended may be on its way out by the engine's own doing, which then refuses
        // to remove it as well.
        let what = format!("nothing is left of a start given up after {after} steps");
        eventually(&what, async || leftovers::of_run(name, &spec.run).await.is_empty()).await;
        let _ = std::fs::remove_dir_all(spec.logs);
    }
}

/// Lets it take so many steps, and drops it, over or not.
async fn polled<T>(starting: impl Future<Output = T>, steps: u32) {
    let mut starting = std::pin::pin!(starting);
    let mut left = steps;
    std::future::poll_fn(|context| {
        if left == 0 || starting.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        left -= 1;
        // The last step was the last one: it is not waited for the next to be due.
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Held while a dead run waits to be removed: another test that cleaned up meanwhile would remove it first.
pub static CLEANING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What a controller that is killed leaves goes away by itself, but for what the next start removes.
pub async fn killed_controller(name: &str) {
    let test = format!("{name}::controller_that_is_killed");
    let run = format!("test-killed-{name}-{}", std::process::id());
    let mut controller = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", &test])
        .env("FENCEPOST_TEST_RUN", &run)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines =
        BufReader::new(tokio::process::ChildStdout::from_std(controller.stdout.take().unwrap()).unwrap())
            .lines();
    while lines.next_line().await.unwrap().expect("the controller starts its cluster") != "it is up" {}
    assert_ne!(leftovers::of_run(name, &run).await, Vec::<String>::new());
    let _ = std::fs::remove_dir_all(logs(&run));
    let _alone = CLEANING.lock().await;
    controller.kill().unwrap();
    controller.wait().unwrap();
    match name {
        "docker" => {
            eventually("containers are gone", async || leftovers::containers(&run).await.is_empty()).await
        }
        _ => eventually("processes are gone", async || leftovers::of_local_run(&run).is_empty()).await,
    }
    // The run that comes next has the other driver.
    let next = driver(if name == "docker" { "local" } else { "docker" }).await;
    let others = others_go_on();
    let (cleaned, beside) = clean_up_before(&*next).await.unwrap();
    eventually("what is left is removed", async || leftovers::of_run(name, &run).await.is_empty()).await;
    let removed = [cleaned.lines(), beside.finish().await.lines()].concat();
    // Another run that begins just then removes it, too, and says so elsewhere.
    assert!(others || removed.iter().any(|line| line.contains(&run)), "{removed:?}");
}

/// Whether someone else uses Fencepost on this machine.
fn others_go_on() -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read_to_string(process.path().join("cmdline")).ok());
    let begins_runs = |line: String| {
        let mut words = line.split('\0');
        let program = words.next().and_then(|path| path.rsplit('/').next());
        program.is_some_and(|name| name.contains("fencepost"))
            && words.next().is_some_and(|command| ["test", "hunt", "compare", "scenario"].contains(&command))
    };
    lines.into_iter().any(begins_runs)
}

/// The controller of [`killed_controller`], in a process of its own.
pub async fn controller(name: &str) {
    let Ok(run) = std::env::var("FENCEPOST_TEST_RUN") else { return };
    let spec = ClusterSpec { logs: logs(&run), run, ..spec("killed", &[("n1", "redis"), ("c1", "client")]) };
    let driver = driver(name).await;
    let cluster = start(&*driver, &spec).await;
    let pid = start_redis(cluster.node("n1").unwrap()).await;
    cluster.node("n1").unwrap().signal(pid, SIGSTOP).await.unwrap();
    let _attached = cluster.node("c1").unwrap().attach(&["cat".to_owned()]).await.unwrap();
    println!("it is up");
    std::future::pending().await
}

/// Servers and clients cannot do what would let them out of their node, also where the agent may mount a
/// disk. The agent can do what faults need, and no more.
pub async fn programs_are_confined(name: &str) {
    let driver = driver(name).await;
    let mut spec = spec(&format!("confined-{name}"), &[("n1", "client"), ("n2", "client")]);
    spec.nodes[0].may_mount = true;
    let cluster = start(&*driver, &spec).await;
    let [node, without_mounts] = ["n1", "n2"].map(|name| cluster.node(name).unwrap());
    let argv =
        ["sh", "-c", "cat /proc/self/status > {data}/new && mv {data}/new {data}/status; exec sleep 60"];
    let service = Service {
        name: "look".to_owned(),
        argv: argv.map(str::to_owned).to_vec(),
        env: Vec::new(),
        refuses_root: false,
    };
    node.start(&service).await.unwrap();
    let of_service = async || node.get("{data}/status").await.map(|text| String::from_utf8(text).unwrap());
    eventually("the service has looked", async || of_service().await.is_ok()).await;
    let of_command = output(node, &["cat", "/proc/self/status"]).await;
    for status in [of_service().await.unwrap(), attached(node, "cat /proc/self/status").await, of_command] {
        for set in ["CapEff:", "CapPrm:", "CapBnd:", "CapInh:", "CapAmb:"] {
            // NET_ADMIN, NET_RAW, SYS_MODULE, SYS_RAWIO, SYS_PTRACE, SYS_ADMIN, SYS_BOOT, SYS_TIME, MKNOD,
            // and all later ones.
            let dangerous = |number: &u64| [12, 13, 16, 17, 19, 21, 22, 25].contains(number) || *number > 26;
            let held: Vec<u64> = held(&status, set).into_iter().filter(dangerous).collect();
            assert_eq!(held, Vec::<u64>::new(), "{set} of {status}");
        }
        assert_eq!((field(&status, "NoNewPrivs:"), field(&status, "Seccomp:")), ("1", "2"));
    }
    // Those of programs, SETPCAP, NET_ADMIN, NET_RAW, SYS_PTRACE; and SYS_ADMIN for mounts.
    let of_agent = vec![0, 1, 3, 4, 5, 6, 7, 8, 10, 12, 13, 19];
    for (node, more) in [(node, vec![21]), (without_mounts, vec![])] {
        let status = attached(node, "cat /proc/1/status").await;
        for set in ["CapEff:", "CapBnd:"] {
            assert_eq!(held(&status, set), [of_agent.clone(), more.clone()].concat(), "{set} of {status}");
        }
    }
    // What is masked takes what is written, and does nothing.
    let tries = "for try in 'mount -t tmpfs none /tmp' 'unshare --user true' 'unshare --mount true' 'mknod /tmp/disk b 254 0' \
         'echo core > /proc/sys/kernel/core_pattern' 'echo 1 > /proc/sys/kernel/sysrq' \
         'test ! -c /proc/sysrq-trigger && echo t > /proc/sysrq-trigger' \
         'iptables -A INPUT -j DROP' 'kill -9 1 && sleep 0.2 && ! test -d /proc/1' 'cat /proc/1/environ'; do \
         if sh -c \"$try\" > /dev/null 2>&1; then echo \"possible: $try\"; fi; done; echo tried";
    assert_eq!(attached(node, tries).await, "tried\n");
    let masked = "cd /proc; cat kcore keys kmsg latency_stats sched_debug timer_list 2> /dev/null | head -c 1; ls -A acpi scsi 2> /dev/null \
         | grep -v ':$' | head -c 1";
    assert_eq!(attached(node, masked).await.trim(), "");
    // What runs on this machine, and what lies in its memory.
    let ours = tempfile::Builder::new().prefix("of-this-machine").tempfile_in("/dev/shm").unwrap();
    let seen =
        attached(node, "cat /proc/*/cmdline | tr '\\0' ' '; ls -A /dev/shm; cut -c 1-20 /proc/sysvipc/shm")
            .await;
    let own_program = std::env::current_exe().unwrap();
    let own_program = own_program.file_name().unwrap().to_str().unwrap();
    for word in [own_program, ours.path().file_name().unwrap().to_str().unwrap()] {
        assert!(!seen.contains(word), "{word} is seen: {seen}");
    }
    if name == "local" {
        let devices = async |node: &Arc<dyn Node>| attached(node, "ls /dev | tr '\\n' ' '").await;
        assert_eq!(
            devices(node).await,
            "fd full fuse null ptmx pts random shm stderr stdin stdout tty urandom zero "
        );
        assert!(!devices(without_mounts).await.contains("fuse"));
        // What this machine's users and its own services keep to themselves.
        assert_eq!(
            attached(node, "ls -A /root /home 2>&1; cat /etc/shadow /etc/gshadow").await,
            "/home:\n\n/root:\n"
        );
    }
    stop(cluster, &spec).await;
}

/// What a script prints as an attached program.
async fn attached(node: &Arc<dyn Node>, script: &str) -> String {
    let Attached { stdin: _stdin, mut stdout } =
        node.attach(&["sh", "-c", script].map(str::to_owned)).await.unwrap();
    let mut text = String::new();
    stdout.read_to_string(&mut text).await.unwrap();
    text
}

/// A field of a process's status in /proc.
fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim()
}

/// The numbers of the capabilities in a set.
fn held(status: &str, set: &str) -> Vec<u64> {
    let held = u64::from_str_radix(field(status, set), 16).unwrap();
    (0..64).filter(|number| held & (1 << number) != 0).collect()
}

/// What the driver says that it offers was tried, and what every fault of the first slice needs is there.
pub async fn capabilities(name: &str) {
    let offered = driver(name).await.supports().await;
    for needed in [Capability::Signal, Capability::Ptrace, Capability::PacketFilter] {
        assert!(offered.contains(&needed), "{needed:?} is not among {offered:?}");
    }
}

/// Eleven nodes come up side by side, not one after the other, and no node is waited for until a limit is
/// over. The times are printed; the limits are several times what a machine takes that is busy with other
/// tests.
pub async fn fast(name: &str, up_max: Duration, down_max: Duration) {
    let driver = driver(name).await;
    let nodes = ["n1", "n2", "n3", "n4", "n5"].map(|name| (name, "redis"));
    let clients = ["storage", "c1", "c2", "c3", "c4", "c5"].map(|name| (name, "client"));
    let spec = spec(&format!("fast-{name}"), &[&nodes[..], &clients[..]].concat());
    // The first start makes images, if need be.
    stop(start(&*driver, &spec).await, &spec).await;
    let mut best = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        let begun = Instant::now();
        let cluster = start(&*driver, &spec).await;
        let up = begun.elapsed();
        stop(cluster, &spec).await;
        best = (best.0.min(up), best.1.min(begun.elapsed() - up));
    }
    println!("{name}: eleven nodes up in {:?}, down in {:?}", best.0, best.1);
    assert!(best.0 <= up_max && best.1 <= down_max, "up {:?}, down {:?}", best.0, best.1);
}
