//! What a report says on top: what was tested, on what, and how to repeat it.

use crate::results::RunFile;

/// What was tested, on what, and how to repeat it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heading {
    pub backend: String,
    pub workload: String,
    /// `none`, or the nemeses joined by commas.
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
    /// Start of the run, seconds since 1970-01-01 UTC.
    pub started: u64,
    pub ttl_ms: u64,
    /// All other settings, for whoever wants to know exactly.
    pub settings: Vec<(String, String)>,
}

/// The heading of a run that is kept in a folder.
pub fn heading(run: &RunFile) -> Heading {
    let spec = &run.spec;
    Heading {
        backend: spec.backend.clone(),
        workload: spec.workload.clone(),
        nemesis: if spec.nemesis.is_empty() { "none".to_owned() } else { spec.nemesis.join(",") },
        driver: run.driver.clone(),
        guard: spec.guard.clone(),
        servers: run.servers.clone(),
        seed: spec.seed.0,
        command: run.command.clone(),
        fencepost: run.fencepost.clone(),
        started: run.started,
        ttl_ms: spec.ttl_ms,
        settings: settings(spec),
    }
}

/// Whatever the spec holds beyond what the top of the report shows, by name.
fn settings(spec: &impl serde::Serialize) -> Vec<(String, String)> {
    const ON_TOP: [&str; 7] = ["backend", "workload", "nemesis", "driver", "guard", "seed", "ttl-ms"];
    let mut settings = Vec::new();
    if let Ok(toml::Value::Table(table)) = toml::Value::try_from(spec) {
        for (name, value) in table.into_iter().filter(|(name, _)| !ON_TOP.contains(&name.as_str())) {
            match value {
                toml::Value::Table(inner) => settings.extend(inner.into_iter().map(shown)),
                value => settings.push(shown((name, value))),
            }
        }
    }
    settings
}

fn shown((name, value): (String, toml::Value)) -> (String, String) {
    match value {
        toml::Value::String(text) => (name, text),
        value => match name.strip_suffix("-ms") {
            Some(name) => (name.to_owned(), format!("{value} ms")),
            None => (name, value.to_string()),
        },
    }
}

impl Heading {
    /// When the run started: `2026-02-14 09:30:15 UTC`.
    pub fn date(&self) -> String {
        let start = std::time::UNIX_EPOCH + std::time::Duration::from_secs(self.started);
        let text = humantime::format_rfc3339_seconds(start).to_string();
        text.replace('T', " ").replace('Z', " UTC")
    }
}
