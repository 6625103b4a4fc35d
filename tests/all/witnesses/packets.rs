//! What `ping`, `ss`, `redis-cli` and `getent` see of faults of packets and names.

use super::{ON_REDIS, watch};
use crate::common::nodes::{Nodes, printed};
use crate::common::under;
use crate::common::waiting::await_until;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

under!(
    local: [ping_gets_no_answer_across_a_partition],
    local_by_night: [
        ping_takes_as_long_as_a_delay,
        ping_waits_for_a_slow_line,
        ping_misses_lost_answers,
        ping_gets_answers_twice,
        ping_gets_answers_in_another_order,
        ss_shows_the_request_that_a_stall_holds_back,
        ss_shows_a_connection_that_was_forgotten,
        redis_cli_is_reset,
        getent_finds_the_address_of_another_server,
    ],
    docker: [],
    docker_by_night: [
        ping_gets_no_answer_across_a_partition,
        ping_takes_as_long_as_a_delay,
        ping_waits_for_a_slow_line,
        ping_misses_lost_answers,
        ping_gets_answers_twice,
        ping_gets_answers_in_another_order,
        ss_shows_the_request_that_a_stall_holds_back,
        ss_shows_a_connection_that_was_forgotten,
        redis_cli_is_reset,
        getent_finds_the_address_of_another_server,
    ],
);

/// What `ping`, a program of the client's node, prints in the network of n1 about the way to n2.
fn ping(nodes: &Nodes, words: &str) -> String {
    let to = nodes["n2"].address();
    let argv: Vec<&str> = ["ping", "-n"].into_iter().chain(words.split(' ')).chain([to.as_str()]).collect();
    printed(&mut nodes["c1"].command_in_network(&nodes["n1"], &argv))
}

/// So many packets, in so short a time, that they can overtake each other. Where each is hit with a chance of
/// one half, a burst in which none is hit comes once in 10^18.
const BURST: &str = "-c 60 -i 0.005 -W 10";

/// From `60 packets transmitted, 17 received, 71.6667% packet loss`.
fn received(text: &str) -> u32 {
    let before = text.split(" received").next().and_then(|before| before.rsplit(' ').next());
    before.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("ping printed: {text}"))
}

/// The shortest round trip in milliseconds, from `rtt min/avg/max/mdev = 800.700/800.748/800.832/0.059 ms`.
fn least_ms(text: &str) -> f64 {
    let least = text.split("mdev = ").nth(1).and_then(|times| times.split('/').next());
    least.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("ping printed: {text}"))
}

fn ping_gets_no_answer_across_a_partition(driver: &str) {
    watch(driver, ON_REDIS, "partition", "groups = 'n1|n2'", |nodes, _| {
        received(&ping(nodes, "-c 3 -i 0.2 -W 1")) == 0
    });
}

fn ping_takes_as_long_as_a_delay(driver: &str) {
    watch(driver, ON_REDIS, "delay", "on = ['n1']\npeers = ['n2']\ndelay = '400ms'", |nodes, _| {
        least_ms(&ping(nodes, "-c 3 -i 0.2 -W 10")) >= 790.0
    });
}

/// 1442 bytes at 64 kbit/s take 180 ms, there and back.
fn ping_waits_for_a_slow_line(driver: &str) {
    watch(driver, ON_REDIS, "slow", "on = ['n1']\npeers = ['n2']\nrate_kbit = 64", |nodes, _| {
        least_ms(&ping(nodes, "-c 3 -i 0.2 -s 1400 -W 10")) >= 350.0
    });
}

fn ping_misses_lost_answers(driver: &str) {
    watch(driver, ON_REDIS, "loss", "on = ['n1']\npeers = ['n2']\nloss = 0.5", |nodes, in_force| {
        let received = received(&ping(nodes, BURST));
        assert!(!in_force || received > 0, "all were lost");
        received < 60
    });
}

fn ping_gets_answers_twice(driver: &str) {
    watch(driver, ON_REDIS, "duplicate", "on = ['n1']\npeers = ['n2']\nduplicate = 0.5", |nodes, _| {
        ping(nodes, BURST).contains("DUP!")
    });
}

fn ping_gets_answers_in_another_order(driver: &str) {
    let parameters = "on = ['n1']\npeers = ['n2']\ndelay = '200ms'\nreorder = 0.3";
    watch(driver, ON_REDIS, "reorder", parameters, |nodes, _| {
        let text = ping(nodes, BURST);
        let numbers = text.lines().filter_map(|line| line.split("icmp_seq=").nth(1)?.split(' ').next());
        let numbers: Vec<u32> = numbers.map(|number| number.parse().expect("a number")).collect();
        assert_eq!(numbers.len(), 60, "{text}");
        !numbers.is_sorted()
    });
}

