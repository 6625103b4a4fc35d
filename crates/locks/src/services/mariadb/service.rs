//! A MariaDB server: how it is started, and how it says that it serves.

use super::statements::SCHEMA;
use crate::described::{DESCRIBED, ONE};
use crate::error::nodes_are;
use crate::options::Options;
use crate::readiness::command_fails;
use crate::run_access::{AccessFile, FOLDER, USER};
use crate::service::{LockService, ServerKind, TLS_AND_AUTH};
use fencepost_cluster::protocol::Service;
use fencepost_history::Lease;
use std::time::Duration;

const PORT: u16 = 3306;
const SERVICE: &str = "mariadb";
const SOCKET: &str = "/run/mariadb.sock";

/// Sizes for many servers on one machine, the same from the beginning: InnoDB replaces a log of another size
/// by a rename without an fsync of the folder, and a loss of power then undoes every commit since.
const SIZES: &str =
    "--innodb-log-file-size=16M --innodb-buffer-pool-size=24M --aria-pagecache-buffer-size=8M";

/// Makes the folder of the data where there is none yet, with the user of clients and the table of locks, and
/// becomes the server. All of it is on the disk before it counts as made, so that a loss of power later finds
/// a database that clients can reach. The server runs as root only if it is named.
const SCRIPT: &str = r#"
folder="$1" sizes="$2" users="$3" schema="$4"
as=""
[ "$(id -u)" != 0 ] || as="--user=root"
if [ ! -e "$folder/made" ]; then
    rm -rf "$folder" && mkdir -p "$folder" || exit 1
    mariadb-install-db --no-defaults $as $sizes --datadir="$folder" --skip-test-db --skip-name-resolve \
        --auth-root-authentication-method=normal 2>&1 >"$folder/made.log" | grep -v '^$' >&2
    grep -q '^OK$' "$folder/made.log" || { cat "$folder/made.log" >&2; exit 1; }
    [ ! -e /run/access/users.sql ] || users="$(cat /run/access/users.sql)"
    # Without the first statement no user can be made here.
    printf 'FLUSH PRIVILEGES;\n%s\n%s;\n' "$users" "$schema" \
        | mariadbd --no-defaults $as $sizes --bootstrap --datadir="$folder" >&2 || exit 1
    find "$folder" -exec sync {} + && touch "$folder/made" && sync "$folder/made" "$folder" || exit 1
fi
shift 4
exec mariadbd --no-defaults $as $sizes --datadir="$folder" "$@"
"#;

pub(super) static MARIADB: LockService = LockService {
    name: "mariadb",
    about: "one MariaDB server (user: fencepost, no password)",
    lease: Lease::Connection,
    servers: &["mariadb"],
    kinds: &[ServerKind {
        server: "MariaDB",
        processes: &[SERVICE],
        port: PORT,
        version: &client("SELECT VERSION()"),
        ..ONE
    }],
    setup_time: Duration::from_secs(5),
    options: TLS_AND_AUTH,
    check_nodes: |_, nodes| nodes_are!(nodes == 1, "MariaDB has one server, not {nodes}; use --nodes 1"),
    start: |_, _, _, options| start(options),
    access_files: |access| vec![AccessFile::new("users.sql", user(access.password(), access.is_tls()))],
    trouble: |_, node, _| Box::pin(command_fails(node, const { &client("SELECT 1") })),
    version,
    ..DESCRIBED
};

fn start(options: &Options) -> Service {
    let users = user(None, false);
    let mut argv =
        ["sh", "-c", SCRIPT, "sh", "{data}/mariadb", SIZES, &users, SCHEMA].map(str::to_owned).to_vec();
    let mut settings = vec![
        format!("port={PORT}"),
        format!("socket={SOCKET}"),
        "bind-address=0.0.0.0".to_owned(),
        "skip-name-resolve".to_owned(),
        "skip-log-bin".to_owned(),
        // A commit is on the disk before it is answered: the default, which much advice turns off.
        "innodb-flush-log-at-trx-commit=1".to_owned(),
        // A process has a connection of its own.
        "max-connections=300".to_owned(),
    ];
    if options.tls {
        settings.push("require-secure-transport=ON".to_owned());
        settings.push(format!("ssl-ca={FOLDER}/ca.pem"));
        settings.push(format!("ssl-cert={FOLDER}/server.pem"));
        settings.push(format!("ssl-key={FOLDER}/server.key"));
    }
    argv.extend(settings.into_iter().map(|setting| format!("--{setting}")));
    Service {
        name: SERVICE.to_owned(),
        argv,
        env: [("LC_ALL", "C"), ("TZ", "UTC")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        refuses_root: false,
    }
}

fn user(password: Option<&str>, with_certificate: bool) -> String {
    let by = password.map(|password| format!(" IDENTIFIED BY '{password}'")).unwrap_or_default();
    let certificate = if with_certificate { " REQUIRE X509" } else { "" };
    format!("CREATE USER '{USER}'@'%'{by}{certificate};\nGRANT ALL PRIVILEGES ON *.* TO '{USER}'@'%';\n")
}

/// Asks from inside the node, by a socket that only its programs reach: there, root needs no password.
const fn client(statement: &str) -> [&str; 9] {
    ["mariadb", "--no-defaults", "--socket", SOCKET, "--user", "root", "--batch", "-Ne", statement]
}

/// From `11.8.9-MariaDB-0+deb13u1`.
fn version(line: &str) -> Option<String> {
    line.split('-').next().map(|number| format!("MariaDB {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::AnsweringNode;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_serve_is_named_with_the_reason() {
        let says = |runs| async move {
            let nodes = AnsweringNode { stdout: "", stderr: "ERROR 2002 (HY000): no\n", runs }.nodes();
            MARIADB.await_ready(&nodes).await.unwrap_err().0
        };
        assert_eq!(
            says(false).await,
            "MariaDB on n1 ended as soon as it was started; the log of n1 says why"
        );
        assert_eq!(
            says(true).await,
            "MariaDB on n1 did not serve within 120 s (ERROR 2002 (HY000): no); the log of n1 says why"
        );
    }

    #[test]
    fn the_version_is_the_number_alone() {
        assert_eq!(version("11.8.9-MariaDB-0+deb13u1").as_deref(), Some("MariaDB 11.8.9"));
    }

    #[test]
    fn the_user_of_clients_has_what_the_run_asks_for() {
        let grant = "GRANT ALL PRIVILEGES ON *.* TO 'fencepost'@'%';\n";
        for (password, with_certificate, made) in [
            (None, false, "CREATE USER 'fencepost'@'%';\n"),
            (None, true, "CREATE USER 'fencepost'@'%' REQUIRE X509;\n"),
            (Some("x"), true, "CREATE USER 'fencepost'@'%' IDENTIFIED BY 'x' REQUIRE X509;\n"),
        ] {
            assert_eq!(user(password, with_certificate), format!("{made}{grant}"));
        }
    }
}
