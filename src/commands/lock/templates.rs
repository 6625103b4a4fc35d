//! What `fencepost lock new` can begin with: a row for each language.

/// A language with a kit.
pub(super) struct Language {
    /// As on the command line.
    pub(super) name: &'static str,
    /// As in a sentence.
    pub(super) title: &'static str,
    /// The file that the user changes.
    pub(super) client: &'static str,
    /// A working lock on one Redis, without a library: the kit's example.
    on_redis: &'static str,
    /// The functions of a lock, to be written.
    empty: &'static str,
    /// The kit, as it lies in the folder.
    kit: &'static [(&'static str, &'static str)],
    /// What the language wants beside it.
    others: &'static [(&'static str, &'static str)],
    /// The lines of lock.toml on how the client is made and started.
    start: &'static str,
}

pub(super) const LANGUAGES: &[Language] = &[
    Language {
        name: "python",
        title: "Python",
        client: "client.py",
        on_redis: include_str!("../../../kits/python/example/client.py"),
        empty: include_str!("templates/client.py"),
        kit: &[("fencepost.py", include_str!("../../../kits/python/fencepost.py"))],
        others: &[],
        start: r#"client = ["python3", "client.py"]
# Prints the name and the version of what is under test, in one line.
version = ["python3", "-c", "import platform; print('my lock, Python', platform.python_version())"]
# Debian packages that the client and setup need.
packages = ["python3"]
# The suite of Debian that they come from, on every machine.
suite = "trixie"
# A library from PyPI: write it into requirements.txt, let .venv/bin/python start the client and the version command, and put
# python3-venv in place of python3 above.
# setup = ["python3 -m venv .venv", ".venv/bin/pip install -q -r requirements.txt"]
"#,
    },
    Language {
        name: "go",
        title: "Go",
        client: "main.go",
        on_redis: include_str!("../../../kits/go/example/main.go"),
        empty: include_str!("templates/main.go"),
        kit: &[
            ("fencepost/client.go", include_str!("../../../kits/go/fencepost/client.go")),
            ("fencepost/access.go", include_str!("../../../kits/go/fencepost/access.go")),
            ("fencepost/fencepost.go", include_str!("../../../kits/go/fencepost/fencepost.go")),
            ("fencepost/process.go", include_str!("../../../kits/go/fencepost/process.go")),
            ("fencepost/storage.go", include_str!("../../../kits/go/fencepost/storage.go")),
        ],
        others: &[("go.mod", include_str!("../../../kits/go/example/go.mod"))],
        start: r#"client = ["./client"]
# A library from Debian's packages: add its package.
packages = ["golang-go"]
# The suite of Debian that they come from, on every machine.
suite = "trixie"
# Prints the name and the version of what is under test, in one line. Of a library:
# version = ["dpkg-query", "-W", '-f=LIBRARY ${Version}\n', "golang-LIBRARY-dev"]
version = ["go", "version"]
# Builds on Debian's packages, with a GOPATH. Runs where the client will run, once for each state of this folder. A module with
# dependencies of its own builds on a machine that has Go, with build = ["CGO_ENABLED=0 go build -o client ."] in place of this.
setup = [
    "mkdir -p gopath/src/example && cp -r fencepost gopath/src/example",
    "CGO_ENABLED=0 GO111MODULE=off GOPATH=$PWD/gopath:/usr/share/gocode go build -o client .",
]
"#,
    },
    Language {
        name: "javascript",
        title: "JavaScript",
        client: "client.js",
        on_redis: include_str!("../../../kits/javascript/example/client.js"),
        empty: include_str!("templates/client.js"),
        kit: &[("fencepost.js", include_str!("../../../kits/javascript/fencepost.js"))],
        others: &[],
        start: r#"client = ["node", "client.js"]
# Prints the name and the version of what is under test, in one line.
version = ["node", "-p", "'my lock, node ' + process.versions.node"]
packages = ["nodejs"]
# The suite of Debian that they come from, on every machine.
suite = "trixie"
"#,
    },
    Language {
        name: "rust",
        title: "Rust",
        client: "src/main.rs",
        on_redis: include_str!("../../../kits/rust/example/src/main.rs"),
        empty: include_str!("templates/main.rs.txt"),
        kit: &[
            ("fencepost-client/Cargo.toml", include_str!("../../../kits/rust/fencepost-client/Cargo.toml")),
            (
                "fencepost-client/src/client.rs",
                include_str!("../../../kits/rust/fencepost-client/src/client.rs"),
            ),
            ("fencepost-client/src/env.rs", include_str!("../../../kits/rust/fencepost-client/src/env.rs")),
            (
                "fencepost-client/src/hello.rs",
                include_str!("../../../kits/rust/fencepost-client/src/hello.rs"),
            ),
            ("fencepost-client/src/lib.rs", include_str!("../../../kits/rust/fencepost-client/src/lib.rs")),
            (
                "fencepost-client/src/process.rs",
                include_str!("../../../kits/rust/fencepost-client/src/process.rs"),
            ),
            (
                "fencepost-client/src/state.rs",
                include_str!("../../../kits/rust/fencepost-client/src/state.rs"),
            ),
            (
                "fencepost-client/src/storage.rs",
                include_str!("../../../kits/rust/fencepost-client/src/storage.rs"),
            ),
        ],
        others: &[("Cargo.toml", include_str!("../../../kits/rust/example/Cargo.toml"))],
        start: r#"client = ["target/release/example"]
# Runs on this machine, with its toolchain, once for each state of this folder.
build = ["cargo build --release --target-dir target"]
# Prints the name and the version of what is under test, in one line.
version = ["sh", "-c", "echo example $(grep -m1 ^version Cargo.toml)"]
"#,
    },
    Language {
        name: "java",
        title: "Java",
        client: "Example.java",
        on_redis: include_str!("../../../kits/java/example/Example.java"),
        empty: include_str!("templates/Example.java"),
        kit: &[("Fencepost.java", include_str!("../../../kits/java/Fencepost.java"))],
        others: &[],
        start: r#"# The folder of Java is named after the machine's processor.
client = ["sh", "-c", "exec /usr/lib/jvm/java-21-openjdk-*/bin/java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp classes Example"]
# Runs where the client will run, once for each state of this folder.
setup = ["/usr/lib/jvm/java-21-openjdk-*/bin/javac -d classes Fencepost.java Example.java"]
# Prints the name and the version of what is under test, in one line.
version = ["sh", "-c", "/usr/lib/jvm/java-21-openjdk-*/bin/java --version | head -1"]
packages = ["openjdk-21-jdk-headless"]
# The suite of Debian that they come from, on every machine.
suite = "trixie"
"#,
    },
    Language {
        name: "php",
        title: "PHP",
        client: "client.php",
        on_redis: include_str!("../../../kits/php/example/client.php"),
        empty: include_str!("templates/client.php"),
        kit: &[("fencepost.php", include_str!("../../../kits/php/fencepost.php"))],
        others: &[],
        start: r#"client = ["php8.4", "client.php"]
# Prints the name and the version of what is under test, in one line.
version = ["php8.4", "-r", "echo 'php ', PHP_VERSION, PHP_EOL;"]
packages = ["php8.4-cli"]
# The suite of Debian that they come from, on every machine.
suite = "trixie"
"#,
    },
];

