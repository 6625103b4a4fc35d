//! Suites of Debian: the origin of everything in the nodes, and the keys that sign their lists of packages.

use fencepost_history::Refusal;
use std::fmt;

/// The keys of Debian's archive (debian-archive-keyring), public; `tools/base-packages` renews them.
pub(super) const KEYS: &[u8] = include_bytes!("archive-keys.gpg");

pub const SUITES: [Suite; 6] = [
    Suite { name: "bookworm", kind: ArchiveKind::Updated },
    Suite { name: "bookworm-backports", kind: ArchiveKind::Backports { of: "bookworm" } },
    Suite { name: "trixie", kind: ArchiveKind::Updated },
    Suite { name: "trixie-backports", kind: ArchiveKind::Backports { of: "trixie" } },
    Suite { name: "forky", kind: ArchiveKind::Updated },
    Suite { name: "sid", kind: ArchiveKind::Rolling },
];

pub const DEFAULT_SUITE: Suite = SUITES[2];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Suite {
    pub name: &'static str,
    kind: ArchiveKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ArchiveKind {
    /// With updates and security updates in lists of their own.
    Updated,
    /// One list, in which everything changes.
    Rolling,
    /// An updated suite, with newer packages where there are any.
    Backports { of: &'static str },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Archive {
    Main,
    Security,
}

impl Archive {
    pub(super) fn folder(self) -> &'static str {
        match self {
            Archive::Main => "debian",
            Archive::Security => "debian-security",
        }
    }

    pub fn of_folder(name: &str) -> Option<Archive> {
        [Archive::Main, Archive::Security].into_iter().find(|archive| archive.folder() == name)
    }
}

impl Suite {
    /// The suite of that name. The error names the known ones.
    pub fn find(name: &str) -> Result<Suite, Refusal> {
        SUITES.into_iter().find(|suite| suite.name == name).ok_or_else(|| {
            let known = SUITES.map(|suite| suite.name);
            Refusal::unknown("suite of Debian", name, &known)
        })
    }

    /// The lists of packages that make up the suite: in which archive, and under which name.
    pub(super) fn parts(self) -> Vec<(Archive, String)> {
        let mut parts = vec![(Archive::Main, self.name.to_owned())];
        let updated = match self.kind {
            ArchiveKind::Rolling => return parts,
            ArchiveKind::Updated => self.name,
            ArchiveKind::Backports { of } => {
                parts.push((Archive::Main, of.to_owned()));
                of
            }
        };
        parts.push((Archive::Main, format!("{updated}-updates")));
        parts.push((Archive::Security, format!("{updated}-security")));
        parts
    }

    /// The release whose base image there is.
    pub(crate) fn release(self) -> &'static str {
        match self.kind {
            ArchiveKind::Backports { of } => of,
            ArchiveKind::Updated | ArchiveKind::Rolling => self.name,
        }
    }

    /// The list whose packages come before those of the others, though they may be older.
    pub(super) fn preferred(self) -> Option<&'static str> {
        matches!(self.kind, ArchiveKind::Backports { .. }).then_some(self.name)
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name)
    }
}

/// This machine's processor, as Debian calls it; container engines do, too.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
