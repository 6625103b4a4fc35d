//! Steps of a client's script, as a scenario names them: `acquire`, `wait c2 acquire`, `sleep 500ms`.

use super::event;
use crate::run::script_player::Step;
use crate::settings::names::unknown;
use fencepost_history::TimeSpan;
use fencepost_nemesis::Refusal;
use serde::de::{Deserialize, Deserializer, Error};

pub(super) const STEPS: &[(&str, Step)] = &[
    ("acquire", Step::Acquire),
    ("acquire shared", Step::AcquireShared),
    ("try acquire", Step::TryAcquire),
    ("read", Step::Read),
    ("write", Step::Write),
    ("holds", Step::Holds),
    ("release", Step::Release),
    ("reenter", Step::Reenter),
    ("leave", Step::Leave),
    ("stop unless ok", Step::StopUnlessOk),
];

/// Reads the text of a step. Errors: the step, its event or its duration is unknown.
pub(super) fn parse(text: &str) -> Result<Step, Refusal> {
    if let Some((_, step)) = STEPS.iter().find(|(name, _)| *name == text) {
        return Ok(step.clone());
    }
    match text.split_once(' ') {
        Some(("wait", event)) => event::parse(event).map(Step::Wait),
        Some(("sleep", time)) => {
            let time: Result<TimeSpan, _> = time.parse();
            time.map(|time| Step::Sleep(time.0)).map_err(|error| Refusal::new(error.to_string()))
        }
        _ => {
            let mut known: Vec<&str> = STEPS.iter().map(|(name, _)| *name).collect();
            known.extend(["wait EVENT", "sleep TIME"]);
            Err(Refusal::new(unknown("step", text, &known)))
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct StepText(pub Step);

impl<'de> Deserialize<'de> for StepText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StepText, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).map(StepText).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_step_is_read() {
        assert_eq!(parse("acquire").unwrap(), Step::Acquire);
        assert_eq!(parse("stop unless ok").unwrap(), Step::StopUnlessOk);
        assert_eq!(parse("sleep 300ms").unwrap(), Step::Sleep(Duration::from_millis(300)));
        assert_eq!(parse("wait c2 acquire").unwrap(), Step::Wait(event::parse("c2 acquire").unwrap()));
    }

    #[test]
    fn an_unknown_step_is_refused_with_what_was_meant() {
        assert_eq!(
            parse("aquire").unwrap_err().sentence,
            "unknown step \"aquire\": did you mean \"acquire\"?"
        );
        assert!(parse("wait c2 aquire").unwrap_err().sentence.contains("did you mean \"acquire\"?"));
        assert!(parse("sleep 5x").unwrap_err().sentence.contains("invalid duration \"5x\""));
    }
}
