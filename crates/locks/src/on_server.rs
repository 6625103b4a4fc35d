//! A built-in lock on a server in one of its versions, as its name says: `redlock@redis-7.0`, `etcd@3.4`.

use crate::definition::LockDefinition;
use crate::folder::kept;
use crate::service::{LockService, ServiceDefaults};
use crate::services::find;
use fencepost_cluster::images::ServerChoice;
use fencepost_history::Refusal;

/// The lock of this name, if it names a server behind a known lock. The error says which servers it has.
pub fn on_server(name: &str) -> Result<Option<&'static LockDefinition>, Refusal> {
    let Some((base, suffix)) = name.split_once('@') else { return Ok(None) };
    let Some(lock) = find(base) else { return Ok(None) };
    let servers = lock.service.servers;
    if servers.is_empty() {
        return Err(Refusal::new(format!("{base} has no servers; leave out @{suffix}")));
    }
    let Some(server) = ServerChoice::of_suffix(suffix, servers) else {
        return Err(Refusal::new(format!(
            "unknown server \"{suffix}\" of {base}: it runs on {}",
            ServerChoice::names(servers)
        )));
    };
    let name = format!("{base}@{server}");
    let defaults = ServiceDefaults { server: Some(server), ..ServiceDefaults::default() };
    let service = LockService { defaults, ..*lock.service };
    kept(name.clone(), || {
        Ok(LockDefinition { name: name.leak(), service: Box::leak(Box::new(service)), ..*lock })
    })
    .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn a_name_says_the_server() {
        let image = |name: &str| on_server(name).unwrap().unwrap().service.image(&Options::default());
        let named = |name: &str| on_server(name).unwrap().unwrap().name;
        assert_eq!(named("redlock@redis@7.0"), "redlock@redis-7.0");
        assert_eq!(named("etcd@3.4"), "etcd@etcd-3.4");
        assert!(image("redlock@valkey-9.1").unwrap().starts_with("valkey-9.1"));
        assert_eq!(on_server("redlock").unwrap().map(|lock| lock.name), None);
        let refused = on_server("etcd@redis-7.0").err().unwrap().sentence;
        assert!(refused.contains("it runs on etcd-3.4, etcd-3.5"), "{refused}");
        assert!(on_server("canary-nolock@redis-7.0").is_err());
        let logs = on_server("zookeeper-sequential@3.8").unwrap().unwrap().service.unreadable_data;
        assert!(!logs.is_empty(), "all else is as without a server");
    }
}
