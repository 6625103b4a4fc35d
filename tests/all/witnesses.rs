//! A second witness for every nemesis: a tool that Fencepost did not write sees the fault while it is in
//! force, and sees nothing of it before the injection and after the healing. docs/nemeses.md has the list.

mod clocks;
mod packets;

use crate::common::nodes::{self, Node, Nodes};
use crate::common::waiting::await_until;
use crate::common::{Ran, Running, root, under, written};
use crate::interrupted_runs::signal;
use crate::nemeses::listed;
use fencepost_history::Kind;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

under!(
    local: [proc_shows_a_paused_server_as_stopped, what_was_not_fsynced_is_gone_after_a_power_loss],
    local_by_night: [
        ps_shows_one_stopped_thread,
        proc_shows_a_server_that_mostly_stands_still,
        ss_finds_no_listener_of_a_killed_server,
        a_terminated_redis_has_saved_its_keys,
        proc_shows_another_process_of_each_server_after_a_rolling_restart,
        etcdctl_names_another_leader_when_the_leader_is_killed,
        etcdctl_names_another_leader_when_the_leader_is_paused,
        etcdctl_names_another_leader_after_a_failover,
        etcdctl_lists_two_members_while_one_is_removed,
        srvr_is_answered_by_two_servers_while_one_is_removed,
        another_shard_has_the_slot_that_moved,
        redis_cli_gets_the_error_reply,
        redis_cli_finds_no_script_after_a_flush,
        redis_cli_finds_its_key_evicted,
        dd_finds_no_space_on_a_full_disk,
        dd_waits_for_a_slow_fsync,
        dd_meets_the_errors_of_a_failing_disk,
        redis_cli_reads_what_a_command_set,
    ],
    docker: [],
    docker_by_night: [
        proc_shows_a_paused_server_as_stopped,
        what_was_not_fsynced_is_gone_after_a_power_loss,
        ps_shows_one_stopped_thread,
        proc_shows_a_server_that_mostly_stands_still,
        ss_finds_no_listener_of_a_killed_server,
        a_terminated_redis_has_saved_its_keys,
        proc_shows_another_process_of_each_server_after_a_rolling_restart,
        etcdctl_names_another_leader_when_the_leader_is_killed,
        etcdctl_names_another_leader_when_the_leader_is_paused,
        etcdctl_names_another_leader_after_a_failover,
        etcdctl_lists_two_members_while_one_is_removed,
        srvr_is_answered_by_two_servers_while_one_is_removed,
        another_shard_has_the_slot_that_moved,
        redis_cli_gets_the_error_reply,
        redis_cli_finds_no_script_after_a_flush,
        redis_cli_finds_its_key_evicted,
        dd_finds_no_space_on_a_full_disk,
        dd_waits_for_a_slow_fsync,
        dd_meets_the_errors_of_a_failing_disk,
        redis_cli_reads_what_a_command_set,
    ],
);

/// Servers whose client acquires when it may: folders of `tests/locks`.
const ON_REDIS: &str = "gated-redis";
const ON_ETCD: &str = "gated-etcd";

const ON_CLUSTER: &str = "gated-cluster";
const ON_ZOOKEEPER: &str = "gated-zookeeper";

const SERVERS: [&str; 3] = ["n1", "n2", "n3"];

