//! An ensemble of ZooKeeper servers: how it is started, who serves, and who leads.

use super::membership::{self, CLASS_PATH, CLIENT_PORT, OWN_CLASS_PATH};
use crate::described::{DESCRIBED, ONE};
use crate::error::{OptionError, nodes_are, refuse};
use crate::options::Options;
use crate::run_access::{AccessFile, FOLDER, RunAccess, USER};
use crate::service::{LockService, ServerKind, ServiceLeadership, TLS_AND_AUTH};
use fencepost_cluster::images::ServerChoice;
use fencepost_cluster::protocol::Service;
use fencepost_cluster::{ClockMechanism, ClusterError, Node};
use fencepost_history::Lease;
use std::sync::Arc;
use std::time::Duration;

/// The port for Fencepost's own questions if the client port speaks TLS: plain, and in the own node only.
const LOOPBACK_PORT: u16 = 2182;
/// Every half tick followers report their clients to the leader, which ends sessions at whole ticks.
pub(super) const TICK: Duration = Duration::from_millis(500);
/// The servers' own bounds of a session's time-out; they would silently bring another one within them.
const TTL_MIN: Duration = Duration::from_secs(1);
const TTL_MAX: Duration = Duration::from_secs(120);

const SERVICE: &str = "zookeeper";
const ASK: Duration = Duration::from_secs(2);

/// Asks a server from inside its own node, at [`LOOPBACK_PORT`] if its client port speaks TLS.
const SRVR: &str =
    "if [ -e /run/access/ca.pem ]; then server=127.0.0.1/2182; else server={address}/{port}; fi
exec 3<>/dev/tcp/$server && printf srvr >&3 && cat <&3";

/// Configures, and becomes the server: `$1` folder, `$2` number, `$3` configuration, then the command.
const SCRIPT: &str =
    "mkdir -p \"$1\" && printf %s \"$2\" > \"$1/myid\" && printf %s \"$3\" > \"$1/zoo.cfg\" || exit 1
shift 3; exec \"$@\"";

pub(super) static ZOOKEEPER: LockService = LockService {
    name: "zookeeper",
    about: "a ZooKeeper of three servers",
    lease: Lease::Session,
    servers: &["zookeeper"],
    kinds: &[ServerKind {
        count: 3,
        server: "ZooKeeper",
        processes: &[SERVICE],
        port: CLIENT_PORT,
        version: &["bash", "-c", SRVR],
        ..ONE
    }],
    setup_time: Duration::from_secs(3),
    options: TLS_AND_AUTH,
    // A JVM waits by absolute times: moved by a patch, its waits last as long as the jump.
    clock_mechanisms: &[ClockMechanism::Faketime],
    unreadable_data: &[
        "No snapshot found, but there are log entries",
        "CRC check failed",
        "Unreasonable length",
    ],
    check_nodes: |_, nodes| {
        nodes_are!(
            nodes >= 3 && nodes % 2 == 1 && nodes <= 9,
            "a quorum of ZooKeeper needs an odd number of servers from 3 to 9, not {nodes}; use --nodes 3 or --nodes 5"
        )
    },
    check_ttl,
    start,
    access_files,
    trouble: |service, node, all| Box::pin(trouble(service, node, all)),
    version,
    leadership: Some(ServiceLeadership {
        leader: |service, nodes| Box::pin(leader(service, nodes)),
        transfer: |_, _, _| {
            Box::pin(async { Err(ClusterError::new("ZooKeeper has no order by which its leader changes")) })
        },
    }),
    orders: Some(membership::ORDERS),
    ..DESCRIBED
};

fn check_ttl(ttl: Duration) -> Result<(), OptionError> {
    if (TTL_MIN..=TTL_MAX).contains(&ttl) {
        return Ok(());
    }
    refuse!(
        "ttl",
        "these ZooKeeper servers give sessions of {} to {} s; use --ttl {}s",
        TTL_MIN.as_secs(),
        TTL_MAX.as_secs(),
        ttl.clamp(TTL_MIN, TTL_MAX).as_secs()
    )
}

fn ports(node: &dyn Node, options: &Options) -> String {
    if !options.tls {
        return format!("clientPort={CLIENT_PORT}\n");
    }
    format!(
        "clientPort={LOOPBACK_PORT}\nclientPortAddress=127.0.0.1\n\
         secureClientPort={CLIENT_PORT}\nsecureClientPortAddress={address}\n\
         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
         ssl.keyStore.location={FOLDER}/server-all.pem\nssl.keyStore.type=PEM\n\
         ssl.trustStore.location={FOLDER}/ca.pem\nssl.trustStore.type=PEM\n\
         ssl.clientAuth=need\nssl.hostnameVerification=false\n",
        address = node.address()
    )
}

fn access_files(access: &RunAccess) -> Vec<AccessFile> {
    let Some(password) = access.password() else { return Vec::new() };
    let users = format!(
        "Server {{\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  user_{USER}=\"{password}\";\n}};\n"
    );
    vec![AccessFile::new("jaas.conf", users)]
}

const AUTH: &str = "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
    enforce.auth.enabled=true\nenforce.auth.schemes=sasl\n";

