//! Plans as files: what is read, and what is refused.

use super::*;
use crate::fault_text::FAULT_KEYS;
use crate::plan::draw_plan::draw;
use crate::plan::roles::LEADER;
use crate::registry::find;
use crate::testing::{settings, topology};
use fencepost_history::{FaultStage, Kind, Seed, f};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, json};

#[test]
fn a_plan_survives_its_file() {
    let plan = draw(registry(), &topology(5, 5), &settings(20), Seed(1));
    assert_eq!(Plan::parse(&plan.to_toml(), &topology(5, 5)).unwrap(), plan);
}

#[test]
fn the_groups_of_a_partition_name_its_targets() {
    let with = |on: &str| {
        let text = format!(
            "[[fault]]\nat_ms = 50\nfor_ms = 1500\nfault = \"partition\"\n{on}groups = [[\"c1\"], [\"n1\"]]"
        );
        Plan::parse(&text, &topology(5, 5)).unwrap()
    };
    assert_eq!(with(""), with("on = [\"c1\"]\n"));
    let unknown = "[[fault]]\nat_ms = 50\nfor_ms = 9\nfault = \"partition\"\ngroups = [[\"c1\"], [\"n9\"]]";
    assert!(Plan::parse(unknown, &topology(5, 5)).unwrap_err().sentence.contains("n9"));
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
fn one_language_and_the_forms_of_earlier_versions_say_the_same() {
    let read = |text: &str| Plan::parse(&format!("[[fault]]\n{text}"), &topology(5, 5)).unwrap();
    for (today, earlier) in [
        (
            "when = 'c1 acquire'\nafter = '100ms'\nfor = '3s'\nfault = 'clock-jump'\non = ['n3']\nwall = '-30s'",
            "when = { f = 'acquire', type = 'ok', client = 'c1' }\nat_ms = 100\nfor_ms = 3000\nfault = 'clock-jump'\n\
             on = ['n3']\nwall_ms = -30000",
        ),
        (
            "fault = 'partition'\ngroups = 'c1>n4,n5'\nfor = '1m'",
            "fault = 'partition'\non = ['c1']\ngroups = [['c1'], ['n4', 'n5']]\none_way = 'to-second'\nfor_ms = 60000",
        ),
        (
            "fault = 'pause'\non = ['c1']\nuntil = 'any begins write 2 times'",
            "fault = 'pause'\non = ['c1']\nuntil = { f = 'write', type = 'invoke', times = 2 }\nfor_ms = 3600000",
        ),
    ] {
        assert_eq!(read(today), read(earlier), "{today}");
    }
    let refused =
        |text: &str| Plan::parse(&format!("[[fault]]\n{text}"), &topology(5, 5)).unwrap_err().sentence;
    let twice = refused("fault = 'pause'\non = ['c1']\nfor = '3s'\nfor_ms = 3000");
    assert_eq!(twice, "line 5, fault 1 (pause): `for` and `for_ms` say the same: leave one out");
    let short = "fault = 'delay'\non = ['c1']\nfor = '1s'\n";
    assert_eq!(read(&format!("{short}delay = '500us'")), read(&format!("{short}delay_ms = 0.5")));
    let zero = refused("fault = 'pause'\non = ['c1']\nfor = '0s'");
    assert_eq!(zero, "line 4, fault 1 (pause): `for` must be longer than 0");
    let near = refused("fault = 'pause'\non = ['c1']\nstp = '50ms'\nrun = '20ms'");
    assert_eq!(near, "line 4, fault 1 (pause): unknown key \"stp\": did you mean \"stop\"?");
    let number = refused("fault = 'power-loss'\non = ['n1']\ntorn = 'prefix'\nseed = '7'");
    assert_eq!(number, "line 5, fault 1 (power-loss): `seed` is no duration");
    let value = refused("fault = 'pause'\non = ['c1']\nstop = '50ms'\nrun = '-20ms'");
    assert!(value.starts_with("line 5, fault 1 (pause): invalid value: integer `-20`"), "{value}");
    let event = refused("fault = 'pause'\non = ['c1']\nwhen = 'c1 aquire'");
    assert_eq!(event, "line 4, fault 1 (pause): unknown operation \"aquire\": did you mean \"acquire\"?");
}

#[test]
fn the_documentation_names_every_key_of_a_fault() {
    let documentation = include_str!("../../../docs/nemeses.md");
    let (_, table) = documentation.split_once("| key of a fault | |\n|---|---|\n").expect("a table");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let keys: Vec<&str> = rows.map(|row| row.split('`').nth(1).expect("a key in backticks")).collect();
    assert_eq!(keys, FAULT_KEYS);
    let (_, example) = documentation.split_once("```toml\n").expect("an example");
    let (example, _) = example.split_once("```").expect("its end");
    assert_eq!(Plan::parse(example, &topology(5, 5)).map(|plan| plan.faults.len()), Ok(2));
}

#[test]
fn a_fault_is_written_in_one_language() {
    let text = r#"[[fault]]
when = "c1 acquire"
after = "100ms"
then = { f = "acquire", granted-by = "n2" }
fault = "partition"
on = ["c1"]
groups = "c1>n4,n5"
until = "any at before-replies"
for = "1500ms"

[[fault]]
fault = "delay"
on = ["holder"]
delay = "20500us"
peers = ["storage"]
ways = "out"
for = "3s"
"#;
    assert_eq!(Plan::parse(text, &topology(5, 5)).unwrap().to_toml(), text);
    assert_eq!(Plan::parse(&Plan::default().to_toml(), &topology(5, 5)), Ok(Plan::default()));
}

#[test]
fn faults_of_one_kind_do_not_meet_on_a_node() {
    let fault = |at: u32, fault: &str, on: &str, more: &str| {
        format!("[[fault]]\nat_ms = {at}000\nfor_ms = 2000\nfault = '{fault}'\non = ['{on}']\n{more}\n")
    };
    let read =
        |faults: [String; 2]| Plan::parse(&faults.concat(), &topology(3, 2)).map_err(|why| why.sentence);
    let met = read([fault(1, "pause", "n1", ""), fault(2, "leader-pause", "n1", "")]);
    assert!(met.is_err_and(|why| why.contains("fault 2 (leader-pause): it is on n1 while fault 1 (pause)")));
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
fn a_list_names_each_node_once() {
    let read = |lists: &str| {
        let text = format!("[[fault]]\nat_ms = 1\nfor_ms = 1\n{lists}");
        Plan::parse(&text, &topology(3, 2)).map(drop).map_err(|why| why.sentence)
    };
    let many = vec!["'c1'"; 100_000].join(", ");
    let refused = "line 5, fault 1 (pause): `on` names c1 twice; name it once";
    assert_eq!(read(&format!("fault = 'pause'\non = [{many}]")), Err(refused.to_owned()));
    let refused = "line 6, fault 1 (delay): `peers` names n1 twice; name it once";
    assert_eq!(
        read("fault = 'delay'\non = ['c1']\npeers = ['n1', 'n1']\ndelay_ms = 5.0"),
        Err(refused.to_owned())
    );
    assert_eq!(read("fault = 'pause'\non = ['c1', 'c2', 'holder']"), Ok(()));
}

#[test]
fn a_plan_of_many_faults_is_looked_through_once() {
    let fault = |at: u64| PlannedFault {
        at_ms: at,
        for_ms: 10,
        fault: "pause".to_owned(),
        on: vec!["n1".to_owned()],
        when: None,
        then: None,
        until: None,
        parameters: Map::new(),
    };
    let mut plan =
        Plan { swarm: Vec::new(), faults: (0..200_000).map(|number| fault(number * 10)).collect() };
    assert_eq!(plan.check_overlaps(), Ok(()));
    plan.faults.push(fault(1_000_005));
    let why = plan.check_overlaps().unwrap_err().sentence;
    assert!(
        why.starts_with("fault 200001 (pause): it is on n1 while fault 100001 (pause) still is"),
        "{why}"
    );
}

#[test]
fn a_flow_names_targets_and_peers() {
    let read = |text: &str| {
        let text = format!("[[fault]]\nat_ms = 1\nfor_ms = 1\n{text}");
        Plan::parse(&text, &topology(3, 2)).map(|plan| plan.faults[0].clone())
    };
    let delay = read("fault = 'delay'\nflow = 'holder > storage'\ndelay_ms = 5.0").unwrap();
    assert_eq!(
        (&delay.on[..], &delay.parameters["peers"]),
        (&["holder".to_owned()][..], &json!(["storage"]))
    );
    assert_eq!(delay.parameters["ways"], "out");
    let cut = read("fault = 'partition'\nflow = 'granting:2 > holder'").unwrap();
    assert_eq!(cut.parameters["groups"], json!([["granting:2"], ["holder"]]));
    assert_eq!((cut.on, &cut.parameters["one_way"]), (vec!["granting:2".to_owned()], &json!("to-second")));
    let refused = |text: &str| read(text).unwrap_err().sentence;
    let pause = refused("fault = 'pause'\nflow = 'holder > storage'");
    assert!(pause.starts_with("line 5, fault 1 (pause): pause does nothing to packets"), "{pause}");
    let both = refused("fault = 'delay'\non = ['c1']\nflow = 'c1 > n1'\ndelay_ms = 5.0");
    assert!(both.contains("leave out `on`"), "{both}");
    let three = refused("fault = 'delay'\nflow = 'c1 | n1 | n2'\ndelay_ms = 5.0");
    assert!(three.contains("it has two ends"), "{three}");
    let name = refused("fault = 'delay'\nflow = 'holdr > n1'\ndelay_ms = 5.0");
    assert!(name.contains("did you mean \"holder\"?"), "{name}");
}

#[test]
fn a_fault_of_servers_is_not_aimed_at_clients() {
    let read = |fault: &str, on: &str| {
        let text = format!("[[fault]]\nat_ms = 1\nfor_ms = 1\nfault = '{fault}'\non = ['{on}']");
        Plan::parse(&text, &topology(3, 2)).map(drop).map_err(|why| why.sentence)
    };
    let refused = "line 5, fault 1 (power-loss): power-loss is a fault of servers, and holder is none: name a server (n1, n2, n3)";
    assert_eq!(read("power-loss", "holder"), Err(refused.to_owned()));
    assert!(read("kill", "storage").is_err_and(|why| why.contains("would end the storage")));
    assert!(read("power-loss", "c1").is_err());
    assert_eq!((read("power-loss", "granting:2"), read("pause", "holder")), (Ok(()), Ok(())));
}

#[test]
fn a_plan_can_be_aimed_at_the_leader_where_there_is_one() {
    let text = "[[fault]]\nat_ms = 1000\nfor_ms = 1000\nfault = 'pause'\non = ['leader']";
    let led = Topology { has_leader: true, ..topology(3, 2) };
    assert!(Plan::parse(text, &led).is_ok());
    assert!(Plan::parse(text, &topology(3, 2)).is_err_and(|why| why.sentence.contains("none of these")));
    let names: Vec<&str> = registry().iter().map(|nemesis| nemesis.name()).collect();
    for name in names.iter().filter(|name| name.contains("leader") || **name == "failover") {
        let aimed = draw(&[find(name).unwrap()], &led, &settings(20), Seed(1));
        assert!(aimed.faults.iter().all(|fault| fault.on == [LEADER]), "{name}");
        // Without a leader, a server that granted the lock takes its place.
        let drawn = draw(&[find(name).unwrap()], &topology(3, 2), &settings(20), Seed(1));
        assert!(drawn.faults.iter().all(|fault| fault.on.len() == 1 && fault.on != [LEADER]));
        assert!(drawn.faults[0].on == ["granting:1"], "{name}");
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
        Plan::parse(&text.join("\n"), &topology(2, 2)).unwrap_err().sentence
    };
    assert!(refused("on = [\"n9\"]").contains("n9"));
    assert!(refused("on = []").contains("no node"));
    assert!(refused("for_ms = -2").contains("-2"));
    assert!(refused("for_ms = 0").contains("longer than 0"));
    for key in ["at_ms", "for_ms", "stop_ms"] {
        let long = refused(&format!("{key} = 9223372036854775807"));
        assert!(long.contains(&format!("`{key}` is at most 3153600000000 ms (100 years)")), "{long}");
    }
    let back = refused("fault = \"clock-jump\"\nwall_ms = -9223372036854775807");
    assert!(back.starts_with("line 6, fault 1 (clock-jump): `wall_ms` is at most"), "{back}");
    let often = refused("fault = \"power-loss\"\nflicker_ms = 1\nflickers = 4294967295");
    assert!(often.contains("`flickers` is from 1 to 100, not 4294967295"), "{often}");
    assert!(refused("fault = \"puase\"").contains("did you mean \"pause\"?"));
    assert!(refused("stop = 7").contains("unknown key \"stop\": did you mean \"stop_ms\"?"));
    assert!(refused("when = { f = \"acquire\", client = \"c7\" }").contains("c7"));
    let never = refused("when = { f = \"nope\" }");
    assert!(never.starts_with("line 6, fault 1 (pause): `when`: unknown event \"nope\""), "{never}");
    assert!(refused("then = { f = \"acquire\", granted-by = \"zz\" }").contains("no server zz"));
    for name in ["kill", "failover", "leader-kill"] {
        let text = refused(&format!("fault = \"{name}\"\nhard = 7"));
        assert!(text.starts_with(&format!("line 6, fault 1 ({name}): unknown key \"hard\"")), "{text}");
    }
    assert!(refused("fault = \"disk-full\"\non = [\"storage\"]").contains("storage is none"));
    assert!(refused("for_ms = \"x\"").starts_with("line 5"), "{}", refused("for_ms = \"x\""));
    assert!(
        refused("wenn = 7")
            .starts_with("line 6, fault 1 (pause): unknown key \"wenn\": did you mean \"when\"?")
    );
}

/// An event that can come in a run of five servers and five clients.
fn event() -> impl Strategy<Value = Trigger> {
    let names = select(vec![f::ACQUIRE, f::READ, f::HOLDS, f::RELEASE, f::LOST, f::AT, "pause", "kill"]);
    let kinds = option::of(select(vec![Kind::Invoke, Kind::Ok, Kind::Fail, Kind::Info]));
    let details =
        (option::of("c[1-5]"), option::of("n[1-5]"), option::of("k[01]"), option::of("before-[a-z]{1,5}"));
    let stages = option::of(select(vec![FaultStage::Inject, FaultStage::Heal]));
    let bounds = (option::of(0..900u64), 1..4u64, any::<bool>());
    (names, kinds, details, stages, bounds).prop_map(
        |(name, kind, details, stage, (write_ms, times, free))| {
            let (client, granted_by, key, point) = details;
            let (of_nemesis, is_notice) = (find(name).is_some(), f::is_notice(name));
            let trigger = Trigger {
                client: client.filter(|_| !of_nemesis),
                key: key.filter(|_| !of_nemesis),
                write_ms: write_ms.filter(|_| !of_nemesis),
                free: free && !of_nemesis,
                granted_by: granted_by.filter(|_| name == f::ACQUIRE),
                point: point.filter(|_| name == f::AT),
                stage: stage.filter(|_| of_nemesis),
                times,
                ..Trigger::of(name)
            };
            match kind.filter(|_| !is_notice) {
                Some(kind) => trigger.with_kind(kind),
                None => trigger,
            }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_as_the_same_plan(
        (when, then, until) in (option::of(event()), option::of(event()), option::of(event())),
        (at_ms, for_ms) in (0..1_000_000u64, 1..1_000_000u64),
        fault in select(vec![
            ("clock-jump", json!({"wall_ms": -30000, "monotonic_ms": 1})),
            ("delay", json!({"delay_ms": 20.25, "peers": ["storage"], "ways": "out"})),
            ("partition", json!({"groups": [["c1"], ["n4", "granting:2"]], "one_way": "to-first"})),
            ("partition", json!({"groups": [["c1"], ["n4"], ["n5", "storage"]]})),
            ("partition", json!({"deaf": {"c1": ["n1", "n2"]}})),
            ("power-loss", json!({"torn": "prefix", "seed": 7, "supervised_ms": 4000})),
        ]),
    ) {
        let (fault, parameters) = (fault.0.to_owned(), fault.1.as_object().expect("an object").clone());
        let on = vec![if fault == "power-loss" { "n1" } else { "c1" }.to_owned()];
        let fault = PlannedFault { at_ms, for_ms, fault, on, when, then, until, parameters };
        let plan = Plan { swarm: Vec::new(), faults: vec![fault] };
        prop_assert_eq!(Plan::parse(&plan.to_toml(), &topology(5, 5)), Ok(plan));
    }
}
