//! The schedule of a run: which faults are injected into which nodes, when, and for how long. Drawn from the seed before
//! anything starts, and kept with the results.

use crate::draws::millis;
use crate::motion::Motions;
use crate::nemesis::{Nemesis, Settings};
use crate::registry::{find, registry};
use crate::topology::Topology;
use crate::trigger::Trigger;
use fencepost_history::Seed;
use fencepost_history::mistake::{line_at, with_nearest};
use fencepost_history::prose::unknown;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;
use toml::de::DeTable;

/// One fault of a plan, with its targets, its beginning and its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// Time from the start of the main phase, or from the moment that `when` names, to the injection, in milliseconds.
    #[serde(default)]
    pub at_ms: u64,
    /// Time from the beginning of the injection to the healing, in milliseconds, so that a plan reads as a time table. A
    /// fault that takes longer to inject and to be observed is healed right after that.
    pub for_ms: u64,
    /// Name of the nemesis.
    pub fault: String,
    /// Its targets: `n1`, `c2`, `storage`; `leader` for the server that leads at that moment.
    pub on: Vec<String>,
    /// Waits for this event of the history first, so that a directed plan does not rest on sleeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Trigger>,
    /// Once its time has come, waits for the next event that fits (for 2 s at most): a clock that jumps right after an
    /// acquire finds a holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Trigger>,
    /// All other keys: parameters in the nemesis's own terms.
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
}

/// Keys of a fault that are not parameters.
const KEYS: [&str; 6] = ["at_ms", "for_ms", "fault", "on", "when", "then"];

/// A nemesis that a swarm has enabled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enabled {
    pub nemesis: String,
    /// Its faults are drawn as if the TTL were so many times as long: lengths, delays and jumps grow and shrink with it.
    pub strength: f64,
    /// Mean time between the end of a fault and the next, in milliseconds.
    pub every_ms: u64,
}

impl fmt::Display for Enabled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let every = humantime::format_duration(Duration::from_millis(self.every_ms));
        write!(out, "{} ×{} every {every}", self.nemesis, self.strength)
    }
}

/// All faults of a run, by time. As a file it is TOML, one `[[fault]]` each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What a swarm enabled, where one was drawn. It says where the faults come from, and changes nothing about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swarm: Vec<Enabled>,
    #[serde(default, rename = "fault")]
    pub faults: Vec<PlannedFault>,
}

/// What is wrong with a fault of a plan: one sentence, and the key that it is about, if it is about one.
#[derive(Clone, Debug, PartialEq)]
struct Mistake {
    key: Option<String>,
    sentence: String,
}

impl Mistake {
    fn at(key: &str, sentence: impl Into<String>) -> Mistake {
        Mistake { key: Some(key.to_owned()), sentence: sentence.into() }
    }
}

impl Plan {
    /// Reads a plan from TOML and checks it against the nodes that there are.
    ///
    /// # Errors
    /// One sentence that names the line, and for a misspelled key or name the nearest right one.
    pub fn parse(text: &str, topology: &Topology) -> Result<Plan, String> {
        let plan: Plan = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            format!("line {}: {}", line_at(text, start), with_nearest(error.message(), &[]))
        })?;
        for (number, fault) in (1..).zip(&plan.faults) {
            fault.mistake(topology).map_err(|mistake| {
                let line = line_of(text, number, mistake.key.as_deref()).unwrap_or(1);
                format!("line {line}, fault {number} ({}): {}", fault.fault, mistake.sentence)
            })?;
        }
        plan.check_overlaps()?;
        Ok(plan)
    }

    /// Checks a plan against the nodes that there are.
    ///
    /// # Errors
    /// One sentence that names the fault by its number.
    pub fn check(&self, topology: &Topology) -> Result<(), String> {
        for (number, fault) in (1..).zip(&self.faults) {
            fault
                .mistake(topology)
                .map_err(|mistake| format!("fault {number} ({}): {}", fault.fault, mistake.sentence))?;
        }
        self.check_overlaps()
    }

    /// Refuses two faults of one kind on one node at a time, as far as times tell: each healing would undo the other.
    fn check_overlaps(&self) -> Result<(), String> {
        for (number, fault) in (1..).zip(&self.faults) {
            for (earlier, other) in (1..).zip(&self.faults[..number - 1]) {
                if let Some(node) = fault.clashes_with(other) {
                    return Err(format!(
                        "fault {number} ({}): it is on {node} while fault {earlier} ({}) still is, and either healing would \
                         undo the other; let one end before the next begins",
                        fault.fault, other.fault
                    ));
                }
            }
        }
        Ok(())
    }

    /// The nemeses that it uses.
    pub fn nemeses(&self) -> Vec<&'static dyn Nemesis> {
        let used = |nemesis: &&dyn Nemesis| self.faults.iter().any(|fault| fault.fault == nemesis.name());
        registry().iter().copied().filter(used).collect()
    }

    /// The plan as a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a plan is always TOML")
    }
}

