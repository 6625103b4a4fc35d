//! Where the server is, and how a client reaches it.

use super::service::USER;
use crate::dialer::{Dialer, denial, wrong_password};
use crate::error::ClientError;
use crate::protocol::{Hello, Server};
use std::io::Error as IoError;
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long the server may take before a client says hello without it.
const FIRST_CONNECT: Duration = Duration::from_secs(2);

/// The server as the processes of one client know it.
pub(super) struct PostgresServer {
    server: Server,
    dialer: Dialer,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("{0}")]
    Address(#[from] IoError),
    #[error("{0}")]
    Postgres(#[from] tokio_postgres::Error),
}

/// What moves the data of a connection, and ends with it.
type Driver = std::pin::Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;

impl PostgresServer {
    /// # Errors
    /// The hello names not one server, or the server never takes the access of this client.
    pub(super) async fn of(hello: &Hello) -> Result<PostgresServer, ClientError> {
        let server = hello.one_server("PostgreSQL")?;
        let server = PostgresServer { server: server.clone(), dialer: Dialer::of(hello)? };
        if hello.access.is_some()
            && let Ok(Err(error)) = timeout(FIRST_CONNECT, server.connect("")).await
            && let Some(sentence) = server.denial(&error)
        {
            return Err(ClientError::Environment(sentence));
        }
        Ok(server)
    }

    /// Connects, with these settings of the server for this connection only (`-c lock_timeout=5s`).
    pub(super) async fn connect(&self, settings: &str) -> Result<(Client, Driver), ConnectError> {
        let mut config = self.address().await?;
        let access = &self.dialer.access;
        config.user(access.user.as_deref().unwrap_or(USER));
        config.dbname("postgres").application_name("fencepost").options(settings);
        if let Some(password) = &access.password {
            config.password(password.reveal());
        }
        match self.dialer.tls() {
            None => {
                let (client, driver) = config.connect(NoTls).await?;
                Ok((client, Box::pin(driver)))
            }
            Some(tls) => {
                config.ssl_mode(SslMode::Require);
                let (client, driver) = config.connect(MakeRustlsConnect::new(tls)).await?;
                Ok((client, Box::pin(driver)))
            }
        }
    }

    /// Where to connect to: a certificate is held against the host, and a host that stands for another
    /// address has that beside it.
    async fn address(&self) -> Result<Config, IoError> {
        let bad = |what: &str| IoError::other(format!("bad-address: {what}"));
        let (host, port) =
            self.server.address.rsplit_once(':').ok_or_else(|| bad("the server has no port"))?;
        let mut config = Config::new();
        config.port(port.parse().map_err(|_| bad("the server's port is no number"))?);
        match &self.server.tls_name {
            None => config.host(host),
            Some(name) => {
                let found: Option<IpAddr> =
                    tokio::net::lookup_host(&self.server.address).await?.next().map(|found| found.ip());
                config.host(name).hostaddr(found.ok_or_else(|| bad("the server's host has no address"))?)
            }
        };
        Ok(config)
    }

    /// The sentence that says why the server never takes the access of this client, where it is that.
    pub(super) fn denial(&self, error: &ConnectError) -> Option<String> {
        let ConnectError::Postgres(error) = error else { return None };
        let by_server = error.as_db_error();
        match by_server.map(|error| error.code()) {
            Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
                let words = by_server.map_or("", |error| error.message());
                Some(wrong_password(&self.server, &self.dialer.access, words).to_string())
            }
            _ => denial(&self.server, error),
        }
    }

    /// A server at this address, for tests.
    #[cfg(test)]
    pub(super) fn at(address: &str) -> std::sync::Arc<PostgresServer> {
        let server = Server { address: address.to_owned(), ..Server::default() };
        std::sync::Arc::new(PostgresServer { server, dialer: Dialer::default() })
    }
}
