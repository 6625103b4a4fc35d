//! Where the server is, and how a client reaches it.

use crate::access::TlsFiles;
use crate::dialer::{Dialer, denial, place, wrong_password};
use crate::protocol::Server;
use crate::run_access::USER;
use crate::sql::SqlServer;
use mysql_async::{ClientIdentity, Conn, DriverError, Error, IoError, OptsBuilder, SslOpts};
use std::io;
use std::path::PathBuf;

/// A user has no such password, and none where one is asked for (the MariaDB documentation, "Error Codes").
const ACCESS_DENIED: [u16; 2] = [1045, 1698];
/// A connection without TLS is refused.
const TLS_REQUIRED: u16 = 3159;

pub(super) struct MariaDbServer {
    server: Server,
    dialer: Dialer,
}

impl SqlServer for MariaDbServer {
    const NAME: &'static str = "MariaDB";
    type Connected = Conn;
    type Error = Error;

    fn new(server: Server, dialer: Dialer) -> MariaDbServer {
        MariaDbServer { server, dialer }
    }

    async fn connect(&self, _settings: &str) -> Result<Conn, Error> {
        Conn::new(self.options().await?).await
    }

    fn denial(&self, error: &Error) -> Option<String> {
        let place = place(&self.server);
        match error {
            Error::Server(by_server) if ACCESS_DENIED.contains(&by_server.code) => {
                Some(wrong_password(&self.server, &self.dialer.access, &by_server.message).to_string())
            }
            Error::Server(by_server) if by_server.code == TLS_REQUIRED => {
                Some(format!("{place} speaks TLS, and the client does not"))
            }
            Error::Driver(DriverError::NoClientSslFlagFromServer) => {
                Some(format!("{place} does not speak TLS, and the client does"))
            }
            _ => denial(&self.server, error),
        }
    }

    fn words(error: &Error) -> String {
        words(error)
    }
}

impl MariaDbServer {
    /// Where to connect to, and as which user. The certificate is held against the host.
    async fn options(&self) -> Result<OptsBuilder, Error> {
        let bad = |what: &str| Error::from(io::Error::other(format!("bad-address: {what}")));
        let (host, port) =
            self.server.address.rsplit_once(':').ok_or_else(|| bad("the server has no port"))?;
        let port: u16 = port.parse().map_err(|_| bad("the server's port is no number"))?;
        let access = &self.dialer.access;
        let options = OptsBuilder::default()
            .ip_or_hostname(host.trim_matches(['[', ']']))
            .tcp_port(port)
            .user(Some(access.user.as_deref().unwrap_or(USER)))
            .pass(access.password.as_ref().map(|password| password.reveal().to_owned()))
            // Faults reach what goes over the network, and no socket.
            .prefer_socket(false)
            // Known, these two are not asked for.
            .max_allowed_packet(Some(1 << 20))
            .wait_timeout(Some(28_800));
        let Some(files) = &access.tls else { return Ok(options) };
        let mut tls = tls_options(files);
        if let Some(name) = &self.server.tls_name {
            tls = tls.with_danger_tls_hostname_override(Some(name.clone()));
        }
        Ok(options.ssl_opts(tls))
    }

    #[cfg(test)]
    pub(super) fn at(address: &str) -> MariaDbServer {
        let server = Server { address: address.to_owned(), ..Server::default() };
        MariaDbServer { server, dialer: Dialer::default() }
    }
}

/// No authority is trusted but that of the access.
fn tls_options(files: &TlsFiles) -> SslOpts {
    let path = |path: &String| PathBuf::from(path).into();
    let identity = files.certificate.as_ref().zip(files.key.as_ref());
    SslOpts::default()
        .with_disable_built_in_roots(true)
        .with_root_certs(files.ca.iter().map(path).collect())
        .with_client_identity(identity.map(|(certificate, key)| {
            ClientIdentity::new(PathBuf::from(certificate).into(), PathBuf::from(key).into())
        }))
}

pub(super) fn words(error: &Error) -> String {
    match error {
        Error::Server(by_server) => by_server.message.clone(),
        // The library says twice that it is one of input and output.
        Error::Io(IoError::Io(error)) => error.to_string(),
        other => other.to_string(),
    }
}
