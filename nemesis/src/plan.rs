//! The schedule of a run: which fault strikes whom, when, and for how long. Drawn from the seed before anything
//! starts, and kept with the results.

use crate::swarm::Enabled;
use crate::{Nemesis, Scene, Settings, Trigger};
use fencepost_history::Seed;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// One fault: named, aimed and dosed, with its beginning and its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Strike {
    /// Time from the start of the main phase, or from the moment that `when` names, to the injection.
    #[serde(rename = "at", with = "span", default)]
    pub at_ms: u64,
    /// Time from the beginning of the injection to the healing, so that a plan reads as a time table. A fault that
    /// takes longer to inject and to be seen is healed right after that.
    #[serde(rename = "for", with = "span")]
    pub for_ms: u64,
    /// Name of the nemesis.
    pub fault: String,
    /// Whom it strikes: `n1`, `c2`, `storage`; `leader` for whoever leads at that moment.
    pub on: Vec<String>,
    /// Waits for this event of the history first, so that a directed plan does not rest on sleeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Trigger>,
    /// Once its time has come, waits for the next event that fits (for 2 s at most): a clock that jumps right after an
    /// acquire finds a holder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<Trigger>,
    /// In the nemesis's own terms.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub dose: Value,
}

/// All strikes of a run, by time. As a file it is TOML, one `[[strike]]` each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What a swarm enabled, where one was drawn. It tells whence the strikes come, and changes nothing about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swarm: Vec<Enabled>,
    #[serde(default, rename = "strike")]
    pub strikes: Vec<Strike>,
}

impl Plan {
    /// Reads a plan from TOML and checks it against the nodes that there are.
    ///
    /// # Errors
    /// One sentence that names the line, or the strike by its number.
    pub fn parse(text: &str, scene: &Scene) -> Result<Plan, String> {
        let plan: Plan = toml::from_str(text).map_err(|error| error.to_string())?;
        plan.check(scene)?;
        Ok(plan)
    }

    /// Checks a plan against the nodes that there are.
    ///
    /// # Errors
    /// One sentence that names the strike by its number.
    pub fn check(&self, scene: &Scene) -> Result<(), String> {
        for (number, strike) in (1..).zip(&self.strikes) {
            strike.check(scene).map_err(|reason| format!("strike {number} ({}): {reason}", strike.fault))?;
        }
        self.check_overlaps()
    }

    /// Refuses two strikes of one kind on one node at a time, as far as times tell: each healing would undo the other.
    fn check_overlaps(&self) -> Result<(), String> {
        for (number, strike) in (1..).zip(&self.strikes) {
            for (earlier, other) in (1..).zip(&self.strikes[..number - 1]) {
                if let Some(node) = strike.clashes_with(other) {
                    return Err(format!(
                        "strike {number} ({}): it is on {node} while strike {earlier} ({}) still is, and either healing would \
                         undo the other; let one end before the next begins",
                        strike.fault, other.fault
                    ));
                }
            }
        }
        Ok(())
    }

    /// The nemeses that it uses.
    pub fn nemeses(&self) -> Vec<&'static dyn Nemesis> {
        let used = |nemesis: &&dyn Nemesis| self.strikes.iter().any(|strike| strike.fault == nemesis.name());
        crate::registry().iter().copied().filter(used).collect()
    }

    /// The plan as a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a plan is always TOML")
    }
}

impl Strike {
    /// The node on which both would be in force at a time, if they are of one kind and wait for the same event.
    fn clashes_with(&self, other: &Strike) -> Option<&String> {
        let kind = |strike: &Strike| crate::find(&strike.fault).and_then(Nemesis::kind);
        let apart = self.at_ms >= other.at_ms + other.for_ms || other.at_ms >= self.at_ms + self.for_ms;
        if apart || self.when != other.when || kind(self).is_none() || kind(self) != kind(other) {
            return None;
        }
        self.on.iter().find(|node| other.on.contains(node))
    }

    fn check(&self, scene: &Scene) -> Result<(), String> {
        let nemesis = crate::find(&self.fault).ok_or_else(|| {
            let names: Vec<&str> = crate::registry().iter().map(|nemesis| nemesis.name()).collect();
            format!("there is no nemesis of that name (there are: {})", names.join(", "))
        })?;
        if self.on.is_empty() {
            return Err("`on` names nobody to strike".to_owned());
        }
        if self.for_ms == 0 {
            return Err("`for` must be longer than 0".to_owned());
        }
        for name in &self.on {
            scene.check_target(name)?;
        }
        for name in &nemesis.names_in(&self.dose) {
            scene.check_name(name)?;
        }
        for client in self.when.iter().chain(&self.then).filter_map(|trigger| trigger.client.as_ref()) {
            scene.check_name(client)?;
        }
        nemesis.prepare(self).map(|_| ())
    }
}