/// The line of a key of the fault with that number, or of the fault itself.
fn line_of(text: &str, number: usize, key: Option<&str>) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let fault = table.get_ref().get("fault")?.get_ref().as_array()?.get(number - 1)?;
    let mut keys = fault.get_ref().as_table()?.keys();
    let named = key.and_then(|key| keys.find(|name| name.get_ref().as_ref() == key));
    Some(line_at(text, named.map_or(fault.span().start, |name| name.span().start)))
}

impl PlannedFault {
    /// What it does to clocks; none where it does nothing to them.
    pub fn motions(&self) -> Option<Motions> {
        find(&self.fault)?.prepare(&self.on, &self.parameters).ok()?.motions()
    }

    /// The node on which both would be in force at a time, if they are of one kind and wait for the same event.
    fn clashes_with(&self, other: &PlannedFault) -> Option<&String> {
        let kind = |fault: &PlannedFault| find(&fault.fault).and_then(|nemesis| nemesis.description().kind);
        let apart = self.at_ms >= other.at_ms + other.for_ms || other.at_ms >= self.at_ms + self.for_ms;
        if apart || self.when != other.when || kind(self).is_none() || kind(self) != kind(other) {
            return None;
        }
        self.on.iter().find(|node| other.on.contains(node))
    }

    fn mistake(&self, topology: &Topology) -> Result<(), Mistake> {
        let nemesis = find(&self.fault).ok_or_else(|| {
            let names: Vec<&str> = registry().iter().map(|nemesis| nemesis.name()).collect();
            Mistake::at("fault", unknown("nemesis", &self.fault, &names))
        })?;
        if self.on.is_empty() {
            return Err(Mistake::at("on", "`on` names no node"));
        }
        if self.for_ms == 0 {
            return Err(Mistake::at("for_ms", "`for_ms` must be longer than 0"));
        }
        for name in &self.on {
            topology.check_target(name).map_err(|sentence| Mistake::at("on", sentence))?;
        }
        for (key, trigger) in [("when", &self.when), ("then", &self.then)] {
            if let Some(client) = trigger.as_ref().and_then(|trigger| trigger.client.as_ref()) {
                topology.check_name(client).map_err(|sentence| Mistake::at(key, sentence))?;
            }
        }
        let fault = nemesis.prepare(&self.on, &self.parameters).map_err(|sentence| {
            let named = sentence.split('`').nth(1).filter(|name| self.parameters.contains_key(*name));
            Mistake { key: named.map(str::to_owned), sentence: with_nearest(&sentence, &KEYS) }
        })?;
        let unknown = fault.names().iter().find_map(|name| topology.check_name(name).err());
        unknown.map_or(Ok(()), |sentence| Err(Mistake { key: None, sentence }))
    }
}

/// Draws the plan of a run: each nemesis from a random stream of its own, so that adding one shifts no other.
///
/// Faults of one nemesis follow each other with a pause between half and one and a half times the interval.
/// Faults of different ones overlap freely, but for those that would undo each other: there the nemesis that is named
/// later gives way. Every fault is healed within `time_limit`.
pub fn draw(nemeses: &[&dyn Nemesis], topology: &Topology, settings: &Settings, seed: Seed) -> Plan {
    let mut faults: Vec<PlannedFault> = Vec::new();
    for nemesis in nemeses {
        faults.extend(draw_beside(&faults, *nemesis, topology, settings, seed));
    }
    faults.sort_by_key(|fault| fault.at_ms);
    Plan { faults, ..Plan::default() }
}

