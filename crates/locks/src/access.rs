//! How a client reaches servers that ask for it: a user, a password, and the files of TLS. Only the hello
//! carries it (`docs/client-protocol.md`): a password is in no file of a run, no log, no command line.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What the servers of a lock ask of a client. Without any of it: neither a password nor TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Missing: the servers speak no TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
}

/// The files of TLS, as paths inside the client's node, in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsFiles {
    /// The certificates of the authorities that the client trusts. Missing: those of its system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The client's own certificate, for servers that ask for one, with those that lead to its authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
    /// The key of that certificate, as PKCS #8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A password. It prints as `…`, so that no message and no log shows it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(secret: impl Into<String>) -> Secret {
        Secret(secret.into())
    }

    /// The password itself, for what sends it to a server.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_shown_to_no_one_but_the_client() {
        let access = Access { password: Some(Secret::new("hunter2")), ..Access::default() };
        assert!(!format!("{access:?}").contains("hunter2"));
        assert_eq!(serde_json::to_string(&access).unwrap(), r#"{"password":"hunter2"}"#);
    }
}
