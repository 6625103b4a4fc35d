//! Servers that a client asks, one after the other, for a primary that changes.

use super::node::RedisDialer;
use crate::protocol::Server;
use redis::aio::MultiplexedConnection;
use std::io::Error;
use std::io::ErrorKind::PermissionDenied;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// The time for a server to connect and to answer; three times as long with TLS.
const PATIENCE: Duration = Duration::from_millis(100);

pub(crate) struct InTurn {
    pub(crate) servers: Vec<Server>,
    pub(crate) dialer: RedisDialer,
    first: AtomicUsize,
}

impl InTurn {
    pub(crate) fn new(servers: &[Server], dialer: RedisDialer) -> InTurn {
        InTurn { servers: servers.to_vec(), dialer, first: AtomicUsize::new(0) }
    }

    /// The first answer, and the place of its server; none if none knows. Errors: the access is refused.
    pub(crate) async fn ask<T>(
        &self,
        question: impl AsyncFn(&mut MultiplexedConnection) -> std::io::Result<Option<T>>,
    ) -> std::io::Result<Option<(T, usize)>> {
        let patience = if self.dialer.dialer.is_tls() { 3 * PATIENCE } else { PATIENCE };
        let first = self.first.load(Ordering::Relaxed);
        for turn in 0..self.servers.len() {
            let place = (first + turn) % self.servers.len();
            match timeout(patience, self.ask_one(&self.servers[place], &question)).await {
                Ok(Ok(Some(answer))) => return Ok(Some((answer, place))),
                Ok(Err(error)) if error.kind() == PermissionDenied => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }

    async fn ask_one<T>(
        &self,
        server: &Server,
        question: &impl AsyncFn(&mut MultiplexedConnection) -> std::io::Result<Option<T>>,
    ) -> std::io::Result<Option<T>> {
        let (mut talk, driver) = self.dialer.dial(server).await?;
        tokio::select! {
            answer = question(&mut talk) => answer,
            () = driver => Err(hung_up()),
        }
    }

    pub(crate) fn begin_with(&self, place: usize) {
        self.first.store(place % self.servers.len(), Ordering::Relaxed);
    }
}

pub(crate) fn hung_up() -> Error {
    Error::other("the server hung up")
}

/// The server at an address; named by the address itself, where that is of no server that the client knows.
pub(crate) fn server_at(address: &str, known: &[Server]) -> Server {
    let found = known.iter().find(|server| server.address == address).cloned();
    let (name, address) = (address.to_owned(), address.to_owned());
    found.unwrap_or(Server { name, address, tls_name: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_known_is_named_by_its_address() {
        let address = "198.18.0.3:6379".to_owned();
        let known = [Server { name: "n2".to_owned(), address, tls_name: None }];
        assert_eq!(server_at("198.18.0.3:6379", &known).name, "n2");
        assert_eq!(server_at("198.18.0.9:6379", &known).name, "198.18.0.9:6379");
    }
}
