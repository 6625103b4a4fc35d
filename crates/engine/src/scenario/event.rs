//! Events of the history as a scenario names them: `c2 acquire`, `c1 begins release`, `pause healed`.

use crate::names::pick;
use fencepost_history::{FaultStage, Kind, f};
use fencepost_nemesis::Trigger;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::fmt;

/// Operations of a client.
const OPERATIONS: &[&str] = &[f::ACQUIRE, f::READ, f::WRITE, f::HOLDS, f::RELEASE];

/// Stands for every client.
const ANY: &str = "any";

/// The forms of the text.
const FORMS: &str = "\"c1 acquire\", \"c1 begins write\", \"c1 fails release\", \"c1 at POINT\", \"FAULT injected\" or \
                     \"FAULT healed\"";

/// An event that is waited for. In a file it is a text, or a table as in a plan of faults.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AwaitedEvent(pub Trigger);

/// Reads the text of an event.
///
/// # Errors
/// One sentence: the form, the operation, the point or the fault is unknown.
pub(super) fn parse(text: &str) -> Result<Trigger, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (words, times) = match &words[..] {
        [words @ .., number, "times"] => {
            let times = number.parse().ok().filter(|times| *times > 0);
            (words, times.ok_or_else(|| format!("\"{number}\" is not a number of times"))?)
        }
        words => (words, 1),
    };
    let trigger = match *words {
        [fault, "injected"] => of_fault(fault, FaultStage::Inject)?,
        [fault, "healed"] => of_fault(fault, FaultStage::Heal)?,
        [client, "begins", operation] => of_client(client, operation, Kind::Invoke)?,
        [client, "fails", operation] => of_client(client, operation, Kind::Fail)?,
        [client, "at", point] => at_point(client, point)?,
        [client, operation] => of_client(client, operation, Kind::Ok)?,
        _ => return Err(format!("\"{text}\" is not an event: expected {FORMS}")),
    };
    Ok(Trigger { times, ..trigger })
}

/// The text of an event; none where only a table can say it.
pub(super) fn text(trigger: &Trigger) -> Option<String> {
    let usual = if f::is_notice(&trigger.f) { Kind::Info } else { Kind::Ok };
    let trigger = Trigger { kind: Some(trigger.kind.unwrap_or(usual)), ..trigger.clone() };
    let client = trigger.client.as_deref().unwrap_or(ANY);
    let name = &trigger.f;
    let text = match (trigger.stage, &trigger.point, trigger.kind) {
        (Some(FaultStage::Inject), ..) => format!("{name} injected"),
        (Some(FaultStage::Heal), ..) => format!("{name} healed"),
        (_, Some(point), _) => format!("{client} at {point}"),
        (.., Some(Kind::Invoke)) => format!("{client} begins {name}"),
        (.., Some(Kind::Fail)) => format!("{client} fails {name}"),
        _ => format!("{client} {name}"),
    };
    let text = if trigger.times == 1 { text } else { format!("{text} {} times", trigger.times) };
    (parse(&text).as_ref() == Ok(&trigger)).then_some(text)
}

fn of_fault(fault: &str, stage: FaultStage) -> Result<Trigger, String> {
    let known = pick("fault", fault, fencepost_nemesis::registry(), |nemesis| nemesis.name());
    known.map_err(|error| error.0)?;
    Ok(Trigger { kind: Some(Kind::Ok), stage: Some(stage), ..Trigger::of(fault) })
}

fn of_client(client: &str, operation: &str, kind: Kind) -> Result<Trigger, String> {
    pick("operation", operation, OPERATIONS, |name| name).map_err(|error| error.0)?;
    Ok(Trigger { kind: Some(kind), client: named(client), ..Trigger::of(operation) })
}

fn at_point(client: &str, point: &str) -> Result<Trigger, String> {
    let known = pick("point", point, fencepost_locks::points(), |(name, _)| name);
    known.map_err(|error| error.0)?;
    let (kind, point) = (Some(Kind::Info), Some(point.to_owned()));
    Ok(Trigger { kind, client: named(client), point, ..Trigger::of(f::AT) })
}

fn named(client: &str) -> Option<String> {
    (client != ANY).then(|| client.to_owned())
}

impl<'de> Deserialize<'de> for AwaitedEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AwaitedEvent, D::Error> {
        deserializer.deserialize_any(EventVisitor)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = AwaitedEvent;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an event: {FORMS}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<AwaitedEvent, E> {
        parse(text).map(AwaitedEvent).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AwaitedEvent, A::Error> {
        Trigger::deserialize(MapAccessDeserializer::new(map)).map(AwaitedEvent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read() {
        let of = |client: &str, f: &str, kind| Trigger {
            kind: Some(kind),
            client: Some(client.to_owned()),
            ..Trigger::of(f)
        };
        assert_eq!(parse("c2 acquire").unwrap(), of("c2", f::ACQUIRE, Kind::Ok));
        assert_eq!(parse("c1 begins release").unwrap(), of("c1", f::RELEASE, Kind::Invoke));
        assert_eq!(parse("c1 fails write").unwrap(), of("c1", f::WRITE, Kind::Fail));
        let any = Trigger { client: None, times: 10, ..of("", f::HOLDS, Kind::Invoke) };
        assert_eq!(parse("any begins holds 10 times").unwrap(), any);
        let at = parse("c1 at before-replies").unwrap();
        assert_eq!((at.f.as_str(), at.point.as_deref()), (f::AT, Some("before-replies")));
        let healed = parse("clock-jump healed 2 times").unwrap();
        assert_eq!(
            (healed.f.as_str(), healed.stage, healed.times),
            ("clock-jump", Some(FaultStage::Heal), 2)
        );
        assert_eq!(parse("pause injected").unwrap().stage, Some(FaultStage::Inject));
    }

    #[test]
    fn an_event_has_a_text_where_the_text_says_all_of_it() {
        for form in [
            "c2 acquire",
            "any begins release",
            "c1 fails write 3 times",
            "pause healed",
            "any at before-replies",
        ] {
            assert_eq!(text(&parse(form).unwrap()).as_deref(), Some(form));
        }
        assert_eq!(text(&Trigger::of(f::ACQUIRE)).as_deref(), Some("any acquire"));
        let granted = Trigger { granted_by: Some("n3".to_owned()), ..Trigger::of(f::ACQUIRE) };
        assert_eq!(text(&granted), None);
    }

    #[test]
    fn what_is_no_event_is_refused_with_what_was_meant() {
        let refused = |text: &str| parse(text).unwrap_err();
        assert_eq!(refused("puase healed"), "unknown fault \"puase\": did you mean \"pause\"?");
        assert_eq!(refused("c1 aquire"), "unknown operation \"aquire\": did you mean \"acquire\"?");
        assert!(refused("c1 at before-reply").contains("did you mean \"before-replies\"?"));
        assert!(refused("c1 acquire many times").contains("not a number of times"));
        assert!(refused("c1").contains("is not an event: expected"));
    }
}
