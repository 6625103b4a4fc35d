//! Why Redlock waits at random.

use crate::scenarios::Scenario;
use crate::scenarios::act::{Act, begins, dosed, struck, throughout};
use crate::scenarios::expect::Expect::Look;
use crate::scenarios::expect::{Metric, Seen};
use fencepost_engine::Step::{After, For, Holds, Release, Try};
use fencepost_history::{Kind, Process, f};
use fencepost_nemesis::Trigger;
use serde_json::json;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "redlock-split-vote",
    source: "D",
    about: "five clients, each near another node, start at the same instant and split the votes",
    expected: "without a random delay nobody gets a majority for many rounds; with one somebody does",
    acts,
    differs: None,
};

const CLIENTS: [&str; 5] = ["c1", "c2", "c3", "c4", "c5"];
const NODES: [&str; 5] = ["n1", "n2", "n3", "n4", "n5"];
/// How often the clients start together. One contest proves little: it may be that they did not start together enough.
const CONTESTS: u64 = 5;
/// Between two contests, for the releases of the last one to arrive.
const REST: Duration = Duration::from_millis(300);
/// A split that lasts for more rounds than this lasts long: with a random delay one in a hundred does, without one
/// nearly all do.
const FEW_ROUNDS: u64 = 3;

fn acts() -> Vec<Act> {
    vec![
        story("no random delay", "--no-retry-jitter").expect(Look("many rounds go by", many)),
        story("random delay", "").expect(Look("somebody is granted the lock after a few rounds", few)),
    ]
}

fn story(title: &'static str, options: &str) -> Act {
    // Of a round that fails, all clients learn after the same time, and all rest for the same time.
    let arguments = "--backend redlock --ttl 2s --acquire-timeout 1500ms --retry-delay 100ms";
    let mut act = Act::directed(title, &format!("{arguments} {options}")).undisturbed();
    for (client, near) in CLIENTS.into_iter().zip(NODES) {
        let far: Vec<&str> = NODES.into_iter().filter(|node| *node != near).collect();
        let dose = json!({"delay_ms": 20, "ways": "both", "peers": far});
        let contest = |number| [After(starting_shot(number)), Try, Release, For(REST), Holds];
        let part = (0..CONTESTS).flat_map(contest).collect();
        act = act.strike(dosed(throughout("delay", &[client]), dose)).part(client, part);
    }
    act.tell(
        starting_shot(0),
        "each of five clients is near one of the five nodes, and 20 ms from the others",
    )
    .tell(begins("c5", "acquire"), "they ask at the same instant; so they will four times more")
}

/// Everybody has come from the contest before: whoever has asks whether it still holds the lock, before the next one.
fn starting_shot(contest: u64) -> Trigger {
    let everybody = CLIENTS.len() as u64;
    match contest {
        0 => Trigger { times: everybody, ..struck("delay") },
        over => Trigger { kind: Some(Kind::Invoke), times: over * everybody, ..Trigger::of(f::HOLDS) },
    }
}

/// For each contest, the rounds that its first winner needed; none where nobody won.
fn rounds(seen: &Seen) -> Vec<Option<u64>> {
    let mut first = vec![None; CONTESTS as usize];
    let mut over = 0;
    for event in seen.history.iter().filter(|event| matches!(event.process, Process::Client(_))) {
        match (&*event.f, event.kind) {
            (f::HOLDS, Kind::Invoke) => over += 1,
            (f::ACQUIRE, Kind::Ok) => {
                if let Some(first) = first.get_mut(over / CLIENTS.len()) {
                    *first = first.or(event.value["rounds"].as_u64());
                }
            }
            _ => {}
        }
    }
    first
}

fn many(seen: &Seen) -> (bool, String, Vec<Metric>) {
    told(seen, |rounds| rounds > FEW_ROUNDS)
}

fn few(seen: &Seen) -> (bool, String, Vec<Metric>) {
    told(seen, |rounds| rounds <= FEW_ROUNDS)
}

/// A contest that was won in its first round does not count: somebody was too early for the votes to be split.
fn told(seen: &Seen, met: fn(u64) -> bool) -> (bool, String, Vec<Metric>) {
    const NOBODY: u64 = u64::MAX;
    let mut split: Vec<u64> = rounds(seen).into_iter().map(|rounds| rounds.unwrap_or(NOBODY)).collect();
    split.retain(|rounds| *rounds > 1);
    split.sort_unstable();
    let Some(&median) = split.get(split.len() / 2) else {
        return (
            false,
            "somebody was too early in each contest: the votes were never split".to_owned(),
            Vec::new(),
        );
    };
    let count = split.len();
    match median {
        NOBODY => {
            let nobody = split.iter().filter(|rounds| **rounds == NOBODY).count();
            let sentence = format!(
                "the votes were split in {count} of {CONTESTS} contests, and nobody won {nobody} of them within 1.5 s"
            );
            (met(median), sentence, Vec::new())
        }
        median => {
            let sentence = format!(
                "the votes were split in {count} of {CONTESTS} contests; the median was won in round {median}"
            );
            (met(median), sentence, vec![Metric::new("rounds to the first acquire", median as f64, "")])
        }
    }
}
