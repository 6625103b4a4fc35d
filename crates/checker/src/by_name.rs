use crate::judge::{CheckOptions, KeyVerdict, judge};
use crate::models::lease_mutex;
use crate::models::{FencedMutex, Mutex, OwnerMutex, ReentrantMutex, Register, SharedLock};
use crate::read::{Lines, ReadError, ReadOptions, read};
use fencepost_history::Refusal;
use std::fmt;
use std::str::FromStr;

fencepost_history::worded! {
    /// A model that histories can be checked against, by its name on the command line.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ModelName {
        Mutex = "mutex",
        OwnerMutex = "owner-mutex",
        FencedMutex = "fenced-mutex",
        ReentrantMutex = "reentrant-mutex",
        SharedLock = "shared-lock",
        LeaseMutex = "lease-mutex",
        Register = "register",
        CasRegister = "cas-register",
    }
    pub fn name;
}

impl fmt::Display for ModelName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl FromStr for ModelName {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<ModelName, Refusal> {
        let names = ModelName::ALL.map(ModelName::name).join(", ");
        let found = ModelName::ALL.into_iter().find(|model| model.name() == text);
        found.ok_or_else(|| Refusal::new(format!("there is no model {text}; expected one of {names}")))
    }
}

/// Reads a history and judges it by a model, key by key. The error: text that is no history of this model.
pub fn check_lines(
    model: ModelName,
    lines: &mut dyn Lines,
    reading: &ReadOptions,
    options: &CheckOptions,
) -> Result<Vec<KeyVerdict>, ReadError> {
    let register = Register::starting_with(reading.initial.as_deref());
    Ok(match model {
        ModelName::Mutex => judge(&read(&Mutex, lines, reading)?, options),
        ModelName::OwnerMutex => judge(&read(&OwnerMutex, lines, reading)?, options),
        ModelName::FencedMutex => judge(&read(&FencedMutex, lines, reading)?, options),
        ModelName::ReentrantMutex => judge(&read(&ReentrantMutex, lines, reading)?, options),
        ModelName::SharedLock => judge(&read(&SharedLock, lines, reading)?, options),
        ModelName::LeaseMutex => lease_mutex::check(lines, reading, options)?,
        ModelName::Register => judge(&read(&register, lines, reading)?, options),
        ModelName::CasRegister => {
            judge(&read(&Register { with_cas: true, ..register }, lines, reading)?, options)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::JsonLines;
    use crate::{Algorithm, Budget, Outcome};

    const OPTIONS: CheckOptions = CheckOptions {
        algorithm: Algorithm::Auto,
        budget: Budget::unlimited(),
        evidence: false,
        witness: false,
    };

    #[test]
    fn a_register_holds_what_it_is_said_to_hold_at_first() {
        let text = "{\"process\":1,\"type\":\"invoke\",\"f\":\"read\"}\n{\"process\":1,\"type\":\"ok\",\"f\":\"read\",\"value\":7}";
        for (initial, outcome) in [(Some("7"), Outcome::Valid), (None, Outcome::Violation)] {
            let reading = ReadOptions { initial: initial.map(str::to_owned), ..ReadOptions::default() };
            let mut lines = JsonLines::new(text.as_bytes());
            let verdicts = check_lines(ModelName::Register, &mut lines, &reading, &OPTIONS).unwrap();
            assert_eq!(verdicts[0].outcome, outcome);
        }
    }

    #[test]
    fn each_key_has_a_verdict_in_the_order_in_which_the_keys_came() {
        let text: String = [("b", 1), ("a", 2), ("c", 1)]
            .iter()
            .map(|(key, read)| {
                let line = |kind: &str, f: &str, value: &str| {
                    format!("{{\"process\":1,\"type\":\"{kind}\",\"f\":\"{f}\",\"key\":\"{key}\",\"value\":{value}}}\n")
                };
                let read = read.to_string();
                [line("invoke", "write", "1"), line("ok", "write", "1"), line("invoke", "read", "null"), line("ok", "read", &read)]
                    .concat()
            })
            .collect();
        let reading = ReadOptions::default();
        let verdicts =
            check_lines(ModelName::Register, &mut JsonLines::new(text.as_bytes()), &reading, &OPTIONS)
                .unwrap();
        let said: Vec<_> = verdicts.iter().map(|each| (each.key.as_deref().unwrap(), each.outcome)).collect();
        assert_eq!(said, [("b", Outcome::Valid), ("a", Outcome::Violation), ("c", Outcome::Valid)]);
    }
}
