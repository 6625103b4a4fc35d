use super::*;
use serde_json::Value;

/// A history in words, one event each: `1 acquire>` is an invocation, `1 acquire+`, `-` and `?` are its
/// ends, `1 lost!` a notice. A word behind it is the value, in JSON.
fn events(text: &str) -> Vec<Event> {
    let event = |line: &str| {
        let mut words = line.split_whitespace();
        let process = words.next().and_then(|word| word.parse().ok()).expect("a process");
        let (f, end) = words.next().map(|word| word.split_at(word.len() - 1)).expect("an operation");
        let kind = match end {
            ">" => Kind::Invoke,
            "+" => Kind::Ok,
            "-" => Kind::Fail,
            _ => Kind::Info,
        };
        let value: Value = words.next().map_or(Value::Null, |json| serde_json::from_str(json).expect("JSON"));
        let (process, f) = (Process::Client(process), f.into());
        Event { index: 0, time: 0, process, kind, f, key: None, value: value.into(), error: None }
    };
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(event).collect()
}

fn changes(text: &str) -> Vec<Change<&'static str>> {
    let mut tracker = Tracker::default();
    events(text).iter().map(|event| tracker.push(event, "k").expect("it can follow")).collect()
}

fn completed<'c>(change: &'c Change<&'static str>) -> &'c Completed<&'static str> {
    match change {
        Change::Completed(completed) => completed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hold_begins_with_its_grant_and_ends_as_its_process_begins_to_release() {
    let changes = changes("1 acquire>\n1 acquire+\n1 write>\n1 write+\n1 release>\n1 release+");
    let granted = completed(&changes[1]).granted.as_ref().map(|granted| (granted.hold, granted.claim));
    assert_eq!(granted, Some((0, Claim::EXCLUSIVE)));
    assert_eq!((completed(&changes[3]).under, completed(&changes[3]).belief), (Some(0), Belief::Shown));
    let ended = Some((0, HoldEnd::Released));
    assert_eq!(changes[4], Change::Invoked { operation: 2, under: Some(0), ended });
    assert_eq!(completed(&changes[5]).belief, Belief::Unknown);
}

#[test]
fn a_process_that_acquires_again_ends_its_hold_and_one_that_is_over_leaves_it() {
    let again = changes("1 acquire>\n1 acquire+\n1 acquire>\n1 acquire+\n1 write>\n1 write?");
    assert_eq!(
        again[2],
        Change::Invoked { operation: 1, under: Some(0), ended: Some((0, HoldEnd::Reacquired)) }
    );
    assert_eq!(
        (completed(&again[5]).belief, &completed(&again[5]).abandoned[..]),
        (Belief::Unknown, &[1][..])
    );
}

#[test]
fn belief_once_denied_is_not_shown_again() {
    let said = changes("1 acquire>\n1 acquire+\n1 holds>\n1 holds+ false\n1 write>\n1 write+");
    assert_eq!([3, 5].map(|at| completed(&said[at]).belief), [Belief::Denied; 2]);
}

#[test]
fn a_lock_that_was_reported_lost_may_be_kept_until_its_process_lets_go() {
    let lost =
        changes("1 acquire>\n1 acquire+\n1 write>\n1 lost!\n1 write+\n1 renewed!\n1 release>\n1 release-");
    assert_eq!((&lost[3], &lost[5]), (&Change::Lost(Some(0)), &Change::Renewed(None)));
    assert_eq!(completed(&lost[4]).belief, Belief::Shown);
    assert_eq!(lost[6], Change::Invoked { operation: 2, under: None, ended: None });
    assert_eq!(completed(&lost[7]).let_go, [0]);
    let over = changes("1 acquire>\n1 acquire+\n1 lost!\n1 read>\n1 read?");
    assert_eq!(completed(&over[4]).let_go, [0]);
}

#[test]
fn what_cannot_follow_is_refused_and_changes_nothing() {
    let mut tracker = Tracker::default();
    let mut push = |text: &str| tracker.push(&events(text)[0], "k").err();
    assert_eq!(push("1 acquire+"), Some(Impossible::NeverInvoked));
    assert_eq!(push("1 acquire>"), None);
    assert_eq!(push("1 write>"), Some(Impossible::SecondOperation));
    assert_eq!(push("1 write+"), Some(Impossible::OtherOperation));
    assert_eq!(push("1 acquire+"), None);
    assert_eq!(tracker.kept(), 1);
}

#[test]
fn a_set_is_held_and_released_name_by_name() {
    let mut tracker = Tracker::default();
    let text = "1 acquire> {\"also\":[\"b\",\"k\",\"b\"]}\n1 acquire+\n1 release> {\"also\":[\"b\"]}\n1 release+ {\"believed\":true}";
    let changes: Vec<Vec<_>> = events(text)
        .iter()
        .map(|event| {
            let other = |name: &str| if name == "b" { "b" } else { "k" };
            tracker.push_all(event, "k", other).expect("it can follow").into_iter().collect()
        })
        .collect();
    let keys = |at: usize| changes[at].iter().map(|(key, _)| *key).collect::<Vec<_>>();
    assert_eq!([0, 1, 2, 3].map(keys), [["k", "b"]; 4]);
    let holds = |(_, change): &(_, Change<_>)| completed(change).granted.as_ref().map(|granted| granted.hold);
    assert_eq!(changes[1].iter().map(holds).collect::<Vec<_>>(), [Some(0), Some(1)]);
    let ended = |(_, change): &(_, Change<&str>)| match change {
        Change::Invoked { ended, .. } => *ended,
        other => panic!("{other:?}"),
    };
    let released = |hold| Some((hold, HoldEnd::Released));
    assert_eq!(changes[2].iter().map(ended).collect::<Vec<_>>(), [released(0), released(1)]);
    let belief = |(_, change): &(_, Change<_>)| completed(change).belief;
    assert_eq!(changes[3].iter().map(belief).collect::<Vec<_>>(), [Belief::Shown; 2]);
    assert_eq!(tracker.kept(), 0);
}

#[test]
fn nothing_of_a_process_that_is_over_is_kept() {
    let mut tracker = Tracker::default();
    for event in events("1 acquire>\n1 acquire+\n1 lost!\n1 read>\n1 read?\n2 acquire>\n2 acquire?") {
        tracker.push(&event, "k").expect("it can follow");
    }
    assert_eq!(tracker.kept(), 0, "{tracker:?}");
}
