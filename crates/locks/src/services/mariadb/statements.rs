//! The statements that the locks send, and the names of locks in them.

use crate::options::MariaDbExpiry;
use sha2::{Digest, Sha256};

/// The table of `mariadb-row`, one statement a line. UTC: local time would jump twice a year.
pub(super) const SCHEMA: &str = "CREATE DATABASE fencepost;\n\
    CREATE TABLE fencepost.locks (name VARBINARY(64) PRIMARY KEY, holder VARBINARY(255), \
    token BIGINT NOT NULL, until DATETIME(6) NOT NULL) ENGINE=InnoDB";

/// A lock that is free has a lease that ended long ago; the row stays, so that its tokens go on.
pub(super) const RELEASE_ROW: &str = "UPDATE fencepost.locks SET holder = NULL, until = '1970-01-01' \
    WHERE name = :name AND holder = :holder AND token = :token";

pub(super) const LOCK: &str = "SELECT GET_LOCK(?, ?)";
pub(super) const UNLOCK: &str = "SELECT RELEASE_LOCK(?)";

/// The server's settings by which it finds that a connection is dead.
pub(super) const KEEPALIVE: &str =
    "SELECT @@GLOBAL.tcp_keepalive_time, @@GLOBAL.tcp_keepalive_interval, @@GLOBAL.tcp_keepalive_probes";

pub(super) fn set_keepalive((time, interval, probes): (u64, u64, u64)) -> String {
    format!(
        "SET GLOBAL tcp_keepalive_time = {time}, GLOBAL tcp_keepalive_interval = {interval}, \
         GLOBAL tcp_keepalive_probes = {probes}"
    )
}

/// Takes the row if its lease is over, in one step, and gives holder and token as they are afterwards. An
/// assignment uses new values of those before it, so the end of the lease is the last. Parameters: `:name`,
/// `:holder`, `:ttl` in µs; by the client's clock also `:now`, in µs since 1970.
pub(super) fn take_row(expiry: MariaDbExpiry) -> String {
    let now = match expiry {
        MariaDbExpiry::Server => "UTC_TIMESTAMP(6)",
        MariaDbExpiry::Client => "TIMESTAMPADD(MICROSECOND, :now, '1970-01-01')",
    };
    let end = format!("TIMESTAMPADD(MICROSECOND, :ttl, {now})");
    format!(
        "INSERT INTO fencepost.locks (name, holder, token, until) VALUES (:name, :holder, 1, {end}) \
         ON DUPLICATE KEY UPDATE token = IF(until < {now}, token + 1, token), \
         holder = IF(until < {now}, VALUES(holder), holder), \
         until = IF(until < {now}, VALUES(until), until) RETURNING holder, token"
    )
}

/// The name of a key's lock. The server compares names without case, and takes no more than 64 characters: a
/// key that fits is its own name, and any other is named by its hash, which is as long as no key that fits.
pub(super) fn lock_name(key: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    match !key.is_empty() && key.len() < 64 && key.bytes().all(is_plain) {
        true => key.to_owned(),
        false => Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_differ_have_names_that_differ_whatever_their_case() {
        assert_eq!(lock_name("k0"), "k0");
        let long = "k".repeat(64);
        let keys = ["k0", "K0", "k0 ", "ko", "kö", "", "k".repeat(63).as_str(), &long, &format!("{long}k")]
            .map(str::to_owned);
        let hash = lock_name("K0");
        assert_eq!(hash.len(), 64);
        let keys: Vec<String> = keys.into_iter().chain([hash.clone(), hash.to_uppercase()]).collect();
        let names: std::collections::BTreeSet<String> =
            keys.iter().map(|key| lock_name(key).to_lowercase()).collect();
        assert_eq!(names.len(), keys.len());
        assert!(names.iter().all(|name| name.len() <= 64 && name.is_ascii()));
    }

    #[test]
    fn the_clock_of_the_row_is_the_servers_or_the_clients() {
        let server = take_row(MariaDbExpiry::Server);
        assert!(server.contains("UTC_TIMESTAMP(6)") && !server.contains(":now"), "{server}");
        let client = take_row(MariaDbExpiry::Client);
        assert!(client.contains(":now") && !client.contains("UTC_TIMESTAMP"), "{client}");
        for statement in [server, client] {
            let place = |what: &str| statement.find(what).unwrap();
            assert!(place("until = IF") > place("holder = IF") && place("until = IF") > place("token = IF"));
        }
    }
}