/// Draws the faults of one nemesis, without those that would undo, or be undone by, faults that are there already.
pub(crate) fn draw_beside(
    faults: &[PlannedFault],
    nemesis: &dyn Nemesis,
    topology: &Topology,
    settings: &Settings,
    seed: Seed,
) -> Vec<PlannedFault> {
    let mut more = draw_one(nemesis, topology, settings, seed);
    more.retain(|fault| !faults.iter().any(|other| fault.clashes_with(other).is_some()));
    more
}

fn draw_one(
    nemesis: &dyn Nemesis,
    topology: &Topology,
    settings: &Settings,
    seed: Seed,
) -> Vec<PlannedFault> {
    let mut random = seed.stream(&format!("nemesis-{}", nemesis.name()));
    let limit_ms = millis(settings.time_limit);
    let gap_ms = |random: &mut fencepost_history::Stream| {
        let interval_ms = millis(settings.interval);
        random.random_range(interval_ms / 2..=interval_ms * 3 / 2).max(1)
    };
    let mut faults = Vec::new();
    let mut at_ms = gap_ms(&mut random);
    while let Some(drawn) = nemesis.draw(topology, settings, &mut random) {
        let for_ms = millis(drawn.length).max(1);
        if at_ms + for_ms > limit_ms {
            break;
        }
        let fault = nemesis.name().to_owned();
        let awaits_holder = nemesis.description().awaits_holder;
        let then = awaits_holder.then(|| Trigger::of(fencepost_history::f::ACQUIRE));
        let (on, parameters) = (drawn.on, drawn.parameters);
        faults.push(PlannedFault { at_ms, for_ms, fault, on, when: None, then, parameters });
        at_ms += for_ms + gap_ms(&mut random);
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{settings, topology};
    use crate::topology::LEADER;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn same_seed_same_plan_and_healing_always_within_the_limit(
            seed in 0..1_u64 << 53, servers in 0..7_usize, clients in 1..7_usize, limit_s in 1..60_u64,
        ) {
            let (topology, settings) = (topology(servers, clients), settings(limit_s));
            let plan = draw(registry(), &topology, &settings, Seed(seed));
            prop_assert_eq!(&plan, &draw(registry(), &topology, &settings, Seed(seed)));
            for fault in &plan.faults {
                prop_assert!(fault.at_ms + fault.for_ms <= limit_s * 1000);
                prop_assert!(!fault.on.is_empty());
                let known = |name: &String| topology.servers.contains(name) || topology.clients.contains(name);
                prop_assert!(fault.on.iter().all(known));
                let nemesis = find(&fault.fault).expect("a registered nemesis");
                prop_assert!(nemesis.prepare(&fault.on, &fault.parameters).is_ok());
            }
            for nemesis in registry() {
                let own: Vec<_> = plan.faults.iter().filter(|fault| fault.fault == nemesis.name()).collect();
                let apart = |pair: &[&PlannedFault]| pair[0].at_ms + pair[0].for_ms <= pair[1].at_ms;
                prop_assert!(own.windows(2).all(apart), "faults of one nemesis overlap");
            }
        }
    }

    #[test]
    fn a_nemesis_more_shifts_no_other() {
        let (topology, settings) = (topology(5, 5), settings(60));
        let alone = draw(&[find("pause").unwrap()], &topology, &settings, Seed(7));
        let mut together = draw(registry(), &topology, &settings, Seed(7));
        together.faults.retain(|fault| fault.fault == "pause");
        assert_eq!(alone, together);
        assert!(alone.faults.len() > 5);
    }

    #[test]
    fn a_plan_survives_its_file() {
        let plan = draw(registry(), &topology(5, 5), &settings(20), Seed(1));
        assert_eq!(Plan::parse(&plan.to_toml(), &topology(5, 5)).unwrap(), plan);
    }

    #[test]
    fn a_plan_can_be_written_by_hand() {
        let text = r#"
            [[fault]]
            at_ms = 3500
            for_ms = 2000
            fault = "clock-jump"
            on = ["n3"]
            wall_ms = 30000
            monotonic_ms = 30000

            [[fault]]
            when = { f = "acquire", client = "c1" }
            at_ms = 10
            for_ms = 5000
            fault = "pause"
            on = ["c1"]
        "#;
        let plan = Plan::parse(text, &topology(5, 5)).unwrap();
        assert_eq!((plan.faults[0].at_ms, plan.faults[0].for_ms), (3500, 2000));
        assert_eq!(plan.faults[1].when.as_ref().unwrap().client.as_deref(), Some("c1"));
        assert_eq!(Plan::parse(&plan.to_toml(), &topology(5, 5)).unwrap(), plan);
    }

    #[test]
    fn faults_of_one_kind_do_not_meet_on_a_node() {
        let fault = |at: u32, fault: &str, on: &str, more: &str| {
            format!("[[fault]]\nat_ms = {at}000\nfor_ms = 2000\nfault = '{fault}'\non = ['{on}']\n{more}\n")
        };
        let read = |faults: [String; 2]| Plan::parse(&faults.concat(), &topology(3, 2));
        let met = read([fault(1, "pause", "n1", ""), fault(2, "leader-pause", "n1", "")]);
        assert!(
            met.is_err_and(|why| why.contains("fault 2 (leader-pause): it is on n1 while fault 1 (pause)"))
        );
        assert!(read([fault(2, "kill", "n1", ""), fault(1, "kill", "n1", "")]).is_err());
        // One after the other, on two nodes, of two kinds, and where events decide, all is well.
        let event = "when = { f = 'acquire' }";
        for second in [
            fault(3, "pause", "n1", ""),
            fault(1, "pause", "n2", ""),
            fault(1, "kill", "n1", ""),
            fault(1, "pause", "n1", event),
        ] {
            assert!(read([fault(1, "pause", "n1", ""), second.clone()]).is_ok(), "{second}");
        }
        let cut = "groups = [['c1'], ['n1']]";
        assert!(read([fault(1, "partition", "c1", cut), fault(1, "partition", "c1", cut)]).is_ok());
    }

    #[test]
    fn a_plan_can_be_aimed_at_the_leader_where_there_is_one() {
        let text = "[[fault]]\nat_ms = 1000\nfor_ms = 1000\nfault = 'pause'\non = ['leader']";
        let led = Topology { has_leader: true, ..topology(3, 2) };
        assert!(Plan::parse(text, &led).is_ok());
        assert!(
            Plan::parse(text, &topology(3, 2)).is_err_and(|why| why.contains("none of these servers leads"))
        );
        let names: Vec<&str> = registry().iter().map(|nemesis| nemesis.name()).collect();
        for name in names.iter().filter(|name| name.contains("leader") || **name == "failover") {
            let aimed = draw(&[find(name).unwrap()], &led, &settings(20), Seed(1));
            assert!(aimed.faults.iter().all(|fault| fault.on == [LEADER]), "{name}");
            let drawn = draw(&[find(name).unwrap()], &topology(3, 2), &settings(20), Seed(1));
            assert!(drawn.faults.iter().all(|fault| fault.on.len() == 1 && fault.on != [LEADER]));
            assert!(!aimed.faults.is_empty() && !drawn.faults.is_empty(), "{name}");
        }
    }

    #[test]
    fn mistakes_in_a_plan_are_named() {
        let refused = |fault: &str| {
            let text =
                format!("[[fault]]\nat_ms = 1000\nfor_ms = 1000\nfault = \"pause\"\non = [\"n1\"]\n{fault}");
            // A key that stands twice is itself a mistake: the later line replaces the earlier one here.
            let lines: Vec<&str> = text.lines().collect();
            let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
            let kept = lines
                .iter()
                .enumerate()
                .filter(|(at, line)| !lines[at + 1..].iter().any(|later| key(later) == key(line)));
            let text: Vec<&str> = kept.map(|(_, line)| *line).collect();
            Plan::parse(&text.join("\n"), &topology(2, 2)).unwrap_err()
        };
        assert!(refused("on = [\"n9\"]").contains("n9"));
        assert!(refused("on = []").contains("no node"));
        assert!(refused("for_ms = -2").contains("-2"));
        assert!(refused("for_ms = 0").contains("longer than 0"));
        assert!(refused("fault = \"puase\"").contains("did you mean \"pause\"?"));
        assert!(refused("stop = 7").contains("unknown key \"stop\": did you mean \"stop_ms\"?"));
        assert!(refused("when = { f = \"acquire\", client = \"c7\" }").contains("c7"));
        assert!(refused("for_ms = \"x\"").starts_with("line 5"), "{}", refused("for_ms = \"x\""));
        assert!(
            refused("wenn = 7")
                .starts_with("line 6, fault 1 (pause): unknown key \"wenn\": did you mean \"when\"?")
        );
    }
}
