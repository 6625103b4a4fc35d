//! The kinds of servers: the packages of each, its versions, and how a user's own is recognised. A new kind
//! is an entry here and a folder in `docker/`; a new version is a pair of `releases`.

pub(super) struct Server {
    pub(super) name: &'static str,
    /// Debian packages, one a line: the same in each suite, but for those whose names say the version.
    pub(super) packages: &'static str,
    /// Programs that a node needs, by name or path; with all of them and the files no image is needed.
    pub(super) programs: &'static [&'static str],
    pub(super) files: &'static [&'static str],
    /// Its versions, as far as a suite keeps to each, and the suite of Debian that has it: the oldest first.
    pub(super) releases: &'static [(&'static str, &'static str)],
    /// The packages whose version is the server's. Where several are, any of them says it.
    pub(super) versioned: &'static [&'static str],
    /// The programs of a user's own server; none where it is no program, but classes of Java.
    pub(super) own: &'static [OwnProgram],
    pub(super) has_images: bool,
}

pub(super) struct OwnProgram {
    pub(super) name: &'static str,
    pub(super) others: &'static [&'static str],
    /// Whether a folder without it is none of this kind; Debian's takes the place of another.
    pub(super) is_needed: bool,
}

impl OwnProgram {
    pub(super) fn names(&self) -> Vec<&'static str> {
        [self.name].iter().chain(self.others).copied().collect()
    }
}

const fn needed(name: &'static str, others: &'static [&'static str]) -> OwnProgram {
    OwnProgram { name, others, is_needed: true }
}

const fn usual(name: &'static str, others: &'static [&'static str]) -> OwnProgram {
    OwnProgram { name, others, is_needed: false }
}

/// In a list of packages: the version of a release.
pub(super) const VERSION: &str = "{version}";

/// What most kinds of servers do not have.
const OTHER: Server = Server {
    name: "",
    packages: "",
    programs: &[],
    files: &[],
    releases: &[],
    versioned: &[],
    own: &[],
    has_images: false,
};

pub(super) static SERVERS: &[Server] = &[
    Server {
        name: "redis",
        packages: include_str!("../../../../docker/redis/packages"),
        programs: &["redis-server", "redis-cli", "iptables"],
        releases: &[("7.0", "bookworm"), ("8.0", "trixie")],
        versioned: &["redis-server"],
        own: REDIS,
        has_images: true,
        ..OTHER
    },
    Server {
        name: "valkey",
        packages: include_str!("../../../../docker/valkey/packages"),
        // They answer to the names of Redis's programs, too: see `ALTERNATIVES` of root file systems.
        programs: &["redis-server", "redis-cli", "iptables"],
        releases: &[("8.0", "bookworm-backports"), ("8.1", "trixie"), ("9.1", "forky")],
        versioned: &["valkey-server"],
        own: REDIS,
        has_images: true,
        ..OTHER
    },
    Server {
        name: "etcd",
        packages: include_str!("../../../../docker/etcd/packages"),
        programs: &["etcd", "etcdctl", "iptables"],
        releases: &[("3.4", "bookworm"), ("3.5", "trixie")],
        versioned: &["etcd-server"],
        own: &[needed("etcd", &[]), usual("etcdctl", &[])],
        has_images: true,
        ..OTHER
    },
    Server {
        name: "zookeeper",
        packages: include_str!("../../../../docker/zookeeper/packages"),
        // Java cannot be tried where there is no /proc yet: it finds its libraries by it.
        programs: &["iptables"],
        files: &["/usr/bin/java", "/usr/share/java/zookeeper.jar"],
        releases: &[("3.8", "bookworm"), ("3.9", "trixie")],
        versioned: &["libzookeeper-java"],
        ..OTHER
    },
    Server {
        name: "postgres",
        packages: include_str!("../../../../docker/postgres/packages"),
        programs: &["postgres", "initdb", "postgres-psql", "setpriv", "iptables"],
        releases: &[("15", "bookworm"), ("17", "trixie"), ("18", "forky")],
        versioned: &["postgresql-{version}"],
        own: &[needed("postgres", &[]), needed("initdb", &[]), usual("postgres-psql", &["psql"])],
        ..OTHER
    },
    Server {
        name: "nats",
        packages: include_str!("../../../../docker/nats/packages"),
        programs: &["nats-server", "iptables"],
        releases: &[("2.10", "trixie")],
        versioned: &["nats-server"],
        own: &[needed("nats-server", &[])],
        ..OTHER
    },
    Server {
        name: "mariadb",
        packages: include_str!("../../../../docker/mariadb/packages"),
        programs: &["mariadbd", "mariadb", "iptables"],
        // A script makes the folder of its data.
        files: &["/usr/bin/mariadb-install-db"],
        releases: &[("10.11", "bookworm"), ("11.8", "trixie")],
        versioned: &["mariadb-server", "mariadb-server-core"],
        own: &[
            needed("mariadbd", &["mysqld"]),
            needed("mariadb-install-db", &["mysql_install_db"]),
            usual("mariadb", &["mysql"]),
        ],
        ..OTHER
    },
];

const REDIS: &[OwnProgram] =
    &[needed("redis-server", &["valkey-server"]), usual("redis-cli", &["valkey-cli"])];

/// The kind of that name; none where no built-in service runs on it.
pub(super) fn server(name: &str) -> Option<&'static Server> {
    SERVERS.iter().find(|server| server.name == name)
}
