//! Events of the history as a scenario names them: those of a fault, at points that recipes have.

use fencepost_history::prose::unknown;
use fencepost_nemesis::{Refusal, Trigger};
use serde::de::{Deserialize, Deserializer, Error};

/// Reads the text of an event. Errors: the form, the operation, the point or the fault is unknown.
pub(super) fn parse(text: &str) -> Result<Trigger, Refusal> {
    let trigger = Trigger::of_text(text)?;
    check_point(&trigger)?;
    Ok(trigger)
}

pub(super) fn check_point(trigger: &Trigger) -> Result<(), Refusal> {
    let Some(point) = &trigger.point else { return Ok(()) };
    let known: Vec<&str> = fencepost_locks::points().iter().map(|(name, _)| *name).collect();
    if known.contains(&point.as_str()) { Ok(()) } else { Err(Refusal::new(unknown("point", point, &known))) }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScenarioEvent(pub Trigger);

impl<'de> Deserialize<'de> for ScenarioEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ScenarioEvent, D::Error> {
        let fencepost_nemesis::AwaitedEvent(trigger) = Deserialize::deserialize(deserializer)?;
        check_point(&trigger).map_err(D::Error::custom)?;
        Ok(ScenarioEvent(trigger))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_that_no_recipe_has_is_refused_with_what_was_meant() {
        assert!(parse("c1 at before-replies").is_ok());
        let refused = parse("c1 at before-reply").unwrap_err().sentence;
        assert!(refused.contains("did you mean \"before-replies\"?"), "{refused}");
    }
}
