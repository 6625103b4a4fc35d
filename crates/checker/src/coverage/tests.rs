use super::*;
use crate::testing::literal::events;
use crate::testing::random_run::histories;
use proptest::prelude::*;

/// Two clients; process 1 (c2) holds a from 20 ms on, writes, renews and releases; process 2 (c1) waits all
/// the time.
const LIFE: &str = "
    0   nemesis info nodes   - {slots:[\"c1\",\"c2\",\"c3\"],storage:[\"storage\"],hit-by:{pause:[\"client\",\"server\",\"storage\"]}}
    0   nemesis info nemeses - [\"pause\"]
    0   nemesis info servers - [\"n1\",\"n2\"]
    2   1 invoke acquire a {ttl_ms:200}
    20  1 ok     acquire a {granted_by:[\"n1\"]}
    22  0 invoke acquire a {ttl_ms:200}
    30  1 invoke write   a 7
    40  1 ok     write   a 7
    60  1 info   renewed a {age_ms:10}
    70  1 invoke release a
    80  1 ok     release a {believed:true}
    90  0 fail   acquire a null taken
    95  1 info   lost    b";

/// The history with a fault that was injected on a node at this time.
fn with_fault(text: &str, at_ms: u64, target: &str, more: &str) -> String {
    let mut lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let time = |line: &str| line.split(' ').next().and_then(|time| time.parse::<u64>().ok()).unwrap();
    let place = lines.iter().position(|line| time(line) > at_ms).unwrap_or(lines.len());
    let value = format!("{{id:{at_ms},stage:\"inject\",targets:[\"{target}\"]{more}}}");
    let begin = format!("{at_ms} nemesis invoke pause - {value}");
    let end = format!("{at_ms} nemesis ok pause - {value}");
    lines.splice(place..place, [&*begin, &*end]);
    lines.join("\n")
}

fn covered(text: &str) -> Vec<String> {
    let events = events(text);
    let coverage = Coverage::of(&RunIndex::new(&events).unwrap());
    let none = Coverage::default();
    coverage.beyond(&none).map(|situation| situation.to_string().replace("pause × ", "")).collect()
}

fn met(at_ms: u64, target: &str) -> String {
    covered(&with_fault(LIFE, at_ms, target, ",effective:true")).join("; ")
}

#[test]
fn a_client_is_a_holder_a_waiter_or_idle() {
    assert_eq!(met(10, "c2"), "waiter's client × acquire in flight");
    assert_eq!(met(25, "c2"), "holder's client × held");
    assert_eq!(met(75, "c2"), "holder's client × releasing");
    assert_eq!(met(25, "c1"), "waiter's client × held");
    assert_eq!(met(25, "c3"), "idle client × held");
    assert_eq!(met(1, "c2"), "idle client × free");
    assert_eq!(met(92, "c1"), "idle client × free");
}

#[test]
fn the_life_of_a_lock_has_six_phases() {
    let phases = [1, 10, 25, 35, 55, 65, 75, 85].map(|at| met(at, "storage").replace("storage × ", ""));
    let expected = [
        "free",
        "acquire in flight",
        "held",
        "write in flight",
        "renewing",
        "held",
        "releasing",
        "acquire in flight",
    ];
    assert_eq!(phases, expected);
}

#[test]
fn a_server_is_known_by_what_it_granted() {
    assert_eq!(met(25, "n1"), "granting server × held");
    assert_eq!(met(25, "n2"), "other server × held");
    // The acquire in flight is granted by n1 later.
    assert_eq!(met(10, "n1"), "granting server × acquire in flight");
    // This one never is.
    assert_eq!(met(85, "n1"), "other server × acquire in flight");
    let unnamed = LIFE.replace("{granted_by:[\"n1\"]}", "");
    let on_n1 = |text: &str, more: &str| covered(&with_fault(text, 25, "n1", more)).join("; ");
    assert_eq!(on_n1(&unnamed, ",effective:true"), "server × held");
    assert_eq!(on_n1(&unnamed.replace(",\"n2\"", ""), ",effective:true"), "granting server × held");
}

#[test]
fn a_server_leads_if_the_fault_was_aimed_at_the_leader_or_saw_it_lead() {
    let on_n1 = |more: &str| covered(&with_fault(LIFE, 25, "n1", more)).join("; ");
    assert_eq!(on_n1(",effective:true,aimed:[\"leader\"]"), "leader × held");
    assert_eq!(on_n1(",effective:true,aimed:[\"follower\"]"), "follower × held");
    assert_eq!(on_n1(",effective:true,observed:{n1:{led:true}}"), "leader × held");
    // Which of the targets leads is not known.
    assert_eq!(on_n1(",effective:true,aimed:[\"leader\",\"follower\"]"), "granting server × held");
}

#[test]
fn a_fault_without_effect_covers_nothing() {
    assert_eq!(covered(&with_fault(LIFE, 25, "c2", ",effective:false")), Vec::<String>::new());
    assert_eq!(covered(&with_fault(LIFE, 25, "elsewhere", ",effective:true")), Vec::<String>::new());
}

#[test]
fn a_process_that_is_gone_holds_until_its_lease_has_run_out() {
    let gone = LIFE.replace("    70  1 invoke release a\n    80  1 ok     release a {believed:true}\n", "")
        + "\n 400 2 invoke acquire b\n 410 2 fail acquire b";
    let storage = |at| covered(&with_fault(&gone, at, "storage", ",effective:true"));
    // Renewed at 50 ms, for 200 ms.
    assert!(storage(249).contains(&"storage × held".to_owned()));
    assert_eq!(storage(251), ["storage × free"]);
}

#[test]
fn a_client_that_holds_one_key_and_waits_for_another_is_a_holder() {
    let both = LIFE
        .replace("22  0 invoke acquire a", "22  4 invoke acquire b")
        .replace("90  0 fail   acquire a", "90 4 fail acquire b");
    assert_eq!(covered(&with_fault(&both, 25, "c2", ",effective:true")), ["holder's client × held"]);
    assert_eq!(
        covered(&with_fault(&both, 25, "n2", ",effective:true")),
        ["other server × acquire in flight", "other server × held"]
    );
}

fn possible(text: &str) -> usize {
    let events = events(text);
    Coverage::of(&RunIndex::new(&events).unwrap()).possible()
}

#[test]
fn what_is_possible_follows_from_the_run() {
    // 4 holder, 5 waiter, 6 idle, 5 granting, 6 other, 6 storage.
    assert_eq!(possible(LIFE), 32);
    let clients = LIFE.replace("[\"client\",\"server\",\"storage\"]", "[\"client\"]");
    assert_eq!(possible(&clients), 15);
    assert_eq!(possible(&clients.replace("\"c2\",\"c3\"", "\"c1\"")), 4 + 1 + 1);
    // Without renewals and without writes.
    let plain = clients.replace("60  1 info   renewed a {age_ms:10}", "").replace("write", "read");
    assert_eq!(possible(&plain), 2 + 3 + 4);
    assert_eq!(possible(&clients.replace("nemeses - [\"pause\"]", "nemeses - []")), 0);
}

#[test]
fn a_nemesis_of_which_nothing_is_known_can_hit_what_it_did_hit() {
    let silent = LIFE.replace(",hit-by:{pause:[\"client\",\"server\",\"storage\"]}", "");
    assert_eq!(possible(&silent), 0);
    assert_eq!(possible(&with_fault(&silent, 25, "c2", ",effective:true")), 15);
    assert_eq!(possible(&with_fault(&silent, 25, "n1", ",effective:false")), 11);
}

#[test]
fn a_leader_differs_from_followers_where_the_service_has_one() {
    let led = LIFE.replace("storage:[", "leader:true,storage:[").replace("{granted_by:[\"n1\"]}", "");
    assert_eq!(possible(&led), 15 + 12 + 6);
}

#[test]
fn a_situation_is_as_near_as_the_handover_that_its_fault_may_have_caused() {
    let history = "
        0   nemesis info nodes   - {slots:[\"c1\",\"c2\",\"c3\"]}
        0   nemesis info nemeses - [\"pause\"]
        10  1 invoke acquire a {ttl_ms:200}
        20  1 ok     acquire a
        260 2 invoke acquire a {ttl_ms:200}
        300 2 ok     acquire a
        310 2 invoke release a
        320 2 ok     release a";
    let nearest = |at| {
        let events = events(&with_fault(history, at, "c2", ",effective:true"));
        let coverage = Coverage::of(&RunIndex::new(&events).unwrap());
        let reached: Vec<Reached> =
            coverage.situations().map(|(_, reached)| *reached).filter(|reached| reached.times > 0).collect();
        assert_eq!(reached.len(), 1);
        reached[0].nearest_ns
    };
    assert_eq!(nearest(50), Some(280_000_000));
    assert_eq!(nearest(305), None);
}

#[test]
fn a_fault_is_known_by_its_situations() {
    let events = events(&with_fault(LIFE, 25, "c2", ",effective:true"));
    let situations = situations_of(&RunIndex::new(&events).unwrap());
    assert_eq!(situations.len(), 1);
    assert_eq!(situations[0].0, 25);
    assert_eq!(situations[0].1[0].to_string(), "pause × holder's client × held");
}

#[test]
fn coverage_is_kept_as_a_list() {
    let events = events(&with_fault(LIFE, 25, "c2", ",effective:true"));
    let coverage = Coverage::of(&RunIndex::new(&events).unwrap());
    let text = serde_json::to_string(&coverage).unwrap();
    assert!(text.starts_with(r#"[{"fault":"pause","role":"holder","phase":"held","times":1},"#), "{text}");
    assert_eq!(serde_json::from_str::<Coverage>(&text).unwrap(), coverage);
    assert_eq!(coverage.to_string(), "1 of 32 situations covered");
}

fn of(events: &[Event]) -> Coverage {
    Coverage::of(&RunIndex::new(events).unwrap())
}

fn merged(parts: &[&Coverage]) -> Coverage {
    let mut whole = Coverage::default();
    parts.iter().for_each(|part| whole.merge(part));
    whole
}

fn covered_set(coverage: &Coverage) -> Vec<Situation> {
    coverage.beyond(&Coverage::default()).cloned().collect()
}

use fencepost_history::Event;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn coverage_adds_up_in_any_order(a in histories(), b in histories(), c in histories()) {
        let (a, b, c) = (of(&a), of(&b), of(&c));
        prop_assert_eq!(merged(&[&a, &b]), merged(&[&b, &a]));
        prop_assert_eq!(merged(&[&merged(&[&a, &b]), &c]), merged(&[&a, &merged(&[&b, &c])]));
        let whole = merged(&[&a, &b, &c]);
        // Once more adds nothing to the sets.
        let again = merged(&[&whole, &a]);
        prop_assert_eq!(covered_set(&again), covered_set(&whole));
        prop_assert_eq!((again.covered(), again.possible()), (whole.covered(), whole.possible()));
        prop_assert_eq!(a.beyond(&whole).count(), 0);
        prop_assert_eq!(a.covered() + b.beyond(&a).count(), merged(&[&a, &b]).covered());
    }

    #[test]
    fn never_more_is_covered_than_possible(events in histories()) {
        let run = RunIndex::new(&events).unwrap();
        let coverage = of(&events);
        prop_assert!(coverage.covered() <= coverage.possible());
        // What was covered was foreseen, but for servers of which nothing is known.
        let foreseen = possible::possible(&run);
        for situation in covered_set(&coverage) {
            let known = situation.role != TargetRole::Server;
            prop_assert!(foreseen.contains(&situation) || !known, "{}", situation);
        }
        let effective = run.faults.iter().filter(|fault| fault.effective).count() as u64;
        prop_assert!(coverage.situations().all(|(_, reached)| reached.times <= effective));
        prop_assert_eq!(coverage.covered() > 0, situations_of(&run).iter().any(|(_, met)| !met.is_empty()));
    }
}