/// `redis-cli` in n1 with an open connection to n2.
struct Connection {
    process: Child,
    answers: Receiver<String>,
}

impl Connection {
    fn open(nodes: &Nodes) -> Connection {
        let to = nodes["n2"].address();
        let mut command = nodes["n1"].command(&["redis-cli", "-h", &to]);
        let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process = process.expect("the command nsenter");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let (sender, answers) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Connection { process, answers }
    }

    fn ask(&mut self, word: &str) {
        writeln!(self.process.stdin.as_mut().expect("piped"), "PING {word}").expect("redis-cli reads");
    }

    fn ask_and_await(&mut self, word: &str) {
        self.ask(word);
        self.await_answer(word);
    }

    fn await_answer(&mut self, word: &str) {
        await_until(&format!("redis-cli prints {word}"), || match self.answers.try_recv() {
            Ok(answer) => answer == word,
            Err(TryRecvError::Empty) => false,
            Err(TryRecvError::Disconnected) => panic!("redis-cli ended"),
        });
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // `redis-cli` in the node ends with its input, or with the node.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// For longer than any test lasts: of two requests the second stays in the kernel's queue of what was not
/// acknowledged, and goes on with the healing. The connection is older than the fault, which holds back the
/// packets that open one, too.
fn ss_shows_the_request_that_a_stall_holds_back(driver: &str) {
    let parameters = "on = ['n1']\npeers = ['n2']\nways = 'out'\ndelay = '240s'\npass_first = 1";
    let mut connection: Option<Connection> = None;
    watch(driver, ON_REDIS, "stall", parameters, |nodes, in_force| {
        if in_force {
            let open = connection.as_mut().expect("it was opened before the fault");
            open.ask_and_await("first");
            open.ask("second");
            await_until("ss shows bytes that n2 has not acknowledged", || {
                let sockets = nodes["n1"].run(&["ss", "-Htn", "state", "established", "dport", "=", ":6379"]);
                let queued = |line: &str| line.split_whitespace().nth(1)?.parse::<u32>().ok();
                sockets.lines().filter_map(queued).any(|bytes| bytes > 0)
            });
            return open.answers.try_recv() == Err(TryRecvError::Empty);
        }
        match connection.take() {
            None => connection.insert(Connection::open(nodes)).ask_and_await("before"),
            Some(mut open) => {
                open.await_answer("second");
                open.ask_and_await("afterwards");
            }
        }
        false
    });
}

/// Over the old connection nothing is answered any more, and its requests are never acknowledged.
fn ss_shows_a_connection_that_was_forgotten(driver: &str) {
    let parameters = "on = ['n1']\npeers = ['n2']\nidle = '1ms'";
    let mut connection: Option<Connection> = None;
    watch(driver, ON_REDIS, "half-open", parameters, |nodes, in_force| {
        let to = nodes["n2"].address();
        assert!(
            nodes["n1"].run(&["redis-cli", "-h", &to, "PING"]).contains("PONG"),
            "a new connection works"
        );
        if in_force {
            let open = connection.as_mut().expect("it was opened before the fault");
            open.ask("forgotten");
            await_until("ss shows bytes that n2 has not acknowledged", || {
                let sockets = nodes["n1"].run(&["ss", "-Htn", "state", "established", "dport", "=", ":6379"]);
                let queued = |line: &str| line.split_whitespace().nth(1)?.parse::<u32>().ok();
                sockets.lines().filter_map(queued).any(|bytes| bytes > 0)
            });
            return open.answers.try_recv() == Err(TryRecvError::Empty);
        }
        match connection.take() {
            None => connection.insert(Connection::open(nodes)).ask_and_await("before"),
            Some(mut open) => open.await_answer("forgotten"),
        }
        false
    });
}

fn redis_cli_is_reset(driver: &str) {
    watch(driver, ON_REDIS, "reset", "on = ['n1']\npeers = ['n2']\nways = 'out'\nreset = 1.0", |nodes, _| {
        let to = nodes["n2"].address();
        let answer = nodes["n1"].run(&["redis-cli", "-h", &to, "PING"]);
        let is_reset = answer.contains("Connection reset by peer");
        assert_ne!(is_reset, answer.contains("PONG"), "{answer}");
        is_reset
    });
}

/// In the client's node, which resolves names for programs of its own.
fn getent_finds_the_address_of_another_server(driver: &str) {
    watch(driver, ON_REDIS, "dns", "on = ['c1']\nnames = ['n1']\nanswer = 'n2'", |nodes, _| {
        let found = nodes["c1"].run(&["getent", "hosts", "n1"]);
        let found = found.split_whitespace().next().unwrap_or_default();
        let is_wrong = found == nodes["n2"].address();
        assert_ne!(is_wrong, found == nodes["n1"].address(), "{found}");
        is_wrong
    });
}
