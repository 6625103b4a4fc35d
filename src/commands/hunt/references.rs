//! What reference locks have shown in earlier hunts on this machine, so that they are not played again. A
//! busy machine can make any lock look broken once: only what a reference has shown in two hunts is known,
//! for the same version of Fencepost, servers, driver, options and TTL.

use fencepost_cluster::{DEFAULT_SUITE, cache_folder};
use fencepost_engine::find_lock;
use fencepost_history::run::write_inside;
use fencepost_hunt::hunt::HuntRequest;
use fencepost_report::findings::Signature;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

const HUNTS: u64 = 2;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct References {
    conditions: String,
    shown: Vec<ShownByReference>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ShownByReference {
    signature: Signature,
    hunts: u64,
}

pub struct KnownReference {
    folder: PathBuf,
    name: String,
    known: References,
}

impl KnownReference {
    /// Reads it; unreadable is empty. None without comparison, with a folder, or for a part of several.
    pub fn read(request: &HuntRequest, driver: &str) -> Option<KnownReference> {
        let lock = request.against.as_ref().filter(|_| request.shard.is_none())?;
        let is_built_in = find_lock(lock).is_ok_and(|found| found.recipe.program().is_none());
        if !is_built_in {
            return None;
        }
        let folder = cache_folder().ok()?.join("references");
        Some(KnownReference::read_in(&folder, lock, conditions(request, driver)))
    }

    fn read_in(folder: &Path, lock: &str, conditions: String) -> KnownReference {
        let name = format!("{lock}.json");
        let text = fs::read(folder.join(&name)).unwrap_or_default();
        let known: References = serde_json::from_slice(&text).unwrap_or_default();
        let known = match known.conditions == conditions {
            true => known,
            false => References { conditions, shown: Vec::new() },
        };
        KnownReference { folder: folder.to_owned(), name, known }
    }

    pub fn shown(&self) -> Vec<Signature> {
        let often = self.known.shown.iter().filter(|shown| shown.hunts >= HUNTS);
        often.map(|shown| shown.signature.clone()).collect()
    }

    /// Keeps what it has shown in a hunt. Where that cannot be written, the next hunt asks again.
    pub fn learn(mut self, shown: &[Signature]) {
        for signature in shown {
            match self.known.shown.iter_mut().find(|shown| shown.signature == *signature) {
                Some(shown) => shown.hunts += 1,
                None => self.known.shown.push(ShownByReference { signature: signature.clone(), hunts: 1 }),
            }
        }
        let Ok(text) = serde_json::to_vec_pretty(&self.known) else { return };
        if fs::create_dir_all(&self.folder).is_ok() {
            let _ = write_inside(&self.folder, &self.name, &text);
        }
    }
}

/// What a reference's behaviour depends on, beside the faults.
fn conditions(request: &HuntRequest, driver: &str) -> String {
    let options = &request.options;
    // As the lock sets its servers up: a lock.toml, or the end of a name, may say more than the options.
    let lock = find_lock(&options.lock);
    let set_up = lock.as_ref().map(|lock| lock.service.set_up(&options.lock_options));
    let servers = set_up.as_ref().unwrap_or(&options.lock_options);
    let image = lock.as_ref().ok().and_then(|lock| lock.service.image(servers)).unwrap_or_default();
    format!(
        "fencepost {} {driver} server {image} of {DEFAULT_SUITE} ttl {} careful {} nodes {:?} persistence {:?} storage {} workload {}",
        env!("CARGO_PKG_VERSION"),
        options.ttl,
        options.careful,
        servers.nodes,
        servers.redis_persistence,
        options.guard,
        options.workload
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_report::findings::FaultCause;

    fn granted_twice(fault: &str) -> Signature {
        Signature {
            checker: "exclusion".to_owned(),
            class: "granted-twice".to_owned(),
            causes: vec![FaultCause {
                fault: fault.to_owned(),
                role: "granting".to_owned(),
                phase: "held".to_owned(),
            }],
        }
    }

    #[test]
    fn what_a_reference_has_shown_twice_is_known_under_the_same_conditions() {
        let folder = tempfile::tempdir().unwrap();
        let read =
            |conditions: &str| KnownReference::read_in(folder.path(), "redis-single", conditions.to_owned());
        read("ttl 500ms").learn(&[granted_twice("clock-jump"), granted_twice("clock-drift")]);
        assert_eq!(read("ttl 500ms").shown(), [], "once may be the machine's failure");
        read("ttl 500ms").learn(&[granted_twice("clock-jump")]);
        assert_eq!(read("ttl 500ms").shown(), [granted_twice("clock-jump")]);
        assert_eq!(read("ttl 1s").shown(), []);
        fs::write(folder.path().join("redis-single.json"), "{").unwrap();
        assert_eq!(read("ttl 500ms").shown(), [], "a damaged file is as none");
    }
}
