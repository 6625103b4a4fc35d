//! Events of the history as people write them: `c2 acquire`, `c1 begins release`, `pause healed`.

use crate::plan::trigger::Trigger;
use crate::registry::{find, registry};
use fencepost_history::prose::unknown;
use fencepost_history::{FaultStage, Kind, Refusal, f};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use std::fmt;

const ANY: &str = "any";

const FORMS: &str = "\"c1 acquire\", \"c1 begins write\", \"c1 fails release\", \"c1 at POINT\", \"FAULT injected\" or \
                     \"FAULT healed\"";

impl Trigger {
    /// Reads the text of an event. Errors: the form, the operation or the fault is unknown.
    pub fn of_text(text: &str) -> Result<Trigger, Refusal> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (words, times) = match &words[..] {
            [words @ .., number, "times"] => {
                let times = number.parse().ok().filter(|times| *times > 0);
                (words, times.ok_or_else(|| Refusal::new(format!("\"{number}\" is not a number of times")))?)
            }
            words => (words, 1),
        };
        let trigger = match *words {
            [fault, "injected"] => of_fault(fault, FaultStage::Inject)?,
            [fault, "healed"] => of_fault(fault, FaultStage::Heal)?,
            [client, "begins", operation] => of_client(client, operation, Kind::Invoke)?,
            [client, "fails", operation] => of_client(client, operation, Kind::Fail)?,
            [client, "at", point] => {
                Trigger { client: named(client), point: Some(point.to_owned()), ..Trigger::of(f::AT) }
            }
            [client, operation] => of_client(client, operation, Kind::Ok)?,
            _ => return Err(Refusal::new(format!("\"{text}\" is not an event: expected {FORMS}"))),
        };
        Ok(Trigger { times, ..trigger })
    }

    /// The text of an event; none where only a table can say it.
    pub fn text(&self) -> Option<String> {
        let client = self.client.as_deref().unwrap_or(ANY);
        let name = &self.f;
        let text = match (self.stage, &self.point, self.kind) {
            (Some(FaultStage::Inject), ..) => format!("{name} injected"),
            (Some(FaultStage::Heal), ..) => format!("{name} healed"),
            (_, Some(point), _) => format!("{client} at {point}"),
            (.., Some(Kind::Invoke)) => format!("{client} begins {name}"),
            (.., Some(Kind::Fail)) => format!("{client} fails {name}"),
            _ => format!("{client} {name}"),
        };
        let text = if self.times == 1 { text } else { format!("{text} {} times", self.times) };
        let said = Trigger::of_text(&text).ok()?;
        (said == self.clone().without_usual_kind()).then_some(text)
    }
}

fn of_fault(fault: &str, stage: FaultStage) -> Result<Trigger, Refusal> {
    if find(fault).is_none() {
        let names: Vec<&str> = registry().iter().map(|nemesis| nemesis.name()).collect();
        return Err(Refusal::new(unknown("fault", fault, &names)));
    }
    Ok(Trigger { stage: Some(stage), ..Trigger::of(fault) })
}

fn of_client(client: &str, operation: &str, kind: Kind) -> Result<Trigger, Refusal> {
    if !f::OPERATIONS.contains(&operation) {
        return Err(Refusal::new(unknown("operation", operation, &f::OPERATIONS)));
    }
    Ok(Trigger { client: named(client), ..Trigger::of(operation) }.with_kind(kind))
}

fn named(client: &str) -> Option<String> {
    (client != ANY).then(|| client.to_owned())
}

/// An event that is waited for, as it stands in a file: a text, or a table for what no text says.
#[derive(Clone, Debug, PartialEq)]
pub struct AwaitedEvent(pub Trigger);

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
        Trigger::of_text(text).map(AwaitedEvent).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AwaitedEvent, A::Error> {
        let trigger = Trigger::deserialize(MapAccessDeserializer::new(map))?;
        Ok(AwaitedEvent(trigger.without_usual_kind()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read() {
        let of = |client: &str, f: &str| Trigger { client: Some(client.to_owned()), ..Trigger::of(f) };
        let read = |text| Trigger::of_text(text).unwrap();
        assert_eq!(read("c2 acquire"), of("c2", f::ACQUIRE));
        assert_eq!(read("c1 begins release"), of("c1", f::RELEASE).with_kind(Kind::Invoke));
        assert_eq!(read("c1 fails write"), of("c1", f::WRITE).with_kind(Kind::Fail));
        let any = Trigger { client: None, times: 10, ..of("", f::HOLDS).with_kind(Kind::Invoke) };
        assert_eq!(read("any begins holds 10 times"), any);
        let at = read("c1 at before-replies");
        assert_eq!((at.f.as_str(), at.point.as_deref()), (f::AT, Some("before-replies")));
        let healed = read("clock-jump healed 2 times");
        assert_eq!(
            (healed.f.as_str(), healed.stage, healed.times),
            ("clock-jump", Some(FaultStage::Heal), 2)
        );
        assert_eq!(read("pause injected").stage, Some(FaultStage::Inject));
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
            assert_eq!(Trigger::of_text(form).unwrap().text().as_deref(), Some(form));
        }
        assert_eq!(Trigger::of(f::ACQUIRE).text().as_deref(), Some("any acquire"));
        let granted = Trigger { granted_by: Some("n3".to_owned()), ..Trigger::of(f::ACQUIRE) };
        assert_eq!(granted.text(), None);
    }

    #[test]
    fn what_is_no_event_is_refused_with_what_was_meant() {
        let refused = |text: &str| Trigger::of_text(text).unwrap_err().sentence;
        assert_eq!(refused("puase healed"), "unknown fault \"puase\": did you mean \"pause\"?");
        assert_eq!(refused("c1 aquire"), "unknown operation \"aquire\": did you mean \"acquire\"?");
        assert!(refused("c1 acquire many times").contains("not a number of times"));
        assert!(refused("c1").contains("is not an event: expected"));
    }

    #[test]
    fn a_table_that_says_what_a_text_says_is_the_same_event() {
        #[derive(serde::Deserialize)]
        struct Table {
            when: AwaitedEvent,
        }
        let read = |when: &str| toml::from_str::<Table>(&format!("when = {when}")).unwrap().when;
        assert_eq!(read("{ f = 'acquire', type = 'ok', client = 'c1' }"), read("'c1 acquire'"));
        assert_eq!(read("{ f = 'pause', stage = 'heal' }"), read("'pause healed'"));
    }
}
