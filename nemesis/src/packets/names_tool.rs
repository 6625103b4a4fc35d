//! The tool by which an agent gives names to the addresses of other nodes, in the file that every resolver
//! reads first, and looks names up as the programs of its node do.

use fencepost_cluster::agent::{Tool, ToolError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};

const HOSTS: &str = "/etc/hosts";

/// Behind each line that is the tool's.
const MARK: &str = " # fencepost";

pub struct NamesTool;

/// Gives [`Addresses`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamesCall {
    /// The names from now on, in place of all earlier ones; none: they stay.
    pub set: Option<BTreeMap<String, Ipv4Addr>>,
    pub look_up: Vec<String>,
}

/// What names stand for; a name without an address stands for nothing.
pub(crate) type Addresses = BTreeMap<String, Vec<Ipv4Addr>>;

impl Tool for NamesTool {
    fn name(&self) -> &'static str {
        "names"
    }

    fn call(&self, args: Value) -> Result<Value, ToolError> {
        let NamesCall { set, look_up } =
            serde_json::from_value(args).map_err(|error| format!("the names tool was misused: {error}"))?;
        if let Some(names) = set {
            let cannot = |error: std::io::Error| format!("cannot change {HOSTS}: {error}");
            let text = std::fs::read_to_string(HOSTS).map_err(cannot)?;
            // In place: the file may be a mount of its own.
            std::fs::write(HOSTS, with_names(&text, &names)).map_err(cannot)?;
        }
        let found: Addresses = look_up.into_iter().map(|name| (name.clone(), addresses(&name))).collect();
        Ok(json!(found))
    }
}

fn with_names(text: &str, names: &BTreeMap<String, Ipv4Addr>) -> String {
    let others = text.lines().filter(|line| !line.ends_with(MARK)).map(str::to_owned);
    let own = names.iter().map(|(name, address)| format!("{address} {name}{MARK}"));
    others.chain(own).map(|line| line + "\n").collect()
}

/// By getaddrinfo, as most programs do.
fn addresses(name: &str) -> Vec<Ipv4Addr> {
    let found = (name, 0).to_socket_addrs().into_iter().flatten();
    let mut found: Vec<Ipv4Addr> = found
        .filter_map(|address| if let IpAddr::V4(address) = address.ip() { Some(address) } else { None })
        .collect();
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_others_stay() {
        let names = |address: &str| BTreeMap::from([("n1".to_owned(), address.parse().unwrap())]);
        let first = with_names("127.0.0.1 localhost\n", &names("198.18.0.2"));
        assert_eq!(first, "127.0.0.1 localhost\n198.18.0.2 n1 # fencepost\n");
        assert_eq!(with_names(&first, &names("198.18.0.3")), first.replace("0.2", "0.3"));
        assert_eq!(with_names(&first, &BTreeMap::new()), "127.0.0.1 localhost\n");
    }

    #[test]
    fn names_are_looked_up() {
        assert_eq!(addresses("localhost"), [Ipv4Addr::LOCALHOST]);
        assert!(addresses("no-such-name.invalid").is_empty());
    }
}