/// Servers that a new lock can be on.
#[derive(Clone, Copy)]
pub(super) struct Servers {
    pub(super) name: &'static str,
    /// What they are.
    pub(super) about: &'static str,
    /// What ends the hold of a client that is gone, with most locks on them.
    lease: &'static str,
}

const fn servers(name: &'static str, about: &'static str, lease: &'static str) -> Servers {
    Servers { name, about, lease }
}

pub(super) const SERVERS: &[Servers] = &[
    servers("redis", "one Redis server", "ttl"),
    servers("redis-independent", "five Redis servers that know nothing of each other", "ttl"),
    servers(
        "redis-sentinel",
        "a Redis with two replicas and three Sentinels, in this order: all of them are in the list of servers (group: fencepost)",
        "ttl",
    ),
    servers(
        "redis-cluster",
        "a Redis Cluster of three primaries and a replica of each, in this order: all of them are in the list of servers",
        "ttl",
    ),
    servers("valkey", "one Valkey server", "ttl"),
    servers("etcd", "an etcd of three servers", "ttl"),
    servers("zookeeper", "a ZooKeeper of three servers", "session"),
    servers("nats", "a NATS of three servers, with JetStream", "ttl"),
    servers("postgres", "one PostgreSQL server (user and database: postgres, no password)", "connection"),
    servers("mariadb", "one MariaDB server (user: fencepost, no password)", "connection"),
];

impl Language {
    /// Whether the client locks something as it is.
    pub(super) fn works_on(&self, servers: &str) -> bool {
        servers == "redis"
    }

    /// All files of a new lock of this name, with their paths in its folder.
    pub(super) fn files(&self, name: &str, servers: Servers) -> Vec<(String, String)> {
        let client = if self.works_on(servers.name) { self.on_redis } else { self.empty };
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
            ("lock.toml".to_owned(), renamed(&self.lock_file(name, servers))),
            (self.client.to_owned(), renamed(client)),
            ("README.md".to_owned(), self.readme(name, servers)),
        ];
        files.extend(self.others.iter().map(|(path, text)| ((*path).to_owned(), renamed(text))));
        files.extend(self.kit.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
        files
    }

    fn lock_file(&self, name: &str, Servers { name: servers, about, lease }: Servers) -> String {
        let unique = if self.works_on(servers) && self.on_redis.to_lowercase().contains("unique") {
            "# Each grant has a value that no other has.\nunique = true\n"
        } else {
            ""
        };
        format!(
            "about = \"{name}, a lock of my own in {}\"\n\
             # {}.\n\
             service = \"{servers}\"\n\
             {}\
             # What ends a hold of a client that is gone: ttl, session, connection or none.\n\
             lease = \"{lease}\"\n\
             {unique}\
             # What the lock claims; left out, whatever can be judged is judged.\n\
             # properties = [\"exclusion\", \"ownership\", \"progress\"]\n",
            self.title,
            capitalized(about),
            self.start
        )
    }

    fn readme(&self, name: &str, Servers { name: servers, about, .. }: Servers) -> String {
        let state = match self.works_on(servers) {
            true => "It works as it is, without a library; put yours in its place.",
            false => "Its functions are still to be written.",
        };
        let kit = self.kit[0].0.split('/').next().unwrap_or_default();
        format!(
            "# {name}\n\n\
             A lock in {}, on {about}.\n\n\
             - `{}` has its functions. {state}\n\
             - `{kit}` is the kit: it speaks the client protocol of Fencepost, and stays as it is.\n\
             - `lock.toml` says how the client is started and what the lock claims.\n\n\
             Beside this folder:\n\n\
             \u{20}   fencepost lock check ./{name}\n\
             \u{20}   fencepost test --lock ./{name}\n\
             \u{20}   fencepost test --lock ./{name} --nemesis pause\n\
             \u{20}   fencepost compare --locks redlock,./{name} --nemeses all\n",
            self.title, self.client
        )
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
