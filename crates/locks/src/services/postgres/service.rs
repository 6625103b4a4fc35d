//! A PostgreSQL server: how it is started, and how it says that it serves.

use super::psql::{USER, psql};
use crate::described::{DESCRIBED, ONE};
use crate::error::nodes_are;
use crate::options::Options;
use crate::readiness::command_fails;
use crate::run_access::{AccessFile, FOLDER, RunAccess, USER as ROLE};
use crate::service::{LockService, ServerKind, TLS_AND_AUTH};
use fencepost_cluster::protocol::Service;
use fencepost_history::Lease;
use std::time::Duration;

const PORT: u16 = 5432;

const SERVICE: &str = "postgres";

/// Makes the database where there is none yet, as user 65534 (the server refuses to run as root), and becomes
/// the server. initdb ends with an fsync of all that it wrote, and what is added has its own, so that a later
/// loss of power leaves a database. Segments of its log are small, since initdb fills the first.
const SCRIPT: &str = r#"
as=""
mkdir -p "$1" || exit 1
if [ "$(id -u)" = 0 ]; then
    as="setpriv --reuid 65534 --regid 65534 --clear-groups"
    chown 65534:65534 "$1" || exit 1
fi
chmod 700 "$1" || exit 1
if [ ! -s "$1/PG_VERSION" ]; then
    $as initdb --pgdata "$1" --username "$2" --auth trust --no-locale --encoding UTF8 --wal-segsize 1 >&2 || exit 1
    if [ -e /run/access/pg_hba.conf ]; then cp /run/access/pg_hba.conf "$1/pg_hba.conf"
    else echo 'host all all all trust' >> "$1/pg_hba.conf"; fi && sync "$1/pg_hba.conf" || exit 1
    if [ -e /run/access/user.sql ]; then
        # The server in single mode reads statements, one a line, and ends with all of it on the disk.
        $as "$3" --single -D "$1" postgres < /run/access/user.sql >&2 || exit 1
    fi
fi
if [ -e /run/access/server.key ]; then
    # The server wants a key that no other user can read.
    cp /run/access/server.key "$1/server.key" && chmod 600 "$1/server.key" || exit 1
    [ -z "$as" ] || chown 65534:65534 "$1/server.key" || exit 1
fi
shift 2
exec $as "$@"
"#;

/// What workloads read and write, as JSON; each key its own row, so that its lock is the value's.
const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS protected (\
    key text PRIMARY KEY, value text NOT NULL DEFAULT '0', version bigint NOT NULL DEFAULT 0)";

pub(super) static POSTGRES: LockService = LockService {
    name: "postgres",
    about: "one PostgreSQL server (user and database: postgres, no password)",
    lease: Lease::Connection,
    servers: &["postgres"],
    kinds: &[ServerKind {
        server: "PostgreSQL",
        processes: &[SERVICE],
        port: PORT,
        version: &psql("SHOW server_version"),
        ..ONE
    }],
    setup_time: Duration::from_secs(3),
    options: TLS_AND_AUTH,
    check_nodes: |_, nodes| nodes_are!(nodes == 1, "PostgreSQL has one server, not {nodes}; use --nodes 1"),
    start: |_, _, _, options| start(options),
    access_files,
    // It serves once the table is there.
    trouble: |_, node, _| Box::pin(command_fails(node, const { &psql(SCHEMA) })),
    version,
    orders: Some(super::orders::ORDERS),
    ..DESCRIBED
};

fn start(options: &Options) -> Service {
    let folder = "{data}/postgres";
    let mut argv = ["sh", "-c", SCRIPT, "sh", folder, USER, "postgres", "-D", folder, "-h", "*", "-k", ""]
        .map(str::to_owned)
        .to_vec();
    let mut settings = vec![
        format!("port={PORT}"),
        "fsync=on".to_owned(),
        // A process has a connection of its own.
        "max_connections=300".to_owned(),
        // A waiter whose client is gone stops waiting.
        "client_connection_check_interval=500ms".to_owned(),
        "jit=off".to_owned(),
    ];
    if options.tls {
        settings.push("ssl=on".to_owned());
        settings.push(format!("ssl_cert_file={FOLDER}/server.pem"));
        settings.push(format!("ssl_ca_file={FOLDER}/ca.pem"));
    }
    argv.extend(settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]));
    Service {
        name: SERVICE.to_owned(),
        argv,
        env: [("LC_ALL", "C"), ("TZ", "UTC")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        refuses_root: true,
    }
}

/// Who may connect, and the statements that make the user. What runs in the server's own node is trusted.
fn access_files(access: &RunAccess) -> Vec<AccessFile> {
    let (kind, certificate) = match access.is_tls() {
        true => ("hostssl", " clientcert=verify-ca"),
        false => ("host", ""),
    };
    let method = if access.password().is_some() { "scram-sha-256" } else { "trust" };
    let rules = format!("host all all 127.0.0.1/32 trust\n{kind} all all all {method}{certificate}\n");
    let mut files = vec![AccessFile::new("pg_hba.conf", rules)];
    if let Some(password) = access.password() {
        let made = format!("CREATE ROLE {ROLE} LOGIN PASSWORD '{password}'\nGRANT {USER} TO {ROLE}\n");
        files.push(AccessFile::new("user.sql", made));
    }
    files
}

/// From `15.20 (Debian 15.20-0+deb12u1)`.
fn version(line: &str) -> Option<String> {
    line.split_whitespace().next().map(|number| format!("PostgreSQL {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AnsweringNode;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_serve_is_named_with_the_reason() {
        let says = |runs| async move {
            let nodes = AnsweringNode { stdout: "", stderr: "psql: error: refused\n", runs }.nodes();
            POSTGRES.await_ready(&nodes).await.unwrap_err().0
        };
        assert_eq!(
            says(false).await,
            "PostgreSQL on n1 ended as soon as it was started; the log of n1 says why"
        );
        assert_eq!(
            says(true).await,
            "PostgreSQL on n1 did not serve within 120 s (psql: error: refused); the log of n1 says why"
        );
    }
}
