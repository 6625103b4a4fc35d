//! What a report says on top: what was tested, on what, and how to repeat it.

use fencepost_history::run::RunFile;

/// What was tested, on what, and how to repeat it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heading {
    pub lock: String,
    pub workload: String,
    /// `none`, or the nemeses joined by `+`.
    pub nemesis: String,
    pub driver: String,
    pub guard: String,
    /// Versions of the servers, as they tell them themselves.
    pub servers: Vec<String>,
    pub seed: u64,
    /// Repeats the run.
    pub command: String,
    /// Version of Fencepost that made the run.
    pub fencepost: String,
    /// When the run started: `2026-02-14 09:30:15 UTC`.
    pub date: String,
    pub ttl_ms: u64,
    /// All other settings.
    pub settings: Vec<(String, String)>,
}

/// The heading of a run that is kept in a folder.
pub fn heading(run: &RunFile) -> Heading {
    let spec = &run.spec;
    Heading {
        lock: spec.lock.clone(),
        workload: spec.workload.clone(),
        nemesis: spec.nemesis_name(),
        driver: run.driver.clone(),
        guard: spec.guard.clone(),
        servers: run.servers.clone(),
        seed: spec.seed.0,
        command: run.command.clone(),
        fencepost: run.fencepost.clone(),
        date: run.date(),
        ttl_ms: spec.ttl.millis(),
        settings: settings(&spec.rest),
    }
}

/// All settings that the top of the report does not show, by name.
fn settings(rest: &toml::Table) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    for (name, value) in rest {
        match value {
            toml::Value::Table(inner) => settings.extend(inner.iter().map(shown)),
            value => settings.push(shown((name, value))),
        }
    }
    settings
}

fn shown((name, value): (&String, &toml::Value)) -> (String, String) {
    match value {
        toml::Value::String(text) => (name.clone(), text.clone()),
        value => match name.strip_suffix("-ms") {
            Some(name) => (name.to_owned(), format!("{value} ms")),
            None => (name.clone(), value.to_string()),
        },
    }
}
