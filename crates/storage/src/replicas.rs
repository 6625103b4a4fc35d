//! The client's way to what the lock protects: one storage, or replicas of it of which a majority decides.
//!
//! With replicas each value has a version: the token under which it was written, and which write of its
//! writer it was. A reader asks all and takes the newest value among the first majority; a write is done when
//! a majority has it. Two majorities have a replica in common, so a reader finds every write that was done.

use crate::client::{LostRequest, StorageClient};
use crate::guards::{Credentials, Guard};
use crate::protocol::{Function, Request, Response};
use fencepost_history::{Completion, ErrorCode, OperationError, Refusal};
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The storage behind its guard.
pub struct ProtectedStorage {
    replicas: Vec<StorageClient>,
    next_number: AtomicU64,
}

/// The answers of the replicas, until a majority had agreed or all had answered.
#[derive(Default)]
struct Poll {
    agreed: Vec<Response>,
    rejected: Vec<OperationError>,
    unsent: Vec<OperationError>,
    unanswered: Vec<OperationError>,
}

impl ProtectedStorage {
    /// Begins to connect to each `host:port`. Errors: there are not as many as the guard has replicas.
    pub fn open(addresses: &[String], guard: &Guard) -> Result<ProtectedStorage, Refusal> {
        if addresses.len() != guard.replicas {
            return Err(Refusal::new(format!(
                "the guard {} wants {} storages, and the hello names {}",
                guard.name,
                guard.replicas,
                addresses.len()
            )));
        }
        Ok(ProtectedStorage::over(addresses.iter().map(|address| StorageClient::open(address)).collect()))
    }

    pub(crate) fn over(replicas: Vec<StorageClient>) -> ProtectedStorage {
        ProtectedStorage { replicas, next_number: AtomicU64::new(1) }
    }

    /// The value of `key`. The credentials tell the guard which holder reads.
    pub async fn read(&self, key: &str, credentials: &Credentials, timeout: Duration) -> Completion {
        let poll = self.poll(&Request::of(Function::Read, key, credentials), timeout).await;
        match poll.agreed.iter().max_by_key(|response| response.version) {
            Some(newest) if poll.agreed.len() >= self.majority() => {
                Completion::Ok(newest.ok.clone().unwrap_or_default())
            }
            // A read changes no value: without an answer it is as if it had not happened.
            _ => Completion::Fail(poll.error()),
        }
    }

    /// Marks the storage as the holder's with these credentials.
    pub async fn mark(&self, key: &str, credentials: &Credentials, timeout: Duration) -> Completion {
        let poll = self.poll(&Request::of(Function::Mark, key, credentials), timeout).await;
        match poll.agreed.len() >= self.majority() {
            true => Completion::Ok(Value::Null),
            // It changes no value either. A storage that noted it refuses older writers, and nothing worse.
            false => Completion::Fail(poll.error()),
        }
    }

    /// Sets the value of `key`, if the guard accepts the write.
    pub async fn write(
        &self,
        key: &str,
        value: &Value,
        credentials: &Credentials,
        timeout: Duration,
    ) -> Completion {
        let (value, is_alone) = (Some(Cow::Borrowed(value)), self.replicas.len() == 1);
        let number = (!is_alone).then(|| self.next_number.fetch_add(1, Ordering::Relaxed));
        let write = Request { value, number, ..Request::of(Function::Write, key, credentials) };
        let poll = self.poll(&write, timeout).await;
        if let Some(done) = poll.agreed.first().filter(|_| poll.agreed.len() >= self.majority()) {
            return Completion::Ok(done.ok.clone().unwrap_or_default());
        }
        match poll.agreed.is_empty() && poll.unanswered.is_empty() {
            // Each replica rejected it, or it was not sent there: no replica has it.
            true => Completion::Fail(poll.error()),
            // It may have been written, or may be yet: its bytes can be under way for any length of time.
            false if is_alone => Completion::Info(poll.error()),
            // A minority has it, or may have it: a later reader may find it.
            false => Completion::info(ErrorCode::NoMajority, poll.error()),
        }
    }

    fn majority(&self) -> usize {
        self.replicas.len() / 2 + 1
    }