fn start(_: &LockService, index: usize, nodes: &[Arc<dyn Node>], options: &Options) -> Service {
    let is_own = matches!(options.server, Some(ServerChoice::Own(_)));
    let class_path = if is_own { OWN_CLASS_PATH } else { CLASS_PATH };
    let folder = "{data}/zookeeper";
    let mut config = format!(
        "reconfigEnabled=true\ntickTime={tick}\ninitLimit=20\nsyncLimit=4\ndataDir={folder}\n\
         minSessionTimeout={min}\nmaxSessionTimeout={max}\nmaxClientCnxns=0\nadmin.enableServer=false\n\
         4lw.commands.whitelist=srvr\n",
        tick = TICK.as_millis(),
        min = TTL_MIN.as_millis(),
        max = TTL_MAX.as_millis(),
    );
    config.push_str(&ports(nodes[index].as_ref(), options));
    if options.auth {
        config.push_str(AUTH);
    }
    for (index, node) in nodes.iter().enumerate() {
        config.push_str(&format!("server.{}={}:2888:3888\n", index + 1, node.address()));
    }
    let number = (index + 1).to_string();
    let config_file = format!("{folder}/zoo.cfg");
    let mut argv: Vec<String> = [
        "sh",
        "-c",
        SCRIPT,
        "sh",
        folder,
        &number,
        &config,
        // One compiler and one collector thread: servers share few cores, and start half a second sooner.
        "java",
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        // The collector's threads and the perf file are nothing that a server under test needs.
        "-XX:-UsePerfData",
        "-cp",
        class_path,
    ]
    .map(str::to_owned)
    .to_vec();
    argv.push(membership::ADMINISTRATOR.to_owned());
    if options.auth {
        argv.push(format!("-Djava.security.auth.login.config={FOLDER}/jaas.conf"));
    }
    argv.extend(["org.apache.zookeeper.server.quorum.QuorumPeerMain".to_owned(), config_file]);
    Service { name: SERVICE.to_owned(), argv, env: Vec::new(), refuses_root: false }
}

async fn trouble(
    service: &LockService,
    node: &Arc<dyn Node>,
    all: &[Arc<dyn Node>],
) -> Result<Option<String>, ClusterError> {
    Ok(match ask(service, node, all).await?.as_str() {
        "" => Some("it does not answer".to_owned()),
        answer if mode(answer).is_some() => None,
        // It listens as soon as it runs, and serves once it found a quorum.
        _ => Some("it has found no quorum".to_owned()),
    })
}

/// What the server says to `srvr`, asked from inside its own node; nothing where it does not answer.
async fn ask(
    service: &LockService,
    node: &Arc<dyn Node>,
    all: &[Arc<dyn Node>],
) -> Result<String, ClusterError> {
    service.ask(&["bash", "-c", SRVR], ASK, node, all).await.map(|output| output.stdout)
}

/// The place of the server that leads. A leader that was cut off says so of itself until it notices: where
/// two do, it is the one with the newer epoch, the upper half of its last transaction's number.
async fn leader(service: &LockService, nodes: &[Arc<dyn Node>]) -> Result<Option<usize>, ClusterError> {
    let mut newest: Option<(u64, usize)> = None;
    for (place, node) in nodes.iter().enumerate() {
        let answer = ask(service, node, nodes).await?;
        if mode(&answer) == Some("leader") {
            newest = newest.max(Some((epoch(&answer), place)));
        }
    }
    Ok(newest.map(|(_, place)| place))
}

/// From `Zxid: 0x500000003`; 0 where it is missing.
fn epoch(answer: &str) -> u64 {
    let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"));
    zxid.and_then(|zxid| u64::from_str_radix(zxid.trim(), 16).ok()).unwrap_or(0) >> 32
}

/// `leader` or `follower`; none where it is neither.
fn mode(answer: &str) -> Option<&str> {
    answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::trim)
}

/// From `Zookeeper version: 3.8.0-…, built on …`. What stands after the number is the build's.
fn version(line: &str) -> Option<String> {
    let version = line.strip_prefix("Zookeeper version: ")?;
    let number = version.split(|sign: char| sign != '.' && !sign.is_ascii_digit()).next()?;
    Some(format!("ZooKeeper {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AnsweringNode;

    #[test]
    fn what_a_server_tells_is_understood() {
        let line = "Zookeeper version: 3.8.0-${mvngit.commit.id}, built on 2024-12-29 17:54 UTC";
        assert_eq!(version(line).as_deref(), Some("ZooKeeper 3.8.0"));
        assert_eq!(mode("Mode: follower\n"), Some("follower"));
        assert_eq!(epoch("Zxid: 0x500000003\nMode: leader\n"), 5);
        assert_eq!(mode("This ZooKeeper instance is not currently serving requests\n"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn servers_that_do_not_serve_are_named_with_the_reason() {
        let says = |stdout, stderr, runs| async move {
            let nodes = AnsweringNode { stdout, stderr, runs }.nodes();
            ZOOKEEPER.await_ready(&nodes).await.unwrap_err().0
        };
        let alone = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(
            says(alone, "", true).await,
            "ZooKeeper on n1 did not serve within 120 s (it has found no quorum); the log of n1 says why"
        );
        assert_eq!(
            says("", "refused", false).await,
            "ZooKeeper on n1 ended as soon as it was started; the log of n1 says why"
        );
        let nodes = AnsweringNode { stdout: "Mode: follower\n", stderr: "", runs: true }.nodes();
        assert!(ZOOKEEPER.await_ready(&nodes).await.is_ok());
    }

    #[test]
    fn ttl_is_one_that_the_servers_give() {
        assert_eq!(check_ttl(Duration::from_secs(2)), Ok(()));
        assert!(
            check_ttl(Duration::from_millis(500)).is_err_and(|why| why.sentence.ends_with("use --ttl 1s"))
        );
    }
}
