//! Whether a trigger can come: which fields belong to which events, and which names there are.

use crate::plan::topology::Topology;
use crate::plan::trigger::Trigger;
use crate::registry::{find, registry};
use fencepost_history::prose::unknown;
use fencepost_history::{Kind, Refusal, f};

fn is_one_of(kind: &str, name: Option<&str>, names: &[String]) -> Result<(), Refusal> {
    match name {
        Some(name) if names.iter().all(|known| known != name) => {
            refused(format!("there is no {kind} {name} in this run (there are: {})", names.join(", ")))
        }
        _ => Ok(()),
    }
}

fn refused(sentence: String) -> Result<(), Refusal> {
    Err(Refusal::new(sentence))
}

impl Trigger {
    /// Refuses what no event of a run with these nodes fits. Errors: with the names that there are.
    pub fn check(&self, topology: &Topology) -> Result<(), Refusal> {
        let is_nemesis = find(&self.f).is_some();
        if !is_nemesis && !f::OPERATIONS.contains(&self.f.as_str()) && !f::is_notice(&self.f) {
            let nemeses = registry().iter().map(|nemesis| nemesis.name());
            let known: Vec<&str> = f::OPERATIONS.into_iter().chain(f::NOTICES).chain(nemeses).collect();
            return refused(unknown("event", &self.f, &known));
        }
        self.check_fields(is_nemesis)?;
        is_one_of("client", self.client.as_deref(), &topology.clients)?;
        is_one_of("server", self.granted_by.as_deref(), &topology.servers)
    }

    fn check_fields(&self, is_nemesis: bool) -> Result<(), Refusal> {
        let f = &self.f;
        let of_operations = [
            ("client", self.client.is_some()),
            ("key", self.key.is_some()),
            ("section-ms", self.section_ms.is_some()),
            ("write-ms", self.write_ms.is_some()),
            ("free", self.free),
        ];
        if let Some((field, _)) = of_operations.into_iter().find(|(_, given)| is_nemesis && *given) {
            return refused(format!(
                "`{field}` is known of operations, and {f} is a nemesis: leave `{field}` out"
            ));
        }
        for (field, given, of) in
            [("granted-by", self.granted_by.is_some(), f::ACQUIRE), ("point", self.point.is_some(), f::AT)]
        {
            if given && f != of {
                return refused(format!(
                    "`{field}` is known of the event {of} only: write `f = \"{of}\"`, or leave it out"
                ));
            }
        }
        if self.stage.is_some() && !is_nemesis {
            return refused(format!(
                "`stage` is known of faults, and {f} is an operation: leave `stage` out"
            ));
        }
        if f::is_notice(f) && self.kind.is_some_and(|kind| kind != Kind::Info) {
            return refused(format!("{f} is a notice, whose `type` is always info: leave `type` out"));
        }
        if self.times == 0 {
            return refused("`times` must be at least 1".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trigger(text: &str) -> Trigger {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn an_event_that_cannot_come_is_refused() {
        let topology = crate::testing::topology(2, 2);
        let refused = |text: &str| trigger(text).check(&topology).unwrap_err().sentence;
        assert_eq!(refused("f = 'aquire'"), "unknown event \"aquire\": did you mean \"acquire\"?");
        assert!(refused("f = 'nope'").starts_with("unknown event \"nope\": "));
        let server = "there is no server zz in this run (there are: n1, n2)";
        assert_eq!(refused("f = 'acquire'\ngranted-by = 'zz'"), server);
        assert!(refused("f = 'acquire'\nclient = 'n1'").contains("no client n1"));
        assert!(refused("f = 'release'\ngranted-by = 'n1'").contains("of the event acquire only"));
        assert!(refused("f = 'lost'\npoint = 'before-replies'").contains("of the event at only"));
        assert!(refused("f = 'acquire'\nstage = 'heal'").contains("`stage` is known of faults"));
        assert!(refused("f = 'pause'\nclient = 'c1'").contains("pause is a nemesis"));
        assert!(refused("f = 'lost'\ntype = 'ok'").contains("always info"));
        assert!(refused("f = 'read'\ntimes = 0").contains("at least 1"));
        for text in [
            "f = 'acquire'\ngranted-by = 'n2'\nclient = 'c2'",
            "f = 'pause'\nstage = 'heal'",
            "f = 'at'\npoint = 'x'",
        ] {
            assert_eq!(trigger(text).check(&topology), Ok(()), "{text}");
        }
    }
}
