//! Calls to the members of an etcd cluster: one at a time, the next where one does not answer.

use super::client::Client;
use crate::error::ClientError;
use crate::protocol::Server;
use fencepost_history::{ErrorCode, OperationError};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Status};

/// How long one member may take before the next is asked.
const ATTEMPT: Duration = Duration::from_millis(300);
/// Rest after a member failed at once, so that a cluster without a leader is not hammered.
const REST: Duration = Duration::from_millis(20);

/// The members as one client program knows them.
pub(super) struct Members {
    addresses: Vec<String>,
    clients: Vec<Mutex<Client>>,
    current: AtomicUsize,
}

/// How a call ended that was answered.
pub(super) struct Answered<T> {
    pub(super) answer: T,
    /// An earlier attempt of this call was not answered: it may still be executed, after everything that the
    /// caller does from now on.
    pub(super) doubt: bool,
}

/// Why a call gave no result.
#[derive(Debug)]
pub(super) enum CallError {
    /// A member answered with an error that excludes that the request was or will be executed. Unless there is doubt:
    /// an earlier attempt of it was not answered.
    Refused { why: OperationError, lease_not_found: bool, doubt: bool },
    /// No member answered in time.
    Unanswered(OperationError),
}

impl CallError {
    pub(super) fn why(self) -> OperationError {
        match self {
            CallError::Refused { why, .. } | CallError::Unanswered(why) => why,
        }
    }
}

impl Members {
    pub(super) fn open(servers: &[Server], client_name: &str) -> Result<Members, ClientError> {
        if servers.is_empty() {
            return Err(ClientError::BadHello("etcd needs servers, and the hello names none".to_owned()));
        }
        let addresses: Vec<String> = servers.iter().map(|server| server.address.clone()).collect();
        let clients: Vec<Mutex<Client>> = addresses
            .iter()
            .map(|address| Client::connect(address).map(Mutex::new))
            .collect::<Result<_, _>>()?;
        // Clients begin with different members, so that the load and the bad luck are spread.
        let spread: usize = client_name.bytes().map(usize::from).sum();
        Ok(Members { current: AtomicUsize::new(spread % addresses.len()), addresses, clients })
    }

    /// The member in use: its place, and a client for it.
    pub(super) fn current(&self) -> (usize, Client) {
        let place = self.current.load(Ordering::Relaxed);
        (place, self.clients[place].lock().clone())
    }

    /// Turns to the next member, if `place` is still the one in use. The silent one gets a new connection for the
    /// next time: the old one may lead into a partition that has long healed.
    pub(super) async fn turn_from(&self, place: usize) {
        let next = (place + 1) % self.addresses.len();
        if self.current.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        if let Ok(client) = Client::connect(&self.addresses[place]) {
            *self.clients[place].lock() = client;
        }
    }

    /// Makes a call until it is answered or the deadline has passed. It may be executed more than once: only for
    /// requests for which that does not matter.
    pub(super) async fn call<T, Called>(
        &self,
        deadline: Instant,
        request: impl Fn(Client) -> Called + Send,
    ) -> Result<Answered<T>, CallError>
    where
        Called: Future<Output = Result<T, Status>> + Send,
    {
        let mut doubt = false;
        loop {
            let (place, client) = self.current();
            let attempt = timeout_at(deadline.min(Instant::now() + ATTEMPT), request(client)).await;
            let why = match attempt {
                Ok(Ok(answer)) => return Ok(Answered { answer, doubt }),
                Ok(Err(status)) => match definite(&status) {
                    Some(lease_not_found) => {
                        return Err(CallError::Refused {
                            why: ErrorCode::Refused.error(format_args!("{}", status.message())),
                            lease_not_found,
                            doubt,
                        });
                    }
                    // No leader, a new leader, a broken connection, …: whether it was executed is not known.
                    None => ErrorCode::Unavailable.error(format_args!("{}", status.message())),
                },
                // A time-out: it may have been executed, and may still be.
                Err(_) => {
                    ErrorCode::Timeout.error(format_args!("{} did not answer in time", self.addresses[place]))
                }
            };
            doubt = true;
            self.turn_from(place).await;
            if Instant::now() + REST >= deadline {
                return Err(CallError::Unanswered(why));
            }
            sleep(REST).await;
        }
    }
}

/// Whether the error excludes that the request was executed; then, whether it is because there is no such lease.
///
/// Which errors etcd gives these codes to stands in its `api/v3rpc/rpctypes/error.go`.
fn definite(status: &Status) -> Option<bool> {
    match status.code() {
        Code::NotFound => Some(status.message().contains("lease not found")),
        Code::InvalidArgument | Code::ResourceExhausted | Code::FailedPrecondition | Code::OutOfRange => {
            Some(false)
        }
        _ => None,
    }
}
