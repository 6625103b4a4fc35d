//! What each kind of fault did, and how it ended, in one clause.

use super::{and, was};
use crate::run_index::Fault;
use crate::verdict::seconds;
use serde_json::Value;

/// What a fault did, in one clause: "the clock of n3 jumped forward by 60.000 s".
pub fn describe_fault(fault: &Fault) -> String {
    let targets = and(&fault.targets);
    let was = was(&fault.targets);
    match fault.name {
        "clock-jump" => jumps(fault),
        "clock-drift" => {
            let percent = number(fault.asked, "drift_ppm").unwrap_or(0.0) / 1e4;
            let (way, size) = if percent < 0.0 { ("slow", -percent) } else { ("fast", percent) };
            let how = match fault.asked["model"].as_str() {
                Some("periodic") => ", in waves",
                Some("step") => ", in steps",
                Some("non-ideal") => ", unsteadily",
                _ => "",
            };
            format!("the {} of {targets} began to run up to {size:.1} % too {way}{how}", clock(fault))
        }
        "clock-strobe" => {
            let size_ms = number(fault.asked, "size_ms").unwrap_or(0.0);
            let size = seconds((size_ms.abs() * 1e6) as u64);
            let way = if size_ms < 0.0 { "back" } else { "forward" };
            format!(
                "the {} of {targets} began to jump {way} by {size} and return, over and over",
                clock(fault)
            )
        }
        "clock-freeze" => format!("the {} of {targets} stood still", clock(fault)),
        "pause" | "leader-pause" => match number(fault.asked, "stop_ms").zip(number(fault.asked, "run_ms")) {
            Some((stop, run)) => {
                format!(
                    "{targets} {was} stopped again and again (SIGSTOP), for {stop} ms with {run} ms in between"
                )
            }
            None => format!("{targets} {was} stopped (SIGSTOP)"),
        },
        "kill" | "leader-kill" => format!("{targets} {was} killed (SIGKILL)"),
        "power-loss" => {
            format!("{targets} lost power: the process was killed, and what its disk had not fsynced dropped")
        }
        "partition" => cut(fault, &targets),
        "delay" => between(fault, &targets, &delayed(fault.asked)),
        "loss" => {
            let share = percent(fault.asked, "loss");
            let bursts = number(fault.asked, "loss_correlation").is_some_and(|correlation| correlation > 0.0);
            between(fault, &targets, &format!("{share} were lost{}", if bursts { ", in bursts" } else { "" }))
        }
        "duplicate" => between(fault, &targets, &format!("{} came twice", percent(fault.asked, "duplicate"))),
        "reorder" => {
            let share = percent(fault.asked, "reorder");
            between(fault, &targets, &format!("{share} overtook the others, which were held back"))
        }
        "slow" => match number(fault.asked, "rate_kbit") {
            Some(rate) => between(fault, &targets, &format!("no more than {rate} kbit passed a second")),
            None => unknown(fault, &targets),
        },
        "disk-full" => match number(fault.asked, "bytes_left") {
            Some(left) if left > 0.0 => format!("the disk of {targets} had only {left} bytes left"),
            _ => format!("the disk of {targets} was full"),
        },
        "disk-slow" => format!("the disk of {targets} was slow: {}", slowed(fault.asked)),
        _ => unknown(fault, &targets),
    }
}

/// How a fault ended, in one clause.
pub(super) fn describe_healing(fault: &Fault) -> String {
    let targets = and(&fault.targets);
    match fault.name {
        "pause" | "leader-pause" => format!("{targets} ran again"),
        "kill" | "leader-kill" | "power-loss" => format!("{targets} {} started again", was(&fault.targets)),
        "partition" => "the network was whole again".to_owned(),
        "delay" | "loss" | "duplicate" | "reorder" | "slow" => {
            format!("the network around {targets} was as before")
        }
        "disk-full" => format!("the disk of {targets} had room again"),
        "disk-slow" => format!("the disk of {targets} was as fast as before"),
        name if name.starts_with("clock-") => format!("the clock of {targets} was set right"),
        name => format!("the fault {name} on {targets} was healed"),
    }
}

/// Which clock a fault moved.
fn clock(fault: &Fault) -> &'static str {
    match fault.asked["clock"].as_str() {
        Some("both") => "clock",
        Some("monotonic") => "monotonic clock",
        _ => "wall clock",
    }
}

/// Less is how well a clock can be read.
const LEAST_MS: f64 = 5.0;

fn unknown(fault: &Fault, targets: &str) -> String {
    let seen = if fault.observed.is_null() { fault.asked } else { fault.observed };
    format!("the fault {} struck {targets}: {seen}", fault.name)
}

