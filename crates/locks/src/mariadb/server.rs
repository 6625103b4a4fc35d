//! Where the server is, and how a client reaches it.

use crate::access::TlsFiles;
use crate::dialer::{Dialer, denial, place, wrong_password};
use crate::error::ClientError;
use crate::protocol::{Hello, Server};
use crate::run_access::USER;
use mysql_async::{ClientIdentity, Conn, DriverError, Error, OptsBuilder, SslOpts};
use std::io::Error as IoError;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::timeout;

/// How long the server may take before a client says hello without it.
const FIRST_CONNECT: Duration = Duration::from_secs(2);

/// A user has no such password, and none where one is asked for (the MariaDB documentation, "Error Codes").
const ACCESS_DENIED: [u16; 2] = [1045, 1698];
/// A connection without TLS is refused.
const TLS_REQUIRED: u16 = 3159;

/// The server as the processes of one client know it.
pub(super) struct MariaDbServer {
    server: Server,
    dialer: Dialer,
}

impl MariaDbServer {
    /// # Errors
    /// The hello names not one server, or the server never takes the access of this client.
    pub(super) async fn of(hello: &Hello) -> Result<MariaDbServer, ClientError> {
        let server = hello.one_server("MariaDB")?;
        let server = MariaDbServer { server: server.clone(), dialer: Dialer::of(hello)? };
        if hello.access.is_some()
            && let Ok(Err(error)) = timeout(FIRST_CONNECT, server.connect()).await
            && let Some(sentence) = server.denial(&error)
        {
            return Err(ClientError::Environment(sentence));
        }
        Ok(server)
    }

    pub(super) async fn connect(&self) -> Result<Conn, Error> {
        Conn::new(self.options().await?).await
    }

    /// Where to connect to, and as which user. The certificate is held against the host.
    async fn options(&self) -> Result<OptsBuilder, Error> {
        let bad = |what: &str| Error::from(IoError::other(format!("bad-address: {what}")));
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

    /// The sentence that says why the server never takes the access of this client, where it is that.
    pub(super) fn denial(&self, error: &Error) -> Option<String> {
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

    /// A server at this address, for tests.
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
