//! Guards: which writes the storage accepts. One file each; the registry here names them all.

mod epoch_quorum;
mod epoch_quorum_unmarked;
mod guard;
mod none;
mod sequencer;
mod token;
mod token_racy;
mod unique;
mod unique_racy;

pub use guard::{Credentials, Guard, Need, Record, Rejection, Write};

/// Every guard: one line each.
pub fn guards() -> &'static [&'static Guard] {
    &[
        &none::NONE,
        &token::TOKEN,
        &token_racy::TOKEN_RACY,
        &unique::UNIQUE,
        &unique_racy::UNIQUE_RACY,
        &sequencer::SEQUENCER,
        &epoch_quorum::EPOCH_QUORUM,
        &epoch_quorum_unmarked::EPOCH_QUORUM_UNMARKED,
    ]
}

/// The guard of that name; without a name the guard `none`.
pub fn find_guard(name: &str) -> Option<&'static Guard> {
    let name = if name.is_empty() { "none" } else { name };
    guards().iter().copied().find(|guard| guard.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_found() {
        let names: HashSet<_> = guards().iter().map(|guard| guard.name).collect();
        assert_eq!(names.len(), guards().len());
        assert!(names.iter().all(|name| find_guard(name).is_some_and(|guard| guard.name == *name)));
        assert!(find_guard("tokn").is_none());
        assert_eq!(find_guard("").map(|guard| guard.name), Some("none"));
    }

    const MARK: &str = "## All guards\n\n";

    fn table() -> String {
        let row = |guard: &&Guard| {
            let (name, about, needs, source) = (guard.name, guard.about, guard.needs, guard.source);
            format!("| `{name}` | {about} | {needs} | {source} |\n")
        };
        let rows: String = guards().iter().map(row).collect();
        format!("| guard | decides | needs of the lock | source |\n|---|---|---|---|\n{rows}")
    }

    #[test]
    fn the_documentation_names_every_guard() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guards.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (prose, listed) = text.split_once(MARK).expect("the heading stands in docs/guards.md");
        if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") {
            std::fs::write(path, format!("{prose}{MARK}{}", table())).unwrap();
            return;
        }
        assert!(
            listed == table(),
            "docs/guards.md is behind; `INSTA_UPDATE=always cargo test -p fencepost-storage` renews it"
        );
    }
}
