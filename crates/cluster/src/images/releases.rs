//! Releases of servers: the versions that nodes can run, and the suite of Debian that each comes from.

use super::servers::{SERVERS, Server, VERSION, server};
use crate::debian::DEFAULT_SUITE;
use std::fmt;
use std::sync::LazyLock;

/// A server in one of its versions.
#[derive(Debug, PartialEq, Eq)]
pub struct Release {
    /// The kind of server: the name of a folder in `docker/`.
    pub server: &'static str,
    /// Its version, as far as a suite keeps to it.
    pub version: &'static str,
    pub suite: &'static str,
}

/// All releases, for each server the oldest first.
pub static RELEASES: LazyLock<Vec<Release>> = LazyLock::new(|| {
    let of = |server: &Server, (version, suite)| Release { server: server.name, version, suite };
    SERVERS
        .iter()
        .flat_map(|server| server.releases.iter().map(move |release| of(server, *release)))
        .collect()
});

impl Release {
    /// `redis-7.0`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.server, self.version)
    }

    /// Whether it is the release that nodes run where none is named.
    pub fn is_default(&self) -> bool {
        self.suite == DEFAULT_SUITE.name
    }

    /// The packages whose version is the server's. Where several are, any of them says it.
    pub fn packages(&self) -> Vec<String> {
        let versioned = server(self.server).map_or(&[][..], |server| server.versioned);
        versioned.iter().map(|package| package.replace(VERSION, self.version)).collect()
    }

    /// Whether a version of the package, as Debian writes it, is of this release: `5:8.0.2-3+deb13u1`.
    pub(crate) fn is_version(&self, debian: &str) -> bool {
        let upstream = debian.split_once(':').map_or(debian, |(_, rest)| rest);
        upstream
            .strip_prefix(self.version)
            .is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debian::Suite;
    use std::collections::BTreeSet;

    #[test]
    fn each_release_has_a_name_and_a_suite_that_is_known() {
        let names: BTreeSet<String> = RELEASES.iter().map(Release::name).collect();
        assert_eq!(names.len(), RELEASES.len());
        for release in RELEASES.iter() {
            assert!(Suite::find(release.suite).is_ok(), "{release}");
        }
    }

    #[test]
    fn documentation_has_every_release() {
        let page = include_str!("../../../../docs/servers.md");
        for Release { server, version, suite } in RELEASES.iter() {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{server}` | ")));
            let has_it = row.is_some_and(|row| row.contains(version) && row.contains(&format!("`{suite}`")));
            assert!(has_it, "docs/servers.md has no {server} {version} from {suite}");
        }
    }

    #[test]
    fn a_version_is_no_beginning_of_a_number() {
        let is = |version: &'static str, debian: &str| {
            Release { server: "redis", version, suite: "sid" }.is_version(debian)
        };
        assert!(is("8.0", "5:8.0.2-3+deb13u1") && is("15", "15.14-0+deb12u1") && is("3.5", "3.5.16-4"));
        assert!(!is("8.0", "5:8.01-1") && !is("7.0", "5:8.0.2-3"));
    }
}
