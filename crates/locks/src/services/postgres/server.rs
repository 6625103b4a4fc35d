//! Where the server is, and how a client reaches it.

use super::psql::USER;
use crate::dialer::{Dialer, denial, wrong_password};
use crate::protocol::Server;
use crate::sql::SqlServer;
use std::io::Error as IoError;
use std::net::IpAddr;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

pub(super) struct PostgresServer {
    server: Server,
    dialer: Dialer,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("{0}")]
    Address(#[from] IoError),
    #[error("{0}")]
    Postgres(#[from] tokio_postgres::Error),
}

pub(super) type ConnectionDriver =
    std::pin::Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send>>;

impl SqlServer for PostgresServer {
    const NAME: &'static str = "PostgreSQL";
    type Connected = (Client, ConnectionDriver);
    type Error = ConnectError;

    fn new(server: Server, dialer: Dialer) -> PostgresServer {
        PostgresServer { server, dialer }
    }

    async fn connect(&self, settings: &str) -> Result<(Client, ConnectionDriver), ConnectError> {
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

    fn denial(&self, error: &ConnectError) -> Option<String> {
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

    fn words(error: &ConnectError) -> String {
        error.to_string()
    }
}

impl PostgresServer {
    /// A certificate is held against the host; a host that stands for another address has that beside it.
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

    #[cfg(test)]
    pub(super) fn at(address: &str) -> std::sync::Arc<PostgresServer> {
        let server = Server { address: address.to_owned(), ..Server::default() };
        std::sync::Arc::new(PostgresServer { server, dialer: Dialer::default() })
    }
}
