//! Events of faults, which describe themselves: checkers, stories and pages need no list of faults.

use crate::{Event, Kind};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Whether an event belongs to the injection of a fault or to its healing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultStage {
    Inject,
    Heal,
}

worded! {
    /// What a fault can do to its targets: what it explains, and nothing else.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum FaultEffect {
        /// Its targets do nothing from its injection until their healing begins.
        Stops = "stops",
        /// Its targets' processes end, with what they had in memory. Healing starts servers again, and no
        /// clients.
        Kills = "kills",
        /// Its targets may lose what they knew, at any moment until it is healed.
        Forgets = "may make its targets forget",
        /// Clocks of its targets show another time.
        MovesClocks = "moves clocks",
        /// No packet passes between the nodes that `between` parts, either way.
        Parts = "parts nodes",
        /// Its targets, or the packets that `between` names, are late, or some are lost.
        Delays = "delays or loses",
        /// Packets come twice, and none later than without it.
        Duplicates = "sends packets twice",
        Refuses = "refuses",
    }
    /// As a clause whose subject is the fault.
    pub fn in_words;
}

/// What a fault says about itself. The default is an unknown fault: nothing is assumed in its favour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FaultDescription {
    /// What it can do. Empty in histories from before faults said so: see [`FaultDescription::can`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<FaultEffect>,
    /// Its targets do nothing between injection and healing: a server that is killed or stopped.
    pub takes_down: bool,
    /// The processes of its targets keep what they had in memory. False where a server may end because of it.
    pub keeps_memory: bool,
    pub moves_clocks: bool,
    /// It changes data that its targets had stored, so that they may be unable to read it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub damages: bool,
    /// Packets between nodes of different groups, or of a lone group and all others; empty if it does more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<Vec<String>>,
    /// What happened, as a clause in the past tense: "the clock of n3 jumped forward by 60.000 s".
    pub sentence: String,
    /// How it ended, as a clause in the past tense: "the clock of n3 was set right".
    pub healing: String,
    /// A few characters for a picture: "n3 clock +60.0 s".
    pub label: String,
    /// What faults of this nemesis do, for a summary of many: "clocks jumped".
    pub summary: String,
}

impl FaultDescription {
    /// Describes a fault of which only the name is known.
    pub fn unknown(name: &str, targets: &[&str], seen: &Value) -> FaultDescription {
        let on = crate::prose::and(targets);
        let seen = if seen.is_null() { String::new() } else { format!(": {seen}") };
        FaultDescription {
            sentence: format!("the fault {name} was injected on {on}{seen}"),
            healing: format!("the fault {name} on {on} was healed"),
            label: format!("{} {name}", targets.join(" ")),
            summary: name.to_owned(),
            ..FaultDescription::default()
        }
    }

    /// Whether it can do this; without `effects` by its other fields, and unknown may mean yes.
    pub fn can(&self, effect: FaultEffect) -> bool {
        if !self.effects.is_empty() {
            return self.effects.contains(&effect);
        }
        let is_only_packets = !self.between.is_empty();
        match effect {
            FaultEffect::Stops => self.takes_down,
            FaultEffect::MovesClocks => self.moves_clocks,
            FaultEffect::Forgets => !self.keeps_memory && !self.moves_clocks && !is_only_packets,
            FaultEffect::Delays => is_only_packets || !(self.takes_down || self.moves_clocks),
            FaultEffect::Kills | FaultEffect::Parts | FaultEffect::Duplicates | FaultEffect::Refuses => false,
        }
    }

    /// Whether it only changes packets, and none between these two nodes.
    pub fn spares_the_way(&self, from: &str, to: &str) -> bool {
        let group = |node: &str| self.between.iter().position(|group| group.iter().any(|name| name == node));
        match (group(from), group(to)) {
            (Some(one), Some(other)) => one == other,
            (None, None) => !self.between.is_empty(),
            _ => self.between.len() > 1,
        }
    }
}

