//! How Redis servers and Sentinels speak TLS and ask for a password. Users have their own file: a server that
//! rewrites its configuration would write them twice. Fencepost's own questions use a socket in the node.

use crate::run_access::{AccessFile, FOLDER, RunAccess, USER};
use std::fmt::Write;

pub(crate) const CONFIGURATION: &str = "/run/access/redis.conf";
pub(crate) const SENTINEL_CONFIGURATION: &str = "/run/access/sentinel.conf";

/// The shell function `cli`: redis-cli as the run's client. `$1`: `-h ADDRESS` and port; none: this node.
pub(crate) const CLI: &str = r#"
cli() {
  if [ -z "$1" ] && [ -S /run/access/redis.sock ]; then shift; set -- -s /run/access/redis.sock "$@"
  elif [ -z "$1" ]; then shift; set -- -p 6379 "$@"
  else
    address=$1; shift
    if [ -e /run/access/ca.pem ]; then
      set -- --tls --cacert /run/access/ca.pem --cert /run/access/client.pem --key /run/access/client.key "$@"
    fi
    set -- -h "$address" "$@"
  fi
  if [ -e /run/access/password ]; then
    REDISCLI_AUTH=$(cat /run/access/password) redis-cli --user fencepost --no-auth-warning "$@"
  else redis-cli "$@"; fi
}
"#;

/// The files of a server's node, with the configurations of both Sentinels and data nodes.
pub(crate) fn files(access: &RunAccess, group: Option<&str>) -> Vec<AccessFile> {
    let mut common = format!("unixsocket {FOLDER}/redis.sock\n");
    if access.is_tls() {
        let _ = write!(
            common,
            "tls-cert-file {FOLDER}/server.pem\ntls-key-file {FOLDER}/server.key\n\
             tls-ca-cert-file {FOLDER}/ca.pem\ntls-auth-clients yes\ntls-replication yes\n"
        );
    }
    let (mut server, mut sentinel) = (common.clone(), common);
    let mut files = Vec::new();
    if let Some(password) = access.password() {
        // Not off: Redis reads its append-only file as this user, and then refuses the effects of scripts, so
        // that a release is undone by a restart and the grant after it lost.
        let users: String =
            ["default", USER].map(|user| format!("user {user} on >{password} ~* &* +@all\n")).concat();
        files.push(AccessFile::new("users.acl", users));
        let users = format!("aclfile {FOLDER}/users.acl\n");
        let _ = write!(server, "{users}masteruser {USER}\nmasterauth {password}\n");
        sentinel.push_str(&users);
        if let Some(group) = group {
            let _ = write!(
                sentinel,
                "sentinel auth-user {group} {USER}\nsentinel auth-pass {group} {password}\n\
                 sentinel sentinel-user {USER}\nsentinel sentinel-pass {password}\n"
            );
        }
    }
    files.push(AccessFile::new("redis.conf", server));
    if group.is_some() {
        files.push(AccessFile::new("sentinel.conf", sentinel));
    }
    files
}
