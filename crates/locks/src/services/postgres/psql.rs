//! Statements that Fencepost itself gives to a server.

pub(super) const USER: &str = "postgres";

const PSQL: &str = "postgres-psql";

/// Asks from inside the node: there, the server trusts its superuser.
pub(super) const fn psql(statement: &str) -> [&str; 8] {
    [PSQL, "-h", "127.0.0.1", "-U", USER, "-qAtc", statement, "postgres"]
}