fn number(value: &Value, name: &str) -> Option<f64> {
    value.get(name)?.as_f64()
}

/// "30 % of the packets".
fn percent(asked: &Value, name: &str) -> String {
    match number(asked, name) {
        Some(share) => format!("{} % of the packets", (share * 1000.0).round() / 10.0),
        None => "some of the packets".to_owned(),
    }
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// "of the packets from c1 to n1 and n2, …".
fn between(fault: &Fault, targets: &str, what: &str) -> String {
    let peers = names(&fault.asked["peers"]);
    let peers = if peers.is_empty() { "everyone else".to_owned() } else { and(&peers) };
    let way = match fault.asked["ways"].as_str() {
        Some("out") => format!("from {targets} to {peers}"),
        Some("in") => format!("from {peers} to {targets}"),
        _ => format!("between {targets} and {peers}"),
    };
    format!("on the way {way}, {what}")
}

fn delayed(asked: &Value) -> String {
    let Some(delay) = number(asked, "delay_ms") else { return "packets were held back".to_owned() };
    match number(asked, "jitter_ms").filter(|jitter| *jitter > 0.0) {
        Some(jitter) => format!("each packet was held back for {delay} ms, give or take {jitter} ms"),
        None => format!("each packet was held back for {delay} ms"),
    }
}

/// "each fsync took 50 ms longer, each write 5 ms".
fn slowed(asked: &Value) -> String {
    let of = [("fsync_ms", "fsync"), ("write_ms", "write"), ("read_ms", "read")];
    let slow: Vec<String> = of
        .into_iter()
        .filter_map(|(name, what)| Some((number(asked, name).filter(|ms| *ms > 0.0)?, what)))
        .map(|(ms, what)| format!("each {what} took {ms} ms longer"))
        .collect();
    if slow.is_empty() { "each operation took longer".to_owned() } else { slow.join(", ") }
}

/// Who lost whose packets.
fn cut(fault: &Fault, targets: &str) -> String {
    let groups = fault.asked["groups"].as_array().map_or(&[][..], Vec::as_slice);
    let groups: Vec<String> = groups.iter().map(|group| and(&names(group))).collect();
    let deaf = fault.asked["deaf"].as_object();
    match (&groups[..], fault.asked["one_way"].as_str(), deaf) {
        ([first, second], Some("to-first"), _) => {
            format!("packets from {second} to {first} were lost, and only those")
        }
        ([first, second], Some(_), _) => {
            format!("packets from {first} to {second} were lost, and only those")
        }
        ([_, ..], ..) => format!("the network was cut between {}", groups.join(" | ")),
        ([], _, Some(deaf)) if !deaf.is_empty() => {
            let lost = |(node, others): (&String, &Value)| {
                format!("{node} lost what came from {}", and(&names(others)))
            };
            deaf.iter().map(lost).collect::<Vec<_>>().join("; ")
        }
        _ => format!("the network was cut around {targets}"),
    }
}

/// Clocks that jumped alike are told together.
fn jumps(fault: &Fault) -> String {
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for target in &fault.targets {
        let how = jump(fault, target);
        match told.iter_mut().find(|(other, _)| *other == how) {
            Some((_, targets)) => targets.push(target),
            None => told.push((how, vec![target])),
        }
    }
    let tell = |(how, targets): (String, Vec<&str>)| {
        let clock = if targets.len() == 1 { "clock" } else { "clocks" };
        how.replacen("clock", &format!("{clock} of {}", and(&targets)), 1)
    };
    told.into_iter().map(tell).collect::<Vec<_>>().join("; ")
}

/// How far the clock of one node jumped, by what was observed in it, or else by what was asked for. Without its name.
fn jump(fault: &Fault, target: &str) -> String {
    let seen = fault.observed.get(target).unwrap_or(fault.asked);
    // Jumps of several nodes differ by the moment at which each was looked at, which nobody wants to read.
    let ms = |name: &str| {
        let seen = number(seen, name)?;
        let asked = number(fault.asked, name).filter(|asked| (asked - seen).abs() < ALIKE_MS);
        let told = if fault.targets.len() > 1 { asked.unwrap_or(seen) } else { seen };
        // A clock that was left alone shows what looking at it took.
        let left_alone = asked.is_some_and(|asked| asked.abs() < LEAST_MS);
        (told.abs() >= LEAST_MS && !left_alone).then_some(told)
    };
    let by = |ms: f64| {
        let way = if ms < 0.0 { "back" } else { "forward" };
        format!("{way} by {}", seconds((ms.abs() * 1e6) as u64))
    };
    match (ms("wall_ms"), ms("monotonic_ms")) {
        (Some(wall), Some(monotonic)) if (wall - monotonic).abs() < ALIKE_MS => {
            format!("the clock jumped {}", by(wall))
        }
        (Some(wall), Some(monotonic)) => {
            format!("the wall clock jumped {}, the monotonic one {}", by(wall), by(monotonic))
        }
        (Some(wall), None) => format!("the wall clock jumped {}", by(wall)),
        (None, Some(monotonic)) => format!("the monotonic clock jumped {}", by(monotonic)),
        (None, None) => format!("the clock was changed: {seen}"),
    }
}

/// Jumps that differ by less are the same.
const ALIKE_MS: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(name: &str, targets: &[&str], asked: Value, observed: Value) -> String {
        describe_fault(&Fault {
            id: 1,
            name,
            targets: targets.to_vec(),
            asked: &asked,
            observed: &observed,
            effective: true,
            inject: 0,
            inject_ns: 0,
            injected_ns: None,
            error: None,
            healed_ns: None,
        })
    }

    fn asked(name: &str, targets: &[&str], asked: Value) -> String {
        told(name, targets, asked, Value::Null)
    }

    #[test]
    fn equal_jumps_are_told_once() {
        let seen = json!({"n1": {"wall_ms": 60001, "monotonic_ms": 60000}, "n2": {"wall_ms": 60002, "monotonic_ms": 60000},
            "n3": {"wall_ms": 60001}});
        let all =
            told("clock-jump", &["n1", "n2", "n3"], json!({"wall_ms": 60000, "monotonic_ms": 60000}), seen);
        assert_eq!(
            all,
            "the clocks of n1 and n2 jumped forward by 60.000 s; the wall clock of n3 jumped forward by 60.000 s"
        );
    }

    #[test]
    fn a_clock_that_was_left_alone_is_not_told() {
        let seen = json!({"n1": {"wall_ms": 30000.2, "monotonic_ms": 0.4}, "n2": {"wall_ms": 30001, "monotonic_ms": 2.5}});
        let told = told("clock-jump", &["n1", "n2"], json!({"wall_ms": 30000, "monotonic_ms": 0}), seen);
        assert_eq!(told, "the wall clocks of n1 and n2 jumped forward by 30.000 s");
    }

    #[test]
    fn each_fault_has_a_sentence() {
        let tells = [
            (asked("power-loss", &["n1"], json!({})), "n1 lost power"),
            (
                asked("partition", &["c1"], json!({"groups": [["c1"], ["n1", "n2"]], "one_way": "to-first"})),
                "packets from n1 and n2 to c1 were lost, and only those",
            ),
            (
                asked("partition", &["c1"], json!({"groups": [["c1"], ["n1", "n2"]]})),
                "the network was cut between c1 | n1 and n2",
            ),
            (asked("partition", &["n1"], json!({"deaf": {"n1": ["n2"]}})), "n1 lost what came from n2"),
            (
                asked(
                    "delay",
                    &["c1"],
                    json!({"delay_ms": 300.0, "jitter_ms": 20.0, "peers": ["n1"], "ways": "in"}),
                ),
                "on the way from n1 to c1, each packet was held back for 300 ms, give or take 20 ms",
            ),
            (
                asked(
                    "loss",
                    &["c1"],
                    json!({"loss": 0.305, "loss_correlation": 0.5, "peers": ["storage"], "ways": "out"}),
                ),
                "on the way from c1 to storage, 30.5 % of the packets were lost, in bursts",
            ),
            (
                asked("duplicate", &["c1"], json!({"duplicate": 0.2})),
                "on the way between c1 and everyone else, 20 % of the packets came twice",
            ),
            (
                asked("reorder", &["c1"], json!({"reorder": 0.25, "peers": ["n1"]})),
                "25 % of the packets overtook",
            ),
            (
                asked("slow", &["c1"], json!({"rate_kbit": 64, "peers": ["n1"]})),
                "no more than 64 kbit passed a second",
            ),
            (asked("disk-full", &["n1"], json!({"bytes_left": 0})), "the disk of n1 was full"),
            (
                asked("disk-slow", &["n1"], json!({"read_ms": 0, "write_ms": 5, "fsync_ms": 50})),
                "the disk of n1 was slow: each fsync took 50 ms longer, each write took 5 ms longer",
            ),
            (
                asked("pause", &["c1"], json!({"stop_ms": 50, "run_ms": 10})),
                "c1 was stopped again and again (SIGSTOP), for 50 ms with 10 ms in between",
            ),
        ];
        for (told, expected) in tells {
            assert!(told.contains(expected), "{told}");
        }
    }
}
