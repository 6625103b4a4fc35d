//! Words that people know from elsewhere, for what has another name here or is not here.

use fencepost_history::prose::quoted_or;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// By what an option names: the words that people use, separated by blanks, and what there is for them.
type NamedWords = BTreeMap<String, BTreeMap<String, String>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherNames {
    names: NamedWords,
    answers: NamedWords,
}

static KNOWN: LazyLock<OtherNames> =
    LazyLock::new(|| toml::from_str(include_str!("other_names.toml")).expect("a test reads it"));

fn row<'a>(words: &'a NamedWords, what: &str, word: &str) -> Option<&'a str> {
    let mut rows = words.get(what)?.iter();
    rows.find(|(words, _)| words.split(' ').any(|each| each == word)).map(|(_, here)| here.as_str())
}

/// The answer to a word that is known from elsewhere: the rest of a sentence that begins with the word.
pub fn known_elsewhere(what: &str, name: &str) -> Option<String> {
    let word = name.to_lowercase().replace('_', "-");
    let names = row(&KNOWN.names, what, &word).map(|here| {
        let here: Vec<&str> = here.split(' ').collect();
        format!("did you mean {}?", quoted_or(&here))
    });
    names.or_else(|| Some(row(&KNOWN.answers, what, &word)?.replace("WORD", &word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::names::{find_lock, pick};

    #[test]
    fn what_is_suggested_exists() {
        for (what, rows) in &KNOWN.names {
            for (words, name) in
                rows.iter().flat_map(|(words, here)| here.split(' ').map(move |name| (words, name)))
            {
                let exists = match what.as_str() {
                    "lock" => find_lock(name).is_ok(),
                    "nemesis" => {
                        name == fencepost_nemesis::SWARM
                            || pick(what, name, fencepost_nemesis::registry(), |nemesis| nemesis.name())
                                .is_ok()
                    }
                    "guard" => pick(what, name, fencepost_storage::guards(), |guard| guard.name).is_ok(),
                    "driver" => fencepost_cluster::DRIVER_NAMES.contains(&name),
                    "workload" => pick(what, name, fencepost_workloads::registry(), |each| each.name).is_ok(),
                    _ => false,
                };
                assert!(exists && !words.split(' ').any(|word| word == name), "{what} {name}");
            }
        }
    }

    #[test]
    fn a_word_from_elsewhere_is_answered_with_what_it_is_here() {
        let refused = |name| find_lock(name).err().expect("no such lock").sentence;
        let redis = "unknown lock \"redis\": did you mean \"redis-single\", \"redis-sentinel\", \"redis-cluster\" or \"redlock\"?";
        assert_eq!(refused("redis"), redis);
        assert!(refused("Consul").contains("docs/your-own-servers.md"));
        assert!(refused("redisson").contains("fencepost lock new"));
        assert!(refused("all").contains("compare --locks all"));
        assert_eq!(known_elsewhere("guard", "redis"), None);
        let adapters = KNOWN.answers["lock"].iter().find(|(_, answer)| answer.contains("adapters/"));
        for folder in adapters.expect("a row").0.split(' ') {
            let path = format!("{}/../../adapters/{folder}/lock.toml", env!("CARGO_MANIFEST_DIR"));
            assert!(std::path::Path::new(&path).is_file(), "{path}");
            assert!(refused(folder).ends_with(&format!("--lock adapters/{folder}")));
        }
    }
}
