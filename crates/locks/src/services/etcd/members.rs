//! Calls to the members of an etcd cluster: one at a time, the next where one does not answer.

use super::api::Call;
use super::client::{Client, Login};
use crate::dialer::{Dialer, wrong_password};
use crate::error::ClientError;
use crate::protocol::Server;
use fencepost_history::{ErrorCode, OperationError};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::{Code, Status};

/// How long one member may take before the next is asked.
const ATTEMPT: Duration = Duration::from_millis(300);
/// Rest after a member failed at once, so that a cluster without a leader is not hammered.
const REST: Duration = Duration::from_millis(20);

pub(super) struct Members {
    servers: Vec<Server>,
    dialer: Dialer,
    login: Option<Arc<Login>>,
    clients: Vec<Mutex<Client>>,
    current: AtomicUsize,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct AnsweredMember<T> {
    pub(super) answer: T,
    /// An earlier attempt was not answered: it may be executed after all that the caller does from now on.
    pub(super) doubt: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallError {
    /// Answered with an error that excludes execution, unless an earlier attempt of it was not answered.
    Refused {
        why: OperationError,
        lease_not_found: bool,
        doubt: bool,
    },
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
    pub(super) fn open(
        servers: &[Server],
        client_name: &str,
        dialer: Dialer,
    ) -> Result<Members, ClientError> {
        if servers.is_empty() {
            return Err(ClientError::BadHello("etcd needs servers, and the hello names none".to_owned()));
        }
        let login = Login::of(&dialer).map(Arc::new);
        let dialer = dialer.speaking("h2");
        let clients =
            servers.iter().map(|server| Client::connect(server, &dialer, login.clone()).map(Mutex::new));
        let clients: Vec<Mutex<Client>> = clients.collect::<Result<_, _>>()?;
        // Clients begin with different members, so that the load and the bad luck are spread.
        let spread: usize = client_name.bytes().map(usize::from).sum();
        let current = AtomicUsize::new(spread % servers.len());
        Ok(Members { current, servers: servers.to_vec(), dialer, login, clients })
    }

    /// Logs in, if members want that. If none answers, operations say so. Errors: a refused password.
    pub(super) async fn log_in(&self, deadline: Instant) -> Result<(), ClientError> {
        let Some(login) = &self.login else { return Ok(()) };
        for (server, client) in self.servers.iter().zip(&self.clients) {
            let client = client.lock().clone();
            match timeout_at(deadline, client.log_in(login)).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(status)) if status.message().contains("authentication failed") => {
                    let why = wrong_password(server, &self.dialer.access, status.message());
                    return Err(ClientError::Environment(why.to_string()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn current(&self) -> (usize, Client) {
        let place = self.current.load(Ordering::Relaxed);
        (place, self.clients[place].lock().clone())
    }

    /// Turns to the next member, if `place` is in use. The silent one gets a new connection.
    pub(super) async fn turn_from(&self, place: usize) {
        let next = (place + 1) % self.servers.len();
        if self.current.compare_exchange(place, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        if let Ok(client) = Client::connect(&self.servers[place], &self.dialer, self.login.clone()) {
            *self.clients[place].lock() = client;
        }
    }

    /// Calls until an answer or the deadline. Only for requests that may be executed more than once.
    pub(super) async fn call<T, Called>(
        &self,
        deadline: Instant,
        request: impl Fn(Client) -> Called + Send,
    ) -> Result<AnsweredMember<T>, CallError>
    where
        Called: Future<Output = Result<T, Status>> + Send,
    {
        let mut doubt = false;
        loop {
            let (place, client) = self.current();
            let attempt = timeout_at(deadline.min(Instant::now() + ATTEMPT), request(client)).await;
            let why = match after_attempt(attempt.ok(), doubt, &self.servers[place].address) {
                AfterAttempt::Ended(ended) => return ended,
                AfterAttempt::Elsewhere(why) => why,
            };
            doubt = true;
            self.turn_from(place).await;
            if Instant::now() + REST >= deadline {
                return Err(CallError::Unanswered(why));
            }
            sleep(REST).await;
        }
    }

    /// [`Members::call`] with a request.
    pub(super) async fn ask<C: Call>(
        &self,
        request: &C,
        deadline: Instant,
    ) -> Result<AnsweredMember<C::Answer>, CallError> {
        let call = self.call(deadline, |client| {
            let request = request.clone();
            async move { client.call(request).await }
        });
        call.await
    }
}

#[derive(Debug, PartialEq)]
enum AfterAttempt<T> {
    Ended(Result<AnsweredMember<T>, CallError>),
    /// Whether it was executed, or will be, is not known: the next member is asked.
    Elsewhere(OperationError),
}

/// After an attempt at this member; none: not answered in time. `doubt`: there was one before.
fn after_attempt<T>(reply: Option<Result<T, Status>>, doubt: bool, address: &str) -> AfterAttempt<T> {
    match reply {
        Some(Ok(answer)) => AfterAttempt::Ended(Ok(AnsweredMember { answer, doubt })),
        Some(Err(status)) => match definite(&status) {
            Some(lease_not_found) => {
                let why = ErrorCode::Refused.error(format_args!("{}", status.message()));
                AfterAttempt::Ended(Err(CallError::Refused { why, lease_not_found, doubt }))
            }
            // No leader, a new leader, a broken connection, …
            None => {
                AfterAttempt::Elsewhere(ErrorCode::Unavailable.error(format_args!("{}", status.message())))
            }
        },
        None => AfterAttempt::Elsewhere(
            ErrorCode::Timeout.error(format_args!("{address} did not answer in time")),
        ),
    }
}

/// Whether the error excludes that the request was executed; then, whether there is no such lease. Codes:
/// etcd's `api/v3rpc/rpctypes/error.go`. Only etcd's own words count: the library uses these codes, too.
fn definite(status: &Status) -> Option<bool> {
    let words = status.message().strip_prefix("etcdserver: ")?;
    match status.code() {
        Code::NotFound => Some(words.contains("lease not found")),
        // etcd executes it if space runs out as it is applied (`quotaApplierV3` in `apply.go`).
        Code::ResourceExhausted if words.contains("database space exceeded") => None,
        Code::InvalidArgument | Code::ResourceExhausted | Code::FailedPrecondition | Code::OutOfRange => {
            Some(false)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_error_says_of_its_request() {
        let not_executed = [
            (Code::NotFound, "etcdserver: requested lease not found", true),
            (Code::NotFound, "etcdserver: member not found", false),
            (Code::InvalidArgument, "etcdserver: duplicate key given in txn request", false),
            (Code::ResourceExhausted, "etcdserver: too many requests", false),
            (Code::FailedPrecondition, "etcdserver: not leader", false),
            (Code::OutOfRange, "etcdserver: too large lease TTL", false),
        ];
        for (code, message, lease_not_found) in not_executed {
            for doubt in [false, true] {
                let why = format!("refused: {message}").into();
                let refused = CallError::Refused { why, lease_not_found, doubt };
                let after = after_attempt::<()>(Some(Err(Status::new(code, message))), doubt, "n1");
                assert_eq!(after, AfterAttempt::Ended(Err(refused)), "{message}");
            }
        }
        let unknown = [
            // The server executes a request on whose way the space runs out.
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
            (Code::Unavailable, "etcdserver: no leader"),
            (Code::Unavailable, "etcdserver: leader changed"),
            (Code::Unavailable, "etcdserver: request timed out, possibly due to previous leader failure"),
            (Code::Unavailable, "etcdserver: server stopped"),
            (Code::DataLoss, "etcdserver: corrupt cluster"),
            // The words of the library: connections that broke, and an answer that it does not take.
            (Code::ResourceExhausted, "h2 protocol error: http2 error"),
            (Code::OutOfRange, "Error, decoded message length too large"),
            (Code::NotFound, "grpc-status header missing"),
            (Code::Unavailable, "tcp connect error"),
            (Code::Cancelled, "operation was canceled"),
            (Code::Unknown, "transport error"),
            (Code::Internal, "h2 protocol error: http2 error"),
            (Code::DeadlineExceeded, "context deadline exceeded"),
            (Code::Unimplemented, "unknown service"),
        ];
        for (code, message) in unknown {
            let after = after_attempt::<()>(Some(Err(Status::new(code, message))), false, "n1");
            assert_eq!(after, AfterAttempt::Elsewhere(format!("unavailable: {message}").into()));
        }
    }

    #[test]
    fn an_answer_bears_the_doubt_of_earlier_attempts() {
        for doubt in [false, true] {
            let after = after_attempt(Some(Ok(7)), doubt, "n1");
            assert_eq!(after, AfterAttempt::Ended(Ok(AnsweredMember { answer: 7, doubt })));
            let after = after_attempt::<()>(None, doubt, "n1");
            assert_eq!(after, AfterAttempt::Elsewhere("timeout: n1 did not answer in time".into()));
        }
    }
}
