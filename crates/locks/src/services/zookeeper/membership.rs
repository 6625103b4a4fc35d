//! A server is removed from the ensemble, and a new one added in its place, by ZooKeeper's own shell. Source:
//! ZooKeeper's manual, "Dynamic Reconfiguration", sections "Incremental mode" and "Security".

use crate::service::ServiceOrders;
use fencepost_cluster::{ClusterError, Node};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

pub(super) const CLIENT_PORT: u16 = 2181;

/// The jars of a folder of a user's own: an unpacked distribution has them in `lib`.
pub(super) const OWN_CLASS_PATH: &str = "/lock/lib/*:/lock/*";

pub(super) const CLASS_PATH: &str = "/usr/share/java/zookeeper.jar:/usr/share/java/zookeeper-jute.jar:\
/usr/share/java/slf4j-api.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-handler.jar:\
/usr/share/java/netty-transport.jar:/usr/share/java/netty-codec.jar:/usr/share/java/netty-resolver.jar:\
/usr/share/java/netty-transport-classes-epoll.jar:/usr/share/java/netty-transport-native-unix-common.jar:/usr/share/java/netty-buffer.jar:/usr/share/java/netty-common.jar:\
/usr/share/java/snappy-java.jar:/usr/share/java/metrics-core.jar:/usr/share/java/commons-cli.jar";

/// Only an administrator may change the ensemble: the digest of `super:fencepost`, for each server.
pub(super) const ADMINISTRATOR: &str =
    "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:dkE770UBDyCYz8auooBUB8ycj3Q=";

/// Behind it, at the end, the addresses of the other servers.
const MEMBER: &str = "member:";

pub(super) const ORDERS: ServiceOrders = ServiceOrders {
    names: &[MEMBER],
    begin: |node, _| Box::pin(remove(node)),
    end: |node, order| Box::pin(add(node, order.strip_prefix(MEMBER).unwrap_or_default())),
};

/// `$1` is whom to ask, `$2` the order. A server's own jars come first, where it has them.
const SHELL: &str = r#"printf 'addauth digest super:fencepost\n%s\n' "$2" |
  exec java -Xmx64m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$3" org.apache.zookeeper.ZooKeeperMain -server "$1" 2>&1"#;

/// A JVM starts for each order, on a machine that may be busy.
const WITHIN: Duration = Duration::from_secs(20);

/// With fewer servers, none can be missed.
const SERVERS_MIN: usize = 3;

async fn shell(node: &Arc<dyn Node>, servers: &str, order: &str) -> Result<Vec<Server>, ClusterError> {
    let class_path = format!("{OWN_CLASS_PATH}:{CLASS_PATH}");
    let said = node.exec(&["sh", "-c", SHELL, "sh", servers, order, &class_path], WITHIN).await?;
    match ensemble(&said.stdout) {
        listed if listed.is_empty() => {
            // The rest is the log of its client.
            let mut lines = said.stdout.lines().map(str::trim);
            let why =
                lines.rfind(|line| !line.is_empty() && !line.starts_with(['[', 'W'])).unwrap_or("nothing");
            Err(format!("ZooKeeper at {servers} says to `{order}`: {why}").into())
        }
        listed => Ok(listed),
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Server {
    id: u32,
    address: String,
}

/// The ensemble as it was listed last: lines such as `server.1=198.18.0.2:2888:3888:participant`, which end
/// with the `version` of the configuration.
fn ensemble(said: &str) -> Vec<Server> {
    let (mut listed, mut last) = (Vec::new(), Vec::new());
    for line in said.lines() {
        match server(line.trim()) {
            Some(server) => listed.push(server),
            None if line.starts_with("version=") => last = std::mem::take(&mut listed),
            None => {}
        }
    }
    last
}

fn server(line: &str) -> Option<Server> {
    let (id, rest) = line.strip_prefix("server.")?.split_once('=')?;
    Some(Server { id: id.parse().ok()?, address: rest.split(':').next()?.to_owned() })
}

/// Removes the server of this node by an order to the others.
async fn remove(node: &Arc<dyn Node>) -> Result<(Value, bool), ClusterError> {
    let address = node.address().to_string();
    let listed = shell(node, &at(&address), "config").await?;
    let Some(own) = listed.iter().find(|server| server.address == address) else {
        return Err(format!("{} is no member of its ensemble", node.name()).into());
    };
    if listed.len() < SERVERS_MIN {
        let count = listed.len();
        return Err(format!("the ensemble has {count} servers: none can be removed").into());
    }
    let others: Vec<String> =
        listed.iter().filter(|server| *server != own).map(|server| at(&server.address)).collect();
    let left = shell(node, &others.join(","), &format!("reconfig -remove {}", own.id)).await?;
    let is_gone = left.len() < listed.len() && !left.contains(own);
    Ok((json!({"member": own.id, "others": others, "stays": true}), is_gone))
}

/// Adds a new server at the address of this node, whose process has ended, and empties its data folder. One
/// that was added before keeps its data.
async fn add(node: &Arc<dyn Node>, others: &str) -> Result<Value, ClusterError> {
    let others: Vec<String> = serde_json::from_str(others).unwrap_or_default();
    let others = others.join(",");
    let address = node.address().to_string();
    let listed = shell(node, &others, "config").await?;
    if listed.iter().any(|server| server.address == address) {
        return Ok(json!({}));
    }
    let id = (1..).find(|id| listed.iter().all(|server| server.id != *id)).unwrap_or_default();
    shell(node, &others, &format!("reconfig -add server.{id}={address}:2888:3888:participant;{CLIENT_PORT}"))
        .await?;
    let emptied = node.exec(&["rm", "-rf", "{data}/zookeeper"], Duration::from_secs(10)).await?;
    if emptied.code != Some(0) {
        return Err(format!("the data of {} cannot be removed: {}", node.name(), emptied.stderr).into());
    }
    Ok(json!({"start_with": {}}))
}

fn at(address: &str) -> String {
    format!("{address}:{CLIENT_PORT}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ensemble_is_the_one_that_was_listed_last() {
        let said = "server.1=198.18.0.2:2888:3888:participant\nserver.2=198.18.0.3:2888:3888:participant\n\
            version=0\nCommitted new configuration:\nserver.1=198.18.0.2:2888:3888:participant\nversion=100000003\n";
        let one = Server { id: 1, address: "198.18.0.2".to_owned() };
        assert_eq!(ensemble(said), [one]);
        assert_eq!(ensemble("server.1=198.18.0.2:2888:3888:participant\nNo quorum of new config"), []);
    }
}
