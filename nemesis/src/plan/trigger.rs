//! What a fault or a step of a script waits for: an event of the history.

use fencepost_history::{Event, FaultEvent, FaultStage, Grant, Kind, NoticeValue, Process, f};
use serde::{Deserialize, Serialize};

/// The first event that fits everything that is said here; what is left out fits any.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Trigger {
    /// Name of the operation, or of a nemesis.
    pub f: String,
    /// `invoke`, `ok`, `fail` or `info` [default: `ok`; of a client's notice, which knows no other, `info`].
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// A server that granted, as an acquire's `granted_by` names them: "when n3 has answered".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_by: Option<String>,
    /// The point that a recipe has reached, as a notice `at` names it: "between GET and DEL".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<FaultStage>,
    /// The shortest critical section that fits, as the process's acquire recorded it (`hold_ms`), if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section_ms: Option<u64>,
    /// How long after the grant, or the read (`read_at_ms`), the section plans its write at least, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_ms: Option<u64>,
    /// No process holds the key of the event, or each that does is releasing it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free: bool,
    /// Waits for the event to have come this many times.
    #[serde(default = "once", skip_serializing_if = "is_once")]
    pub times: u64,
}

fn once() -> u64 {
    1
}

fn is_once(times: &u64) -> bool {
    *times == 1
}

impl Trigger {
    /// The next operation of that name that succeeds, of any client.
    pub fn of(f: &str) -> Trigger {
        Trigger { f: f.to_owned(), times: 1, ..Trigger::default() }
    }

    /// The same, of events of this kind.
    #[must_use]
    pub fn with_kind(self, kind: Kind) -> Trigger {
        Trigger { kind: (kind != self.usual_kind()).then_some(kind), ..self }
    }

    #[must_use]
    pub(crate) fn without_usual_kind(self) -> Trigger {
        match self.kind {
            Some(kind) => self.with_kind(kind),
            None => self,
        }
    }

    fn usual_kind(&self) -> Kind {
        if f::is_notice(&self.f) { Kind::Info } else { Kind::Ok }
    }

    /// Whether few events fit: it waits for a long section, a free lock, or a point of the recipe.
    pub fn is_rare(&self) -> bool {
        self.section_ms.is_some() || self.write_ms.is_some() || self.free || self.point.is_some()
    }

    /// Whether a section of that length, with its write so long after the event, is long enough, where known.
    pub fn fits_section(&self, length_ms: Option<f64>, write_after_ms: Option<f64>) -> bool {
        let reaches = |least_ms: Option<u64>, ms: Option<f64>| match (least_ms, ms) {
            (Some(least_ms), Some(ms)) => ms >= least_ms as f64,
            _ => true,
        };
        reaches(self.section_ms, length_ms) && reaches(self.write_ms, write_after_ms)
    }

    /// Whether this event fits, but for section length and lock state. `client_of` names a process's client.
    pub fn fits(&self, event: &Event, client_of: impl Fn(u64) -> String) -> bool {
        let is = |wanted: &Option<String>, there: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| there == Some(wanted))
        };
        let client = match event.process {
            Process::Client(process) if self.client.is_some() => Some(client_of(process)),
            _ => None,
        };
        let kind = self.kind.unwrap_or_else(|| self.usual_kind());
        event.f == self.f
            && event.kind == kind
            && is(&self.point, NoticeValue::of(&event.value).point.as_deref())
            && is(&self.client, client.as_deref())
            && self
                .stage
                .is_none_or(|stage| FaultEvent::read(event).is_some_and(|fault| fault.stage == stage))
            && is(&self.key, event.key.as_deref())
            && self.granted_by.as_deref().is_none_or(|server| granted_by(event, server))
    }
}

fn granted_by(event: &Event, server: &str) -> bool {
    let names = || Grant::of(&event.value).granted_by.unwrap_or_default();
    event.f == f::ACQUIRE && names().iter().any(|name| name == server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn acquired(process: u64) -> Event {
        Event {
            index: 0,
            time: 0,
            process: Process::Client(process),
            kind: Kind::Ok,
            f: f::ACQUIRE.into(),
            key: Some("k0".into()),
            value: json!({"granted_by": ["n1", "n3"]}).into(),
            error: None,
        }
    }

    fn trigger(text: &str) -> Trigger {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn what_is_left_out_fits_any() {
        let client_of = |process| format!("c{process}");
        let fits = |text: &str| trigger(text).fits(&acquired(2), client_of);
        assert!(fits("f = 'acquire'"));
        assert!(fits("f = 'acquire'\nclient = 'c2'\nkey = 'k0'\ngranted-by = 'n3'"));
        assert!(!fits("f = 'release'"));
        assert!(!fits("f = 'acquire'\ntype = 'invoke'"));
        assert!(!fits("f = 'acquire'\nclient = 'c1'"));
        assert!(!fits("f = 'acquire'\nkey = 'k1'"));
        assert!(!fits("f = 'acquire'\ngranted-by = 'n2'"));
    }

    #[test]
    fn a_section_of_unknown_length_fits() {
        let long = trigger("f = 'acquire'\nsection-ms = 800");
        let fits = [None, Some(800.0), Some(799.9)].map(|length_ms| long.fits_section(length_ms, None));
        assert_eq!(fits, [true, true, false]);
        assert!(trigger("f = 'acquire'").fits_section(Some(0.0), Some(0.0)));
        let late = trigger("f = 'read'\nwrite-ms = 400");
        let fits = [None, Some(400.0), Some(399.0)].map(|write_ms| late.fits_section(Some(900.0), write_ms));
        assert_eq!(fits, [true, true, false]);
    }

    #[test]
    fn a_fault_is_waited_for_by_its_stage() {
        let value = json!({"id": 0, "stage": "heal", "targets": ["n1"]});
        let healed = Event {
            process: Process::Nemesis,
            f: "pause".into(),
            key: None,
            value: value.into(),
            ..acquired(0)
        };
        let fits = |text: &str| trigger(text).fits(&healed, |process| format!("c{process}"));
        assert!(fits("f = 'pause'") && fits("f = 'pause'\nstage = 'heal'"));
        assert!(!fits("f = 'pause'\nstage = 'inject'"));
    }

    #[test]
    fn a_point_of_a_recipe_is_waited_for() {
        let value = json!({"point": "between-get-and-del"});
        let at = Event { kind: Kind::Info, f: f::AT.into(), value: value.into(), ..acquired(2) };
        let fits = |text: &str| trigger(text).fits(&at, |process| format!("c{process}"));
        assert!(fits("f = 'at'\npoint = 'between-get-and-del'\nclient = 'c2'"));
        assert!(!fits("f = 'at'\npoint = 'before-replies'"));
        assert!(!fits("f = 'lost'"));
    }
}