/// Lengths of time in files: `"3s"`, `"250ms"`; a plain number counts seconds.
pub(crate) mod span {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(milliseconds: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        let text = humantime::format_duration(Duration::from_millis(*milliseconds)).to_string();
        serializer.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Text {
            Words(String),
            Seconds(f64),
        }
        let text = Text::deserialize(deserializer)?;
        let time = match &text {
            Text::Words(words) => humantime::parse_duration(words).ok(),
            Text::Seconds(seconds) => Duration::try_from_secs_f64(*seconds).ok(),
        };
        time.map(super::millis).ok_or_else(|| {
            serde::de::Error::custom("not a length of time: write \"3s\" or \"250ms\", and nothing below 0")
        })
    }
}

/// Draws the plan of a run: each nemesis from a random stream of its own, so that adding one shifts no other.
///
/// Strikes of one nemesis follow each other with a pause between half and one and a half times the interval.
/// Strikes of different ones overlap freely, but for those that would undo each other: there the nemesis that is named
/// later gives way. Every strike is healed within `time_limit`.
pub fn draw(nemeses: &[&dyn Nemesis], scene: &Scene, settings: &Settings, seed: Seed) -> Plan {
    let mut strikes: Vec<Strike> = Vec::new();
    for nemesis in nemeses {
        strikes.extend(draw_beside(&strikes, *nemesis, scene, settings, seed));
    }
    strikes.sort_by_key(|strike| strike.at_ms);
    Plan { strikes, ..Plan::default() }
}

/// Draws the strikes of one nemesis, without those that would undo, or be undone by, strikes that are there already.
pub(crate) fn draw_beside(
    strikes: &[Strike],
    nemesis: &dyn Nemesis,
    scene: &Scene,
    settings: &Settings,
    seed: Seed,
) -> Vec<Strike> {
    let mut more = draw_one(nemesis, scene, settings, seed);
    more.retain(|strike| !strikes.iter().any(|other| strike.clashes_with(other).is_some()));
    more
}

fn draw_one(nemesis: &dyn Nemesis, scene: &Scene, settings: &Settings, seed: Seed) -> Vec<Strike> {
    let mut random = seed.stream(&format!("nemesis-{}", nemesis.name()));
    let limit_ms = millis(settings.time_limit);
    let gap_ms = |random: &mut fencepost_history::Stream| {
        let interval_ms = millis(settings.interval);
        random.random_range(interval_ms / 2..=interval_ms * 3 / 2).max(1)
    };
    let mut strikes = Vec::new();
    let mut at_ms = gap_ms(&mut random);
    while let Some(aim) = nemesis.draw(scene, settings, &mut random) {
        let for_ms = millis(aim.length).max(1);
        if at_ms + for_ms > limit_ms {
            break;
        }
        let fault = nemesis.name().to_owned();
        let then = nemesis.awaits_holder().then(|| Trigger::of(fencepost_history::f::ACQUIRE));
        strikes.push(Strike { at_ms, for_ms, fault, on: aim.on, when: None, then, dose: aim.dose });
        at_ms += for_ms + gap_ms(&mut random);
    }
    strikes
}