    async fn poll(&self, request: &Request<'_>, timeout: Duration) -> Poll {
        let mut answers: FuturesUnordered<_> =
            self.replicas.iter().map(|replica| replica.send(request, timeout)).collect();
        let mut poll = Poll::default();
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(Response { fail: Some(error), .. }) => poll.rejected.push(error),
                Ok(response) => poll.agreed.push(response),
                Err(LostRequest::Unsent(error)) => poll.unsent.push(error),
                Err(LostRequest::Unanswered(error)) => poll.unanswered.push(error),
            }
            if poll.agreed.len() >= self.majority() {
                break;
            }
        }
        poll
    }
}

impl Poll {
    /// Why there is no majority. A rejection says more than a missing answer.
    fn error(&self) -> OperationError {
        let first = self.rejected.iter().chain(&self.unanswered).chain(&self.unsent).next();
        first.cloned().unwrap_or_else(|| ErrorCode::NoMajority.error("too few replicas agreed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guards::find_guard;
    use crate::testing;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn token(token: u64) -> Credentials {
        Credentials { token: Some(token), ..Credentials::default() }
    }

    fn open(guard: &str, serving: usize) -> ProtectedStorage {
        let replica = |number| if number < serving { testing::serving(guard) } else { testing::refusing() };
        ProtectedStorage::over((0..3).map(replica).collect())
    }

    #[tokio::test(start_paused = true)]
    async fn a_majority_is_enough_and_a_minority_is_not() {
        let storage = open("epoch-quorum", 2);
        assert_eq!(storage.mark("a", &token(33), TIMEOUT).await, Completion::Ok(Value::Null));
        assert_eq!(storage.write("a", &8.into(), &token(33), TIMEOUT).await, Completion::Ok(8.into()));
        assert_eq!(storage.read("a", &token(33), TIMEOUT).await, Completion::Ok(8.into()));
        let minority = open("epoch-quorum", 1);
        assert!(matches!(minority.mark("a", &token(33), TIMEOUT).await, Completion::Fail(_)));
        assert!(matches!(minority.write("a", &8.into(), &token(33), TIMEOUT).await, Completion::Info(_)));
        assert!(matches!(minority.read("a", &token(33), TIMEOUT).await, Completion::Fail(_)));
        let none = open("epoch-quorum", 0);
        assert!(matches!(none.write("a", &8.into(), &token(33), TIMEOUT).await, Completion::Fail(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_marked_epoch_shuts_the_earlier_writer_out_and_an_unmarked_one_does_not() {
        for (guard, late) in [("epoch-quorum", Err("stale-epoch")), ("epoch-quorum-unmarked", Ok(1))] {
            let storage = open(guard, 3);
            if find_guard(guard).is_some_and(Guard::marks_first) {
                assert_eq!(storage.mark("a", &token(34), TIMEOUT).await, Completion::Ok(Value::Null));
            }
            assert_eq!(storage.read("a", &token(34), TIMEOUT).await, Completion::Ok(0.into()));
            let earlier = storage.write("a", &1.into(), &token(33), TIMEOUT).await;
            match late {
                Ok(value) => assert_eq!(earlier, Completion::Ok(value.into()), "{guard}"),
                Err(code) => {
                    assert!(
                        matches!(earlier, Completion::Fail(error) if error.is_rejected() && error.detail().starts_with(code)),
                        "{guard}"
                    )
                }
            }
            assert_eq!(storage.write("a", &1.into(), &token(34), TIMEOUT).await, Completion::Ok(1.into()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn readers_take_the_newest_value_of_a_majority() {
        let storages = [(); 3].map(|()| testing::storage("epoch-quorum"));
        let one_more = || ProtectedStorage::over(storages.iter().map(testing::client).collect());
        let storage = one_more();
        for value in 1..=5 {
            let written = storage.write("a", &value.into(), &token(33), TIMEOUT).await;
            assert_eq!(written, Completion::Ok(value.into()));
        }
        assert_eq!(one_more().read("a", &token(34), TIMEOUT).await, Completion::Ok(5.into()));
    }

    #[test]
    fn a_guard_has_as_many_storages_as_it_needs() {
        let guard = find_guard("epoch-quorum").expect("there");
        assert!(ProtectedStorage::open(&["127.0.0.1:1".to_owned()], guard).is_err());
    }
}