/// An event of a fault: `invoke` as injection or healing begins, `ok` when it is done, `info` when it failed.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultEvent<'a> {
    /// Number of the fault in this run; injection and healing share it.
    pub id: u64,
    pub stage: FaultStage,
    pub targets: Vec<&'a str>,
    /// The roles that its plan aimed at (`holder`, `granting:2`); empty where it names nodes.
    pub aimed: Vec<&'a str>,
    pub requested: &'a Value,
    /// Per target, what was seen from inside it; null before anything was.
    pub observed: &'a Value,
    /// Whether anything was observed to change, by its injection or its healing.
    pub effective: bool,
    pub description: Option<FaultDescription>,
}

/// Whether a target counted, while a fault was in force, calls that the fault refused or delayed.
fn held_up(target: &Value) -> bool {
    ["refused", "delayed"].iter().any(|how| target["held_up"][how].as_u64() > Some(0))
}

impl<'a> FaultEvent<'a> {
    /// Reads the value of a fault's event; none where the event is another.
    pub fn read(event: &'a Event) -> Option<FaultEvent<'a>> {
        let value = &*event.value;
        let stage = match value.get("stage").and_then(Value::as_str)? {
            "inject" => FaultStage::Inject,
            "heal" => FaultStage::Heal,
            _ => return None,
        };
        let names = |field: &str| {
            let names = value.get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            names.iter().filter_map(Value::as_str).collect()
        };
        let observed = value.get("observed").unwrap_or(&Value::Null);
        let has_held_up = || observed.as_object().is_some_and(|targets| targets.values().any(held_up));
        let is_seen = value.get("effective") == Some(&Value::Bool(true)) || has_held_up();
        Some(FaultEvent {
            id: value.get("id").and_then(Value::as_u64)?,
            stage,
            targets: names("targets"),
            aimed: names("aimed"),
            requested: value.get("requested").unwrap_or(&Value::Null),
            observed,
            effective: event.kind == Kind::Ok && is_seen,
            description: value
                .get("description")
                .and_then(|description| FaultDescription::deserialize(description).ok()),
        })
    }

    /// The value to record. `observed` and `effective` stand only where the injection or healing `ended`.
    pub fn to_value(&self, ended: bool) -> Value {
        let mut value = json!({"id": self.id, "stage": self.stage, "targets": self.targets});
        if !self.aimed.is_empty() {
            value["aimed"] = json!(self.aimed);
        }
        if !self.requested.is_null() {
            value["requested"] = self.requested.clone();
        }
        if !self.observed.is_null() {
            value["observed"] = self.observed.clone();
        }
        if ended && self.stage == FaultStage::Inject {
            value["effective"] = json!(self.effective);
        }
        if let Some(description) = &self.description {
            value["description"] = json!(description);
        }
        value
    }
}

/// The name (`f`) of the event of a planned fault that was left out: another fault of its kind was in force
/// on one of its targets (healing either would have undone the other), or no node played the aimed role.
pub const FAULT_LEFT_OUT: &str = "fault-left-out";

/// The name (`f`) of the event of a server that ended and no fault did it, or did not come back after one.
pub const SERVER_ENDED: &str = "server-ended";

/// A server that ended by itself, or did not serve again after a fault was healed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerEnded {
    pub node: String,
    /// The fault after whose healing it did not serve; none where it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_fault: Option<u64>,
    /// How its process ended, as its node saw it: `was ended by SIGKILL`, `ended by itself, with code 1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The signal that ended its process. Older histories have it in the words of `status` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// The last lines of its log that tell of errors, or else the last lines of all.
    #[serde(default)]
    pub log: Vec<String>,
    /// The line of its log that says that it cannot read its own data any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

impl ServerEnded {
    /// Reads the value of a [`SERVER_ENDED`]; none where the event is another.
    pub fn read(event: &Event) -> Option<ServerEnded> {
        (event.f == SERVER_ENDED).then(|| ServerEnded::deserialize(&*event.value).ok())?
    }

