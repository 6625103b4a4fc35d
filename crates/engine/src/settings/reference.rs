//! The same run of another lock on the same servers: which failures are the lock's own?

use crate::refuse_option;
use crate::settings::names::{BadUsage, find_lock};
use crate::settings::options::RunOptions;
use crate::settings::validation::RunSpec;
use fencepost_locks::{Options, reference};

/// In place of a reference: no comparison.
const NO_REFERENCE: &str = "none";

/// The reference that `--against` names for a lock; none for `none`. Errors: unknown, or on other servers.
pub fn named_reference(lock: &str, against: &str) -> Result<Option<String>, BadUsage> {
    if against == NO_REFERENCE {
        return Ok(None);
    }
    let under_test = find_lock(lock)?;
    let other = find_lock(against)
        .map_err(|refused| BadUsage::at("against", format!("--against: {}", refused.sentence)))?;
    let (service, others) = (under_test.service.name, other.service.name);
    if others != service {
        let fits = reference(under_test).map_or(String::new(), |fits| format!("; use {}", fits.name));
        refuse_option!("against", "--against {against}: it runs on {others}, and {lock} on {service}{fits}");
    }
    Ok(Some(against.to_owned()))
}

impl RunSpec {
    /// The same run of this lock: faults, seed, processes, times, servers. Errors: it does not fit.
    pub fn of_reference(&self, reference: &str) -> Result<RunSpec, BadUsage> {
        let servers = self.lock.service.set_up(&self.options.lock_options);
        let lock_options = Options {
            nodes: servers.nodes,
            redis_persistence: servers.redis_persistence,
            ..Options::default()
        };
        let options = RunOptions {
            lock: reference.to_owned(),
            client: None,
            client_files: None,
            client_packages: Vec::new(),
            client_memory: None,
            option: Vec::new(),
            pause_at: Vec::new(),
            lock_options,
            ..self.options.clone()
        };
        RunSpec::with_plan(options, self.plan.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_nemesis::Plan;

    fn spec(lock: &str) -> RunSpec {
        let options =
            RunOptions { lock: lock.to_owned(), clients: 3, careful: true, ..RunOptions::default() };
        RunSpec::with_plan(options, Plan::default()).unwrap()
    }

    #[test]
    fn a_reference_runs_on_the_servers_of_the_lock() {
        let named =
            |lock: &str, against: &str| named_reference(lock, against).map_err(|error| error.sentence);
        assert_eq!(named("etcd-lock-api", "etcd"), Ok(Some("etcd".to_owned())));
        assert_eq!(named("etcd-lock-api", "none"), Ok(None));
        let others = "--against redlock: it runs on redis-independent, and etcd on etcd; use etcd";
        assert_eq!(named("etcd", "redlock"), Err(others.to_owned()));
        assert!(named("etcd", "etdc").unwrap_err().starts_with("--against: unknown lock \"etdc\""));
    }

    #[test]
    fn a_reference_has_the_servers_and_the_processes_of_the_lock() {
        let of = |lock: &str, reference: &str| spec(lock).of_reference(reference).unwrap().options;
        let options = of("etcd-lock-api", "etcd");
        assert_eq!((options.lock.as_str(), options.clients, options.careful), ("etcd", 3, true));
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../adapters/redlock-py");
        let options = of(folder, "redlock");
        assert_eq!(options.lock_options.nodes, spec(folder).lock.service.set_up(&Options::default()).nodes);
    }
}