/// Plays a run with one fault, and lets `sees` look with a tool: whether it sees the fault. It must do so at
/// once while the fault is in force, which its second argument says, and come to see nothing of it before the
/// injection and after the healing. No clock decides that: the fault begins with the client's first acquire
/// and ends with its second, and the client acquires when this function lets it.
fn watch(
    driver: &str,
    lock: &str,
    fault: &str,
    parameters: &str,
    mut sees: impl FnMut(&Nodes, bool) -> bool,
) {
    let plan = written(&format!(
        "[[fault]]\nwhen = 'any acquire'\nuntil = 'any acquire'\nfor = '3000s'\nfault = '{fault}'\n{parameters}\n"
    ));
    let results = tempfile::tempdir().expect("a temporary folder");
    // Its target is c1, whose own acquires do not end it.
    let of_names = fault == "dns";
    let (by_name, clients) = if of_names { ("--by-name", 2) } else { ("", 1) };
    let args = format!(
        "test {by_name} --driver {driver} --lock {}/tests/locks/{lock} --nemesis-file {} --results {} \
         --clients {clients} --concurrency {clients} --workload lock --hold 1ms --ttl 2s --acquire-timeout 3000s --time-limit 3000s",
        root(),
        plan.path().display(),
        results.path().display()
    );
    let mut running = Running::start(&args.split_whitespace().collect::<Vec<_>>());
    await_event(&mut running, results.path(), &["\"invoke\"", "\"f\":\"acquire\""]);
    let nodes = nodes::of(&mut running);
    let grant = |client: &str, number: u32| {
        let file = nodes[client].path(&format!("/tmp/grant-{number}"));
        std::fs::write(file, "").expect("the client's node is there");
    };
    let of_fault = format!("\"f\":\"{fault}\"");
    await_until(&format!("nothing is seen of {fault} before its injection"), || !sees(&nodes, false));
    grant("c1", 1);
    await_event(&mut running, results.path(), &[&of_fault, "\"stage\":\"inject\"", "\"effective\""]);
    assert!(sees(&nodes, true), "{fault} is in force, and is not seen");
    if of_names {
        grant("c2", 1)
    } else {
        grant("c1", 2)
    }
    await_event(&mut running, results.path(), &[&of_fault, "\"stage\":\"heal\"", "\"ok\""]);
    await_until(&format!("nothing is seen of {fault} after its healing"), || !sees(&nodes, false));
    signal(&mut running, Signal::SIGINT);
    let ran = Ran::new(running.finish(), results);
    let injected = ran.stages("inject", Kind::Ok);
    assert_eq!(injected.len(), 1, "{}", ran.stderr);
    // Whether Fencepost takes a line for slow depends on what else the machine does.
    assert!(fault == "slow" || injected[0]["effective"] == true, "only one of two saw it: {injected:?}");
}

/// Waits until a line of the history has all these words. Fails if the run ends before.
fn await_event(running: &mut Running, results: &Path, words: &[&str]) {
    let history = results.join("latest/history.jsonl");
    await_until(&format!("an event with {words:?}"), || {
        let ended = running.child().try_wait().expect("it is ours");
        assert!(ended.is_none(), "the run ended before it had an event with {words:?}: {ended:?}");
        let text = std::fs::read_to_string(&history).unwrap_or_default();
        text.lines().any(|line| words.iter().all(|word| line.contains(word)))
    });
}

fn proc_shows_a_paused_server_as_stopped(driver: &str) {
    watch(driver, ON_REDIS, "pause", "on = ['n1']", |nodes, _| {
        let states = nodes["n1"].states("redis-server");
        assert_eq!(states.len(), 1, "{states:?}");
        states[0].1 == 'T'
    });
}

/// The state of each thread, as `ps` prints it: `t` is stopped by a tracer.
fn ps_shows_one_stopped_thread(driver: &str) {
    watch(driver, ON_REDIS, "thread-pause", "on = ['n1']\nthread = 'main'", |nodes, _| {
        let threads = nodes["n1"].run(&["ps", "-eL", "-o", "stat=,comm="]);
        let stands = |name: &str| {
            let mut states = threads.lines().filter(|line| line.contains(name)).peekable();
            assert!(states.peek().is_some(), "no thread {name} in {threads}");
            states.all(|line| line.starts_with('t'))
        };
        assert!(!stands("bio_"), "a thread of Redis that nothing stopped: {threads}");
        stands("redis-server")
    });
}

/// Of a hundred looks.
fn proc_shows_a_server_that_mostly_stands_still(driver: &str) {
    watch(driver, ON_REDIS, "cpu", "on = ['n1']\nshare = 0.1", |nodes, _| {
        let looks =
            (0..100).filter(|_| nodes["n1"].states("redis-server").iter().any(|(_, state)| *state == 'T'));
        looks.count() > 50
    });
}

fn ss_finds_no_listener_of_a_killed_server(driver: &str) {
    let mut processes = BTreeSet::new();
    watch(driver, ON_REDIS, "kill", "on = ['n1']", |nodes, _| {
        let is_listening = nodes["n1"].run(&["ss", "-Hltn"]).contains(":6379");
        let states = nodes["n1"].states("redis-server");
        processes.extend(states.iter().map(|(process, _)| *process));
        assert_eq!(states.is_empty(), !is_listening, "{states:?}");
        !is_listening
    });
    assert_eq!(processes.len(), 2, "one before and another one after the fault: {processes:?}");
}

