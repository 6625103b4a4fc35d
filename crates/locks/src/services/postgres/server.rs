//! Where the server is, and how a client reaches it.

use super::psql::USER;
use crate::dialer::{Dialer, Stream, denial, wrong_password};
use crate::protocol::Server;
use crate::sql::SqlServer;
use std::io::{Error as IoError, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

/// Its length, and the code of an `SSLRequest` (PostgreSQL's documentation, "Message Formats").
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

pub(super) struct PostgresServer {
    server: Server,
    dialer: Dialer,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("error connecting to server: {0}")]
    Dial(#[from] IoError),
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
        let mut config = Config::new();
        let access = &self.dialer.access;
        // TLS, if any, is around the connection already.
        config.ssl_mode(SslMode::Disable).user(access.user.as_deref().unwrap_or(USER));
        config.dbname("postgres").application_name("fencepost").options(settings);
        if let Some(password) = &access.password {
            config.password(password.reveal());
        }
        let (client, driver) = config.connect_raw(self.dial().await?, NoTls).await?;
        Ok((client, Box::pin(driver)))
    }

    fn denial(&self, error: &ConnectError) -> Option<String> {
        let error = match error {
            ConnectError::Dial(error) => {
                return (error.kind() == ErrorKind::PermissionDenied).then(|| error.to_string());
            }
            ConnectError::Postgres(error) => error,
        };
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
    /// TLS begins once the server has agreed to it in its own protocol.
    async fn dial(&self) -> Result<Stream, IoError> {
        let mut stream = TcpStream::connect(&self.server.address).await?;
        stream.set_nodelay(true)?;
        if self.dialer.is_tls() {
            stream.write_all(&SSL_REQUEST).await?;
            if stream.read_u8().await? != b'S' {
                return Err(IoError::other("server does not support TLS"));
            }
        }
        self.dialer.secured(&self.server, stream).await
    }

    #[cfg(test)]
    pub(super) fn at(address: &str) -> std::sync::Arc<PostgresServer> {
        let server = Server { address: address.to_owned(), ..Server::default() };
        std::sync::Arc::new(PostgresServer { server, dialer: Dialer::default() })
    }
}