/// Whole milliseconds of a duration.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{scene, settings};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn same_seed_same_plan_and_healing_always_within_the_limit(
            seed in 0..1_u64 << 53, servers in 0..7_usize, clients in 1..7_usize, limit_s in 1..60_u64,
        ) {
            let (scene, settings) = (scene(servers, clients), settings(limit_s));
            let plan = draw(crate::registry(), &scene, &settings, Seed(seed));
            prop_assert_eq!(&plan, &draw(crate::registry(), &scene, &settings, Seed(seed)));
            for strike in &plan.strikes {
                prop_assert!(strike.at_ms + strike.for_ms <= limit_s * 1000);
                prop_assert!(!strike.on.is_empty());
                let known = |name: &String| scene.servers.contains(name) || scene.clients.contains(name);
                prop_assert!(strike.on.iter().all(known));
                let nemesis = crate::find(&strike.fault).expect("a registered nemesis");
                prop_assert!(nemesis.prepare(strike).is_ok());
            }
            for nemesis in crate::registry() {
                let own: Vec<_> = plan.strikes.iter().filter(|strike| strike.fault == nemesis.name()).collect();
                let apart = |pair: &[&Strike]| pair[0].at_ms + pair[0].for_ms <= pair[1].at_ms;
                prop_assert!(own.windows(2).all(apart), "strikes of one nemesis overlap");
            }
        }
    }

    #[test]
    fn a_nemesis_more_shifts_no_other() {
        let (scene, settings) = (scene(5, 5), settings(60));
        let alone = draw(&[crate::find("pause").unwrap()], &scene, &settings, Seed(7));
        let mut together = draw(crate::registry(), &scene, &settings, Seed(7));
        together.strikes.retain(|strike| strike.fault == "pause");
        assert_eq!(alone, together);
        assert!(alone.strikes.len() > 5);
    }

    #[test]
    fn a_plan_survives_its_file() {
        let plan = draw(crate::registry(), &scene(5, 5), &settings(20), Seed(1));
        assert_eq!(Plan::parse(&plan.to_toml(), &scene(5, 5)).unwrap(), plan);
    }

    #[test]
    fn a_plan_can_be_written_by_hand() {
        let text = r#"
            [[strike]]
            at = 3.5
            for = "2s"
            fault = "clock-jump"
            on = ["n3"]
            dose = { wall_ms = 30000, monotonic_ms = 30000 }

            [[strike]]
            when = { f = "acquire", client = "c1" }
            at = "10ms"
            for = "5s"
            fault = "pause"
            on = ["c1"]
        "#;
        let plan = Plan::parse(text, &scene(5, 5)).unwrap();
        assert_eq!((plan.strikes[0].at_ms, plan.strikes[0].for_ms), (3500, 2000));
        assert_eq!(plan.strikes[1].when.as_ref().unwrap().client.as_deref(), Some("c1"));
        assert_eq!(Plan::parse(&plan.to_toml(), &scene(5, 5)).unwrap(), plan);
    }

    #[test]
    fn faults_of_one_kind_do_not_meet_on_a_node() {
        let strike = |at: u32, fault: &str, on: &str, more: &str| {
            format!("[[strike]]\nat = {at}\nfor = 2\nfault = '{fault}'\non = ['{on}']\n{more}\n")
        };
        let read = |strikes: [String; 2]| Plan::parse(&strikes.concat(), &scene(3, 2));
        let met = read([strike(1, "pause", "n1", ""), strike(2, "leader-pause", "n1", "")]);
        assert!(
            met.is_err_and(|why| why.contains("strike 2 (leader-pause): it is on n1 while strike 1 (pause)"))
        );
        assert!(read([strike(2, "kill", "n1", ""), strike(1, "kill", "n1", "")]).is_err());
        // One after the other, on two nodes, of two kinds, and where events decide, all is well.
        let event = "when = { f = 'acquire' }";
        for second in [
            strike(3, "pause", "n1", ""),
            strike(1, "pause", "n2", ""),
            strike(1, "kill", "n1", ""),
            strike(1, "pause", "n1", event),
        ] {
            assert!(read([strike(1, "pause", "n1", ""), second.clone()]).is_ok(), "{second}");
        }
        let cut = "dose = { groups = [['c1'], ['n1']] }";
        assert!(read([strike(1, "partition", "c1", cut), strike(1, "partition", "c1", cut)]).is_ok());
    }

    #[test]
    fn a_plan_can_be_aimed_at_the_leader_where_there_is_one() {
        let text = "[[strike]]\nat = 1\nfor = 1\nfault = 'pause'\non = ['leader']";
        let led = Scene { has_leader: true, ..scene(3, 2) };
        assert!(Plan::parse(text, &led).is_ok());
        assert!(
            Plan::parse(text, &scene(3, 2)).is_err_and(|why| why.contains("none of these servers leads"))
        );
        let names: Vec<&str> = crate::registry().iter().map(|nemesis| nemesis.name()).collect();
        for name in names.iter().filter(|name| name.contains("leader") || **name == "failover") {
            let aimed = draw(&[crate::find(name).unwrap()], &led, &settings(20), Seed(1));
            assert!(aimed.strikes.iter().all(|strike| strike.on == [crate::LEADER]), "{name}");
            let drawn = draw(&[crate::find(name).unwrap()], &scene(3, 2), &settings(20), Seed(1));
            assert!(drawn.strikes.iter().all(|strike| strike.on.len() == 1 && strike.on != [crate::LEADER]));
            assert!(!aimed.strikes.is_empty() && !drawn.strikes.is_empty(), "{name}");
        }
    }

    #[test]
    fn mistakes_in_a_plan_are_named() {
        let refused = |strike: &str| {
            let text = format!("[[strike]]\nat = 1\nfor = 1\nfault = \"pause\"\non = [\"n1\"]\n{strike}");
            // A key that stands twice is itself a mistake: the later line replaces the earlier one here.
            let lines: Vec<&str> = text.lines().collect();
            let key = |line: &str| line.split('=').next().unwrap_or_default().trim().to_owned();
            let kept = lines
                .iter()
                .enumerate()
                .filter(|(at, line)| !lines[at + 1..].iter().any(|later| key(later) == key(line)));
            let text: Vec<&str> = kept.map(|(_, line)| *line).collect();
            Plan::parse(&text.join("\n"), &scene(2, 2)).unwrap_err()
        };
        assert!(refused("on = [\"n9\"]").contains("n9"));
        assert!(refused("on = []").contains("nobody"));
        assert!(refused("for = -2").contains("length of time"));
        assert!(refused("for = 0").contains("longer than 0"));
        assert!(refused("fault = \"puase\"").contains("no nemesis"));
        assert!(refused("until = 7").contains("until"));
        assert!(refused("when = { f = \"acquire\", client = \"c7\" }").contains("c7"));
        assert!(refused("for = \"x\"").contains("line 5"), "{}", refused("for = \"x\""));
    }
}
