//! What a report says on top: what was tested, on what, and how to repeat it.

use fencepost_history::run::{RunFile, RunFolder};

/// What was tested, on what, and how to repeat it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heading {
    /// As it was asked for: a name, or the path of a folder.
    pub lock: String,
    /// The lock and its version, as the subject of a sentence: `redis-py 8.1.0`.
    pub title: String,
    /// The command that starts a client of a lock that is not built in; else empty.
    pub client: String,
    /// The version that the client's own command printed, and the hash of the client's files; else empty.
    pub version: String,
    pub files: String,
    pub workload: String,
    pub nemesis: String,
    pub driver: String,
    pub guard: String,
    /// Versions of the servers, as they tell them themselves.
    pub servers: Vec<String>,
    pub seed: u64,
    /// Repeats the run.
    pub command: String,
    pub fencepost: String,
    /// When the run started: `2026-02-14 09:30:15 UTC`.
    pub date: String,
    pub ttl_ms: u64,
    pub settings: Vec<(String, String)>,
    /// The packed data folders of servers, where they were kept: `data/n1.tar.gz`.
    pub data: Vec<String>,
}

pub fn heading(run: &RunFile) -> Heading {
    let spec = &run.spec;
    let facts = run.lock.clone().unwrap_or_default();
    Heading {
        title: if facts.are_known() { facts.title() } else { spec.lock.clone() },
        client: command_line(&facts.client),
        version: facts.version.unwrap_or_default(),
        files: facts.files.unwrap_or_default(),
        lock: spec.lock.clone(),
        workload: spec.workload.clone(),
        nemesis: spec.nemesis_name(),
        driver: match run.engine.is_empty() {
            true => run.driver.clone(),
            false => format!("{} ({})", run.driver, run.engine),
        },
        guard: spec.guard.clone(),
        servers: run.servers.clone(),
        seed: spec.seed.0,
        command: run.command.clone(),
        fencepost: run.fencepost.clone(),
        date: run.date(),
        ttl_ms: spec.ttl.millis(),
        settings: settings(&spec.rest),
        data: Vec::new(),
    }
}

pub(crate) fn kept_data(folder: &RunFolder) -> Vec<String> {
    let files = std::fs::read_dir(folder.data()).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let mut kept: Vec<String> = names.map(|name| format!("{}/{name}", RunFolder::DATA)).collect();
    kept.sort_unstable();
    kept
}

fn command_line(words: &[String]) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(safe) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::run_file;
    use fencepost_history::LockFacts;

    #[test]
    fn a_lock_that_is_not_built_in_has_a_title_a_client_and_files() {
        let mut run = run_file();
        assert_eq!((heading(&run).title.as_str(), heading(&run).client.as_str()), ("redlock", ""));
        run.lock = Some(LockFacts {
            name: "redis-py".to_owned(),
            version: Some("redis-py 8.1.0".to_owned()),
            client: ["python3", "my client.py", "it's"].map(str::to_owned).to_vec(),
            files: Some("3fa9".to_owned()),
            ..LockFacts::default()
        });
        let heading = heading(&run);
        assert_eq!(heading.title, "redis-py 8.1.0");
        assert_eq!(heading.client, r"python3 'my client.py' 'it'\''s'");
        assert_eq!((heading.version.as_str(), heading.files.as_str()), ("redis-py 8.1.0", "3fa9"));
    }
}
