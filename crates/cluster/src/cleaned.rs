//! What became of things that killed runs left.

use std::collections::BTreeMap;

/// A kind of thing that a run can leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftoverKind {
    Process,
    Mount,
    Container,
    Network,
    Folder,
    /// A folder of a user's programs that was being made ready.
    UnfinishedFolder,
}

/// What was found, and what became of it.
#[derive(Debug, Default)]
pub struct Cleaned {
    removed: BTreeMap<LeftoverKind, Vec<String>>,
    /// A sentence for each thing that could not be removed.
    pub failures: Vec<String>,
    /// Why the engine was not looked at, if it was not.
    pub engine_skipped: Option<String>,
}

impl LeftoverKind {
    fn names(self) -> (&'static str, &'static str) {
        match self {
            LeftoverKind::Process => ("process", "processes"),
            LeftoverKind::Mount => ("mount", "mounts"),
            LeftoverKind::Container => ("container", "containers"),
            LeftoverKind::Network => ("network", "networks"),
            LeftoverKind::Folder => ("folder", "folders"),
            LeftoverKind::UnfinishedFolder => ("unfinished folder of a user", "unfinished folders of users"),
        }
    }
}

impl Cleaned {
    pub(crate) fn removed(&mut self, kind: LeftoverKind, name: impl Into<String>) {
        self.removed.entry(kind).or_default().push(name.into());
    }

    /// A line for each kind of thing that was removed.
    pub fn lines(&self) -> Vec<String> {
        let line = |(kind, names): (&LeftoverKind, &Vec<String>)| {
            let (one, several) = kind.names();
            let what = if names.len() == 1 { one } else { several };
            let verb = if *kind == LeftoverKind::Process { "ended" } else { "removed" };
            format!("{verb} {} {what} of killed runs: {}", names.len(), names.join(", "))
        };
        self.removed.iter().map(line).collect()
    }

    pub(crate) fn add(&mut self, other: Cleaned) {
        for (kind, names) in other.removed {
            self.removed.entry(kind).or_default().extend(names);
        }
        self.failures.extend(other.failures);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_line() {
        let mut found = Cleaned::default();
        found.removed(LeftoverKind::Network, "fencepost-1-1-7");
        found.removed(LeftoverKind::Process, "12");
        found.removed(LeftoverKind::Process, "13");
        assert_eq!(
            found.lines(),
            ["ended 2 processes of killed runs: 12, 13", "removed 1 network of killed runs: fencepost-1-1-7"]
        );
    }
}