    /// Whether a signal ended it that its own mistakes do not raise: somebody's, or the kernel's (no memory).
    pub fn was_killed(&self) -> bool {
        // Their numbers are the same on every architecture.
        const SENT: [(i32, &str); 5] =
            [(9, "SIGKILL"), (15, "SIGTERM"), (2, "SIGINT"), (3, "SIGQUIT"), (1, "SIGHUP")];
        let words = self.status.as_deref().unwrap_or_default();
        SENT.iter().any(|(number, name)| match self.signal {
            Some(signal) => signal == *number,
            None => words == format!("was ended by {name}"),
        })
    }

    /// What happened, as a clause in the past tense.
    pub fn how_it_ended(&self) -> String {
        match (self.after_fault, &self.status) {
            (Some(_), _) => format!("{} did not serve again after the fault was healed", self.node),
            (None, Some(status)) => format!("{} {status}", self.node),
            (None, None) => format!("{} ended by itself", self.node),
        }
    }

    /// As [`Self::how_it_ended`], with what the log says of it; one that was killed could say nothing.
    pub fn sentence(&self) -> String {
        let what = self.how_it_ended();
        if self.was_killed() {
            return what;
        }
        let lines = self.unreadable.as_ref().map_or(&self.log[..], std::slice::from_ref);
        match lines {
            [] => what,
            lines => format!("{what}; its log says: {}", lines.join(" / ")),
        }
    }
}

/// The last `most` lines of a log that tell of errors; where none does, the last lines of all.
pub fn error_lines(log: &str, most: usize) -> Vec<String> {
    const SIGNS: [&str; 8] = ["error", "fatal", "panic", "exception", "fail", "broken", "cannot", "abort"];
    let lines = || log.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    let tells = |line: &&str| {
        let line = line.to_lowercase();
        SIGNS.iter().any(|sign| line.contains(sign))
    };
    let errors: Vec<&str> = lines().filter(tells).collect();
    let chosen = if errors.is_empty() { lines().collect() } else { errors };
    chosen[chosen.len().saturating_sub(most)..].iter().map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Process;

    fn event(kind: Kind, value: Value) -> Event {
        let (process, f) = (Process::Nemesis, "clock-jump".into());
        Event { index: 0, time: 0, process, kind, f, key: None, value: value.into(), error: None }
    }

    #[test]
    fn a_fault_is_read_as_it_was_recorded() {
        let (requested, observed) = (json!({"wall_ms": 5}), json!({"n1": {"wall_ms": 6}}));
        let description = FaultDescription { moves_clocks: true, ..FaultDescription::default() };
        let fault = FaultEvent {
            id: 3,
            stage: FaultStage::Inject,
            targets: vec!["n1"],
            aimed: vec!["granting:1"],
            requested: &requested,
            observed: &observed,
            effective: true,
            description: Some(description),
        };
        assert_eq!(FaultEvent::read(&event(Kind::Ok, fault.to_value(true))), Some(fault));
        assert_eq!(FaultEvent::read(&event(Kind::Info, json!("main"))), None);
    }

    #[test]
    fn calls_that_a_fault_held_up_show_that_it_took_effect() {
        let healed = |refused: u64, delayed: u64| {
            let held_up = json!({"n1": {"held_up": {"refused": refused, "delayed": delayed}}});
            event(Kind::Ok, json!({"id": 3, "stage": "heal", "observed": held_up}))
        };
        let is_effective = |event: Event| FaultEvent::read(&event).is_some_and(|fault| fault.effective);
        assert!(is_effective(healed(1, 0)) && is_effective(healed(0, 1)));
        assert!(!is_effective(healed(0, 0)));
    }

    #[test]
    fn a_fault_of_packets_spares_the_ways_that_it_does_not_name() {
        let spares = |groups: &[&[&str]], from: &str, to: &str| {
            let names = |group: &&[&str]| group.iter().map(|name| (*name).to_owned()).collect();
            let between = groups.iter().map(names).collect();
            FaultDescription { between, ..FaultDescription::default() }.spares_the_way(from, to)
        };
        let flow: &[&[&str]] = &[&["c1", "c2"], &["n1"]];
        assert!(!spares(flow, "c1", "n1") && !spares(flow, "n1", "c2"));
        assert!(spares(flow, "c1", "c2") && spares(flow, "c3", "n1") && spares(flow, "c1", "n2"));
        assert!(!spares(&[&["c1"]], "c1", "n1") && spares(&[&["c1"]], "c2", "n1"));
        assert!(!spares(&[], "c1", "n1"), "nothing is known of its ways");
    }

    #[test]
    fn a_fault_can_do_what_it_says_and_an_old_one_what_its_words_allow() {
        use FaultEffect::{Delays, Forgets, Kills, MovesClocks, Stops};
        for (value, expected) in [
            (json!({"effects": ["stops", "kills"], "takes_down": true}), &[Stops, Kills][..]),
            (json!({"takes_down": true}), &[Stops, Forgets]),
            (json!({"takes_down": true, "keeps_memory": true}), &[Stops]),
            (json!({"moves_clocks": true}), &[MovesClocks]),
            (json!({"keeps_memory": true, "between": [["c1"], ["n1"]]}), &[Delays]),
            (json!({"keeps_memory": true}), &[Delays]),
            (json!({}), &[Forgets, Delays]),
        ] {
            let description = FaultDescription::deserialize(&value).unwrap();
            let can: Vec<FaultEffect> =
                FaultEffect::ALL.into_iter().filter(|effect| description.can(*effect)).collect();
            assert_eq!(can, expected, "{value}");
        }
    }

    #[test]
    fn nothing_is_assumed_of_an_unknown_fault() {
        let unknown = FaultDescription::unknown("cosmic-ray", &["n1", "n2"], &json!({"bits": 1}));
        assert!(!unknown.takes_down && !unknown.keeps_memory && !unknown.moves_clocks);
        assert_eq!(unknown.sentence, "the fault cosmic-ray was injected on n1 and n2: {\"bits\":1}");
    }

    #[test]
    fn lines_of_errors_are_chosen_from_a_log() {
        let log = "starting\nERROR No snapshot found, but there are log entries\n\nbye\n";
        assert_eq!(error_lines(log, 3), ["ERROR No snapshot found, but there are log entries"]);
        assert_eq!(error_lines("one\ntwo\nthree\n", 2), ["two", "three"]);
        let ended = ServerEnded {
            node: "n1".into(),
            after_fault: Some(2),
            status: None,
            signal: None,
            log: error_lines(log, 3),
            unreadable: None,
        };
        let expected = "n1 did not serve again after the fault was healed; its log says: ERROR No snapshot found, but there are \
                    log entries";
        assert_eq!(ended.sentence(), expected);
    }

    #[test]
    fn who_ended_a_server_is_read_from_the_signal_or_in_old_histories_from_the_words() {
        for (value, was_killed) in [
            (json!({"node": "n1", "status": "was ended by SIGKILL", "signal": 9}), true),
            (json!({"node": "n1", "status": "was ended by SIGSEGV", "signal": 11}), false),
            (json!({"node": "n1", "status": "some other words", "signal": 15}), true),
            (json!({"node": "n1", "status": "ended by itself, with code 1"}), false),
            (json!({"node": "n1", "status": "was ended by SIGTERM"}), true),
            (json!({"node": "n1", "status": "was ended by SIGABRT"}), false),
            (json!({"node": "n1"}), false),
        ] {
            let ended = Event { f: SERVER_ENDED.into(), ..event(Kind::Info, value.clone()) };
            assert_eq!(ServerEnded::read(&ended).unwrap().was_killed(), was_killed, "{value}");
        }
    }
}
