//! What `fencepost lock new` can begin with: a row for each language.

use fencepost_history::LockKind;
use fencepost_locks::LockService;
use fencepost_report::capital;

pub(super) struct Language {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) client: &'static str,
    /// A working lock on one Redis, without a library: the kit's example.
    on_redis: &'static str,
    /// The same of the other kinds, in one client.
    of_kinds: &'static str,
    /// The functions of a lock, to be written. Those of one kind stand between `%KIND` and `%`.
    empty: &'static str,
    /// The kit, as it lies in the folder.
    kit: &'static [(&'static str, &'static str)],
    /// What the language wants beside it.
    others: &'static [(&'static str, &'static str)],
    /// The lines of lock.toml on how the client is made and started: the kit's `template.toml`.
    start: &'static str,
}

/// A row of [`LANGUAGES`]: name, title, the client, the client without functions; the files of the kit in its
/// folder, and what the language wants beside them, from the folder of the kit's example.
macro_rules! language {
    ($name:literal, $title:literal, $client:literal, $empty:literal, [$($kit:literal),*], [$($other:literal),*]) => {
        Language {
            name: $name,
            title: $title,
            client: $client,
            on_redis: include_str!(concat!("../../../kits/", $name, "/example/", $client)),
            of_kinds: include_str!(concat!("../../../kits/", $name, "/kinds/", $client)),
            empty: include_str!(concat!("templates/", $empty)),
            kit: &[$(($kit, include_str!(concat!("../../../kits/", $name, "/", $kit)))),*],
            others: &[$(($other, include_str!(concat!("../../../kits/", $name, "/example/", $other)))),*],
            start: include_str!(concat!("../../../kits/", $name, "/template.toml")),
        }
    };
}

pub(super) const LANGUAGES: &[Language] = &[
    language!("python", "Python", "client.py", "client.py", ["fencepost.py"], []),
    language!(
        "go",
        "Go",
        "main.go",
        "main.go",
        [
            "fencepost/client.go",
            "fencepost/access.go",
            "fencepost/fencepost.go",
            "fencepost/process.go",
            "fencepost/storage.go"
        ],
        ["go.mod"]
    ),
    language!("javascript", "JavaScript", "client.js", "client.js", ["fencepost.js"], []),
    language!(
        "rust",
        "Rust",
        "src/main.rs",
        "main.rs.txt",
        [
            "fencepost-client/Cargo.toml",
            "fencepost-client/src/client.rs",
            "fencepost-client/src/env.rs",
            "fencepost-client/src/hello.rs",
            "fencepost-client/src/lib.rs",
            "fencepost-client/src/process.rs",
            "fencepost-client/src/state.rs",
            "fencepost-client/src/storage.rs"
        ],
        ["Cargo.toml"]
    ),
    language!("java", "Java", "Example.java", "Example.java", ["Fencepost.java"], ["Tls.java"]),
    language!("php", "PHP", "client.php", "client.php", ["fencepost.php"], []),
];

/// Servers that a new lock can be on.
pub(super) fn services() -> impl Iterator<Item = &'static LockService> {
    fencepost_locks::services().filter(|service| !service.kinds.is_empty())
}

impl Language {
    pub(super) fn works_on(&self, servers: &str) -> bool {
        servers == "redis"
    }