/// One that is killed saves nothing.
fn a_terminated_redis_has_saved_its_keys(driver: &str) {
    let save = "redis-cli CONFIG SET save '3600 1' && redis-cli SET by-hand 1";
    watch(driver, ON_REDIS, "terminate", "on = ['n1']", |nodes, _| {
        let is_listening = nodes["n1"].run(&["ss", "-Hltn"]).contains(":6379");
        if is_listening {
            nodes["n1"].run(&["sh", "-c", save]);
        }
        !is_listening && nodes["n1"].run(&["sh", "-c", "ls /data/*.rdb"]).contains(".rdb")
    });
}

fn proc_shows_another_process_of_each_server_after_a_rolling_restart(driver: &str) {
    let mut before = BTreeSet::new();
    watch(driver, ON_ETCD, "rolling", "on = ['n1', 'n2', 'n3']", |nodes, in_force| {
        let now = SERVERS.iter().flat_map(|name| nodes[*name].states("etcd"));
        let now: BTreeSet<u32> = now.map(|(process, _)| process).collect();
        assert_eq!(now.len(), 3, "{now:?}");
        let all_new = in_force && now.is_disjoint(&before);
        before = now;
        all_new
    });
}

/// The node that leads, and the term, where it answers and all members that answer agree on it.
fn leader(nodes: &Nodes) -> Option<(&'static str, u64)> {
    let all = SERVERS.into_iter().filter_map(|name| Some((name, member(&nodes[name])?)));
    let all: Vec<(&'static str, Member)> = all.collect();
    let (_, first) = all.first()?;
    let is_same = |other: &Member| (other.leader, other.term) == (first.leader, first.term);
    let (name, _) = all.iter().find(|(_, member)| member.id == first.leader)?;
    (all.len() > 1 && all.iter().all(|(_, member)| is_same(member))).then_some((*name, first.term))
}

/// The status of a member of etcd.
struct Member {
    id: u64,
    leader: u64,
    term: u64,
}

/// None where it does not answer.
fn member(node: &Node) -> Option<Member> {
    let endpoint = format!("--endpoints=http://{}:2379", node.address());
    let words = ["etcdctl", "--command-timeout=2s", &endpoint, "endpoint", "status", "--write-out=json"];
    let answer = node.command(&words).output().expect("the command nsenter");
    let answer: Value = serde_json::from_slice(&answer.stdout).ok()?;
    let status = &answer[0]["Status"];
    let id = status["header"]["member_id"].as_u64()?;
    Some(Member { id, leader: status["leader"].as_u64()?, term: status["raftTerm"].as_u64()? })
}

/// Another member came to lead after this one. An election raises the term by one: where it was raised by
/// more, there was an election before the fault, too, and the fault hit the leader of that one.
fn followed(was: Option<(&str, u64)>, hit: Option<&str>, now: (&str, u64)) -> bool {
    let (name, term) = was.expect("it was looked at before");
    now.1 > term && (now.1 > term + 1 || (now.0 != name && hit.is_none_or(|hit| hit == name)))
}

/// The process of one member is as `is_hit` says, and the others have another leader.
fn another_member_leads(driver: &str, fault: &str, is_hit: fn(&[(u32, char)]) -> bool) {
    let mut was = None;
    watch(driver, ON_ETCD, fault, "on = ['leader']", |nodes, in_force| {
        let hit = SERVERS.into_iter().filter(|name| is_hit(&nodes[*name].states("etcd")));
        let hit: Vec<&str> = hit.collect();
        if !in_force {
            was = leader(nodes);
            return !hit.is_empty() || was.is_none();
        }
        assert_eq!(hit.len(), 1, "{hit:?}");
        followed(was, Some(hit[0]), await_leader(nodes))
    });
}

fn await_leader(nodes: &Nodes) -> (&'static str, u64) {
    let mut found = None;
    await_until("the members that answer agree on a leader among them", || {
        found = leader(nodes);
        found.is_some()
    });
    found.expect("it was waited for")
}

fn etcdctl_names_another_leader_when_the_leader_is_killed(driver: &str) {
    another_member_leads(driver, "leader-kill", <[_]>::is_empty);
}

fn etcdctl_names_another_leader_when_the_leader_is_paused(driver: &str) {
    another_member_leads(driver, "leader-pause", |states| states.iter().any(|(_, state)| *state == 'T'));
}

/// No member ends or stops.
fn etcdctl_names_another_leader_after_a_failover(driver: &str) {
    let mut was = None;
    let mut processes = BTreeSet::new();
    watch(driver, ON_ETCD, "failover", "on = ['leader']", |nodes, in_force| {
        let states: Vec<(u32, char)> = SERVERS.iter().flat_map(|name| nodes[*name].states("etcd")).collect();
        assert!(states.len() == 3 && states.iter().all(|(_, state)| *state != 'T'), "{states:?}");
        processes.extend(states.iter().map(|(process, _)| *process));
        if !in_force {
            was = leader(nodes);
            return was.is_none();
        }
        followed(was, None, await_leader(nodes))
    });
    assert_eq!(processes.len(), 3, "{processes:?}");
}

/// The one that comes back is another process.
fn etcdctl_lists_two_members_while_one_is_removed(driver: &str) {
    let mut processes = BTreeSet::new();
    watch(driver, ON_ETCD, "member", "on = ['n3']", |nodes, in_force| {
        let endpoint = format!("--endpoints=http://{}:2379", nodes["n1"].address());
        let listed = nodes["n1"].run(&["etcdctl", "--command-timeout=2s", &endpoint, "member", "list"]);
        let members = listed.lines().filter(|line| line.contains("started")).count();
        let own: Vec<u32> = nodes["n3"].states("etcd").iter().map(|(process, _)| *process).collect();
        processes.extend(own.iter().copied());
        assert!(!in_force || own.is_empty(), "{own:?}");
        assert!(!in_force || !listed.contains("n3"), "{listed}");
        members != 3 || own.is_empty()
    });
    assert_eq!(processes.len(), 2, "{processes:?}");
}

/// The file of the members, which each server of ZooKeeper writes when they change.
fn srvr_is_answered_by_two_servers_while_one_is_removed(driver: &str) {
    let mut processes = BTreeSet::new();
    watch(driver, ON_ZOOKEEPER, "member", "on = ['n3']", |nodes, in_force| {
        let ask = "exec 3<>/dev/tcp/127.0.0.1/2181 && printf srvr >&3 && grep -c Mode: <&3";
        let answers = |name: &str| nodes[name].run(&["bash", "-c", ask]).trim() == "1";
        let dynamic = "cat $(sed -n 's/^dynamicConfigFile=//p' /data/zookeeper/zoo.cfg)";
        let listed = nodes["n1"].run(&["sh", "-c", dynamic]);
        let own: Vec<u32> = nodes["n3"].states("java").iter().map(|(process, _)| *process).collect();
        processes.extend(own.iter().copied());
        let is_listed = listed.contains(&nodes["n3"].address());
        assert!(!in_force || (own.is_empty() && !is_listed && answers("n1")), "{own:?}: {listed}");
        !is_listed || !answers("n3")
    });
    assert_eq!(processes.len(), 2, "{processes:?}");
}

/// The slot of the locks is 8718, of the second shard, whose primary is n2.
fn another_shard_has_the_slot_that_moved(driver: &str) {
    watch(driver, ON_CLUSTER, "reconfigure", "on = ['leader']\nchange = 'slot'", |nodes, _| {
        let slots = nodes["n1"].run(&["redis-cli", "CLUSTER", "SLOTS"]);
        let words: Vec<&str> = slots.split_whitespace().collect();
        let holders = words.windows(3).filter(|range| {
            let slot = |word: &str| word.parse::<u32>().ok().filter(|slot| *slot < 16384);
            let ends = (slot(range[0]), slot(range[1]));
            matches!(ends, (Some(first), Some(last)) if (first..=last).contains(&8718))
                && range[2].contains('.')
        });
        let holders: Vec<&str> = holders.map(|range| range[2]).collect();
        assert_eq!(holders.len(), 1, "{slots}");
        holders[0] != nodes["n2"].address()
    });
}

fn redis_cli_gets_the_error_reply(driver: &str) {
    watch(driver, ON_REDIS, "error-replies", "on = ['n1']\nreply = 'oom'", |nodes, _| {
        let answer = nodes["n1"].run(&["redis-cli", "SET", "written-by-hand", "1"]);
        let is_refused = answer.starts_with("OOM ");
        assert_ne!(is_refused, answer.starts_with("OK"), "{answer}");
        is_refused
    });
}

/// A script of its own, which it loads while the fault is not in force.
fn redis_cli_finds_no_script_after_a_flush(driver: &str) {
    watch(driver, ON_REDIS, "script-flush", "on = ['n1']", |nodes, in_force| {
        let redis = |words: &[&str]| nodes["n1"].run(&[&["redis-cli"], words].concat()).trim().to_owned();
        let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"; // sha1sum of the script
        if !in_force {
            assert_eq!(redis(&["SCRIPT", "LOAD", "return 1"]), digest);
        }
        redis(&["SCRIPT", "EXISTS", digest]) == "0"
    });
}

/// A hundred keys, so that some are among those that the server drops.
fn redis_cli_finds_its_key_evicted(driver: &str) {
    let write = "for i in $(seq 100); do echo SET by-hand-$i 1 EX 3600; done | redis-cli >/dev/null";
    watch(driver, ON_REDIS, "evict", "on = ['n1']\npolicy = 'volatile-random'", |nodes, in_force| {
        if !in_force {
            nodes["n1"].run(&["sh", "-c", write]);
        }
        nodes["n1"].run(&["redis-cli", "KEYS", "by-hand-*"]).lines().count() < 100
    });
}

/// While it is not in force, a file is written without fsync: it must be there for the next look.
fn what_was_not_fsynced_is_gone_after_a_power_loss(driver: &str) {
    let write = "printf durable | dd of=/data/durable conv=fsync && printf lost | dd of=/data/lost";
    watch(driver, ON_REDIS, "power-loss", "on = ['n1']", |nodes, in_force| {
        let node = &nodes["n1"];
        if !in_force {
            node.run(&["sh", "-c", write]);
        }
        assert_eq!(node.run(&["cat", "/data/durable"]), "durable");
        node.run(&["cat", "/data/lost"]) != "lost"
    });
}

fn dd_finds_no_space_on_a_full_disk(driver: &str) {
    let write = "dd if=/dev/zero of=/data/by-hand bs=4096 count=10; rm /data/by-hand";
    watch(driver, ON_REDIS, "disk-full", "on = ['n1']\nbytes_left = 100", |nodes, _| {
        let text = nodes["n1"].run(&["sh", "-c", write]);
        let is_full = text.contains("No space left on device");
        assert_ne!(is_full, text.contains("40960 bytes"), "{text}");
        is_full
    });
}

/// By its own clock, from `4096 bytes (4.1 kB, 4.0 KiB) copied, 0.301686 s, 13.6 kB/s`.
fn dd_waits_for_a_slow_fsync(driver: &str) {
    let write = ["dd", "if=/dev/zero", "of=/data/by-hand", "bs=4096", "count=1", "conv=fsync"];
    watch(driver, ON_REDIS, "disk-slow", "on = ['n1']\nfsync = '300ms'", |nodes, _| {
        let text = nodes["n1"].run(&write);
        let took = text.split("copied, ").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
        took.unwrap_or_else(|| panic!("dd printed: {text}")) >= 0.3
    });
}

fn dd_meets_the_errors_of_a_failing_disk(driver: &str) {
    let write = ["dd", "if=/dev/zero", "of=/data/by-hand", "bs=4096", "count=1", "conv=fsync"];
    watch(driver, ON_REDIS, "disk-error", "on = ['n1']\ncall = 'fsync'\nshare = 1.0", |nodes, _| {
        let text = nodes["n1"].run(&write);
        let failed = text.contains("Input/output error");
        assert_ne!(failed, text.contains("4096 bytes"), "{text}");
        failed
    });
}

/// Its setting is looked at by `grep` for the fault, and by the test itself.
fn redis_cli_reads_what_a_command_set(driver: &str) {
    let set = |value: u32| format!("redis-cli CONFIG SET hz {value}");
    let observe = "sh -c 'redis-cli CONFIG GET hz | grep -qx 77'";
    let plan = format!(
        "on = ['n1']\nplace = 'node'\ninject = \"{}\"\nheal = \"{}\"\nobserve = \"{observe}\"",
        set(77),
        set(10)
    );
    watch(driver, ON_REDIS, "command", &plan, |nodes, _| {
        nodes["n1"].run(&["redis-cli", "CONFIG", "GET", "hz"]).contains("77")
    });
}

/// Each row of the table in docs/nemeses.md begins with a nemesis and ends with one of these tests.
#[test]
fn every_nemesis_has_a_second_witness() {
    let page = include_str!("../../docs/nemeses.md");
    let sources = [
        include_str!("witnesses.rs"),
        include_str!("witnesses/clocks.rs"),
        include_str!("witnesses/packets.rs"),
    ];
    let rows = page.lines().skip_while(|line| !line.starts_with("| nemesis | second witness"));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    let mut named = BTreeSet::new();
    for row in rows {
        let words: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let (nemesis, test) = (words[0], words[words.len() - 1]);
        assert!(sources.iter().any(|source| source.contains(&format!("fn {test}(driver: &str)"))), "{row}");
        named.insert(nemesis.to_owned());
    }
    assert_eq!(named, listed());
}