    pub(super) fn files(&self, name: &str, kind: LockKind, service: &LockService) -> Vec<(String, String)> {
        let client = match (self.works_on(service.name), kind) {
            (true, LockKind::Mutex | LockKind::Election) => self.on_redis.to_owned(),
            (true, _) => self.of_kinds.to_owned(),
            // An election is campaigned for as a mutex is acquired.
            (false, LockKind::Election) => of_kind(self.empty, LockKind::Mutex),
            (false, kind) => of_kind(self.empty, kind),
        };
        let renamed = |text: &str| {
            text.replace("example/fencepost", &format!("{name}/fencepost"))
                .replace("module example", &format!("module {name}"))
                .replace("name = \"example\"", &format!("name = \"{name}\""))
                .replace("release/example", &format!("release/{name}"))
                .replace("gopath/src/example", &format!("gopath/src/{name}"))
                .replace("echo example ", &format!("echo {name} "))
                .replace("# lock.toml has it copied here.", "# The kit.")
        };
        let mut files = vec![
            ("lock.toml".to_owned(), renamed(&self.lock_file(name, kind, service))),
            (self.client.to_owned(), renamed(&client)),
            ("README.md".to_owned(), self.readme(name, kind, service)),
        ];
        files.extend(self.others.iter().map(|(path, text)| ((*path).to_owned(), renamed(text))));
        files.extend(self.kit.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
        files
    }

    fn lock_file(&self, name: &str, kind: LockKind, service: &LockService) -> String {
        let LockService { name: servers, about, lease, .. } = *service;
        let unique = if kind.announced().is_none()
            && self.works_on(servers)
            && self.on_redis.to_lowercase().contains("unique")
        {
            "# Each grant has a value that no other has.\nunique = true\n"
        } else {
            ""
        };
        let of_kind = match kind {
            LockKind::Mutex => String::new(),
            _ => {
                format!("# Who may hold it together: {}.\nkind = \"{kind}\"\n", kind.about())
            }
        };
        format!(
            "about = \"{name}, a lock of my own in {}\"\n\
             # {}.\n\
             service = \"{servers}\"\n\
             {}\
             {of_kind}\
             # What ends a hold of a client that is gone: ttl, session, connection or none.\n\
             lease = \"{}\"\n\
             {unique}\
             # What the lock claims; left out, whatever can be judged is judged.\n\
             # properties = [\"exclusion\", \"ownership\", \"progress\"]\n",
            self.title,
            capital(about),
            self.start,
            lease
        )
    }

    fn readme(&self, name: &str, kind: LockKind, service: &LockService) -> String {
        let LockService { name: servers, about, .. } = *service;
        let state = match self.works_on(servers) {
            true => "has its functions. It works as it is, without a library; put yours in its place.",
            false => "has the places for its functions, which are still to be written.",
        };
        let other = match kind {
            LockKind::Mutex => "redlock",
            LockKind::ReadWrite => "postgres-read-write",
            LockKind::Semaphore => "redis-semaphore",
            LockKind::Election => "redis-election",
            LockKind::Reentrant => "redis-reentrant",
            LockKind::Several => "redis-several",
        };
        let kit = self.kit[0].0.split('/').next().unwrap_or_default();
        format!(
            "# {name}\n\n\
             {} in {}, on {about}.\n\n\
             - `{}` {state}\n\
             - `{kit}` is the kit: it speaks the client protocol of Fencepost, and stays as it is.\n\
             - `lock.toml` says how the client is started and what the lock claims.\n\n\
             Beside this folder:\n\n\
             \u{20}   fencepost lock check ./{name}\n\
             \u{20}   fencepost test --lock ./{name}\n\
             \u{20}   fencepost test --lock ./{name} --nemesis pause\n\
             \u{20}   fencepost compare --locks {other},./{name} --nemeses all\n",
            capital(if kind.is_mutex() { "a lock" } else { kind.in_words() }),
            self.title,
            self.client
        )
    }
}

fn of_kind(template: &str, kind: LockKind) -> String {
    let mut is_of_kind = true;
    let mut lines = String::new();
    for line in template.lines() {
        match line.strip_prefix('%') {
            Some(of) => is_of_kind = of.is_empty() || of == kind.name(),
            None if is_of_kind => lines += &format!("{line}\n"),
            None => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_cluster::DEFAULT_SUITE;
    use std::path::Path;

    /// The files of a folder of a kit, without its tests.
    fn files_in(folder: &str) -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("kits").join(folder);
        let entries = std::fs::read_dir(path).expect("the kit's folder").flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| !name.contains("_test.")).collect()
    }

    #[test]
    fn every_file_of_a_kit_is_copied() {
        for (name, folder, place) in [
            ("go", "go/fencepost", "fencepost"),
            ("rust", "rust/fencepost-client/src", "fencepost-client/src"),
        ] {
            let language = LANGUAGES.iter().find(|language| language.name == name).expect("it has a kit");
            for file in files_in(folder) {
                let path = format!("{place}/{file}");
                assert!(language.kit.iter().any(|(known, _)| *known == path), "{path} is missing for {name}");
            }
        }
    }

    #[test]
    fn every_file_that_an_example_needs_is_copied() {
        for language in LANGUAGES {
            let mut files = files_in(&format!("{}/example", language.name));
            files.extend(files_in(&format!("{}/kinds", language.name)));
            let made_anew = ["lock.toml", "Cargo.lock", "src", "target", "classes"];
            for file in files.iter().filter(|file| !made_anew.contains(&file.as_str())) {
                let is_copied =
                    language.client == file || language.others.iter().any(|(other, _)| other == file);
                assert!(is_copied, "{file} is missing for {}", language.name);
                assert!(!file.ends_with(".java") || language.start.contains(file), "{file} is not compiled");
            }
        }
    }

    #[test]
    fn packages_come_from_the_suite_that_servers_come_from() {
        let suites: Vec<&str> = LANGUAGES
            .iter()
            .flat_map(|language| language.start.lines())
            .filter(|line| line.starts_with("suite"))
            .collect();
        let current = format!("suite = \"{DEFAULT_SUITE}\"");
        assert_eq!(suites, vec![&*current; LANGUAGES.len() - 1], "Rust is built on this machine");
    }
}
