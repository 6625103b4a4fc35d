//! What an answer of etcd means for an acquire or a release of the locks on it.
//!
//! *Doubt*: an attempt of a request was not answered, so it may still be carried out later. Requests for a
//! key under a lease can do no more once the lease is ended. So doubt ends the lease.

use super::api::{LockResponse, RangeResponse, TransactionResponse, TxnResponse, WatchCreateRequest};
use super::members::{AnsweredMember, CallError};
use crate::end::End;
use crate::held::no_longer_held;
use fencepost_history::{Completion, ErrorCode, OperationError};
use serde_json::Value;
use tonic::Status;

#[derive(Debug, PartialEq)]
pub(super) enum Attempted<H> {
    Held(H),
    /// It is another's, and nothing of the attempt is left or can come.
    Taken(OperationError),
    /// Something of it may be left, or may come, as long as the session lasts.
    Unclear(OperationError),
}

/// Why a try to take a place in the queue did not succeed. Its key is still to be cleared away.
#[derive(Debug, PartialEq)]
pub(super) struct QueueFailure {
    pub(super) why: OperationError,
    /// The lease is dead by the server's own word: its keys are gone, and no more can come.
    pub(super) lease_is_gone: bool,
    pub(super) doubt: bool,
}

#[derive(Debug, PartialEq)]
pub(super) struct Created {
    pub(super) create_revision: i64,
    /// An attempt to create the key was not answered, and may still create it after it was deleted.
    pub(super) doubt: bool,
    pub(super) waits: bool,
}

impl QueueFailure {
    fn of(error: CallError, doubt_before: bool) -> QueueFailure {
        match error {
            CallError::Refused { why, lease_not_found, doubt } => {
                // Without its lease the key is gone, and an attempt still under way finds no lease either.
                QueueFailure { why, lease_is_gone: lease_not_found, doubt: doubt || doubt_before }
            }
            CallError::Unanswered(why) => QueueFailure { why, lease_is_gone: false, doubt: true },
        }
    }
}

impl Created {
    fn failure(&self, code: ErrorCode, detail: &str, lease_is_gone: bool) -> QueueFailure {
        QueueFailure { why: code.error(detail), lease_is_gone, doubt: self.doubt }
    }

    /// Time was up while another's key was older than ours.
    pub(super) fn still_waits(&self) -> QueueFailure {
        self.failure(ErrorCode::Taken, "another client holds the lock", false)
    }

    /// After the search for older keys, as many as permits: the watch of the youngest, if any.
    pub(super) fn after_look(
        &self,
        reply: Result<AnsweredMember<RangeResponse>, CallError>,
        permits: u32,
    ) -> Result<Option<WatchCreateRequest>, QueueFailure> {
        let failed =
            |error: CallError| QueueFailure { why: error.why(), lease_is_gone: false, doubt: self.doubt };
        let found = reply.map_err(failed)?.answer;
        let start_revision = found.revision() + 1;
        let waits = found.kvs.len() >= permits as usize;
        let predecessor = found.kvs.into_iter().next().filter(|_| waits);
        Ok(predecessor.map(|kv| WatchCreateRequest { key: kv.key, range_end: Vec::new(), start_revision }))
    }

    /// After the look at our own key: it may have gone while we waited, and not be a later one of its name.
    pub(super) fn after_recheck(
        &self,
        reply: Result<AnsweredMember<RangeResponse>, CallError>,
    ) -> Result<(), QueueFailure> {
        let found = reply.map_err(|error| QueueFailure::of(error, self.doubt))?.answer;
        match found.kvs.first() {
            Some(kv) if kv.create_revision == self.create_revision => Ok(()),
            _ => {
                let ran_out = "the lease ran out while the lock was waited for";
                Err(self.failure(ErrorCode::SessionExpired, ran_out, true))
            }
        }
    }

    pub(super) fn after_keepalive(&self, in_time: bool) -> Result<(), QueueFailure> {
        let late = || self.failure(ErrorCode::Timeout, "no keepalive was answered in time", false);
        in_time.then_some(()).ok_or_else(late)
    }
}

/// After the transaction that puts our key if it is not there, and looks for it and for the oldest key.
pub(super) fn after_put(
    reply: Result<AnsweredMember<TxnResponse>, CallError>,
) -> Result<Created, QueueFailure> {
    let AnsweredMember { answer, doubt } = reply.map_err(|error| QueueFailure::of(error, true))?;
    let (create_revision, oldest) = read_created(&answer).ok_or_else(|| {
        let why = ErrorCode::Protocol.error("an answer of etcd lacks a part");
        QueueFailure { why, lease_is_gone: false, doubt }
    })?;
    Ok(Created { create_revision, doubt, waits: oldest < create_revision })
}

/// Create revisions of our key and of the oldest key that it may have to wait for, else its own.
fn read_created(answer: &TxnResponse) -> Option<(i64, i64)> {
    let mut parts = answer.answers();
    let own = created(parts.next()?, answer)?;
    match parts.next()? {
        TransactionResponse::Range(oldest) => {
            Some((own, oldest.kvs.first().map_or(own, |oldest| oldest.create_revision)))
        }
        TransactionResponse::Put(_) | TransactionResponse::Delete(_) => None,
    }
}

fn created(part: &TransactionResponse, answer: &TxnResponse) -> Option<i64> {
    match part {
        TransactionResponse::Put(_) => answer.revision(),
        TransactionResponse::Range(own) => Some(own.kvs.first()?.create_revision),
        TransactionResponse::Delete(_) => None,
    }
}

/// Whether our key is deleted after a failure; else the session must end: a request may be under way.
pub(super) fn deletes_key(failure: &QueueFailure, session_is_lost: bool) -> bool {
    !failure.doubt && !failure.lease_is_gone && !session_is_lost
}

pub(super) fn after_deletion<T, H>(
    reply: Result<AnsweredMember<T>, CallError>,
    why: OperationError,
) -> Attempted<H> {
    match reply {
        Ok(AnsweredMember { doubt: false, .. }) => Attempted::Taken(why),
        // A deletion without an answer may come late, and delete the key of a later grant to this session.
        Ok(AnsweredMember { doubt: true, .. }) | Err(_) => Attempted::Unclear(why),
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum ChubbyAsked {
    /// Our keys are there. `doubt`: an attempt to make them was not answered, and may still make them.
    Granted {
        generation: i64,
        doubt: bool,
    },
    /// Not made, nor can they be: another's are in their way. The end of those is watched from here on.
    Taken {
        watch_from: i64,
    },
    Unclear(OperationError),
}

/// After the transaction that makes our keys if none stands in their way.
pub(super) fn after_chubby_txn(reply: Result<AnsweredMember<TxnResponse>, CallError>) -> ChubbyAsked {
    let AnsweredMember { answer, doubt } = match reply {
        Ok(answered) => answered,
        Err(error) => return ChubbyAsked::Unclear(error.why()),
    };
    if let Some(generation) = answer.answers().next().and_then(|part| created(part, &answer)) {
        return ChubbyAsked::Granted { generation, doubt };
    }
    if doubt {
        // The attempt that was not answered may still make our keys.
        return ChubbyAsked::Unclear(chubby_taken());
    }
    ChubbyAsked::Taken { watch_from: answer.revision().unwrap_or(0) + 1 }
}

pub(super) fn chubby_taken() -> OperationError {
    ErrorCode::Taken.error("another client holds the lock, or was lost less than the lock-delay ago")
}

/// After the call of etcd's own Lock service, none where it was not answered in time: our key there, and its
/// revision. Whatever else it says, the member may have made our key, and may not have taken it back.
pub(super) fn after_lock_call(
    reply: Option<Result<LockResponse, Status>>,
) -> Result<(Vec<u8>, i64), OperationError> {
    match reply {
        // The revision at which the member looked for older keys for the last time. It grows with every
        // grant, as long as our key lives until we release it: where its lease expired while we waited, the
        // next waiter finds no older key at the same revision, and gets the same token.
        Some(Ok(LockResponse { header: Some(header), key })) => Ok((key, header.revision)),
        Some(Ok(LockResponse { header: None, .. })) => {
            Err(ErrorCode::Protocol.error("an answer of etcd lacks a part"))
        }
        Some(Err(status)) => Err(ErrorCode::Unavailable.error(format_args!("{}", status.message()))),
        // The lock is another's, or the member is gone. It takes our key back when it sees that we hung up.
        None => Err(ErrorCode::Timeout.error("the Lock service did not grant it in time")),
    }
}

pub(super) fn is_ended<T>(revoked: &Result<AnsweredMember<T>, CallError>) -> bool {
    match revoked {
        Ok(_) => true,
        Err(CallError::Refused { lease_not_found, .. }) => *lease_not_found,
        Err(CallError::Unanswered(_)) => false,
    }
}

/// After an unclear attempt whose session was to be ended: how the acquire ends; none where it tries again.
pub(super) fn after_unclear(why: OperationError, ended: bool, time_is_left: bool) -> Option<Completion> {
    match (ended, time_is_left) {
        // Our key may be there, or may come yet, until its lease has run out: unknown.
        (false, _) => Some(Completion::Info(why)),
        (true, false) => Some(Completion::Fail(why)),
        (true, true) => None,
    }
}

/// After the transaction that deletes our key if it is the one that was granted.
pub(super) fn after_release(reply: Result<AnsweredMember<TxnResponse>, CallError>) -> End {
    match reply {
        Ok(AnsweredMember { answer, .. }) if answer.succeeded => End::keeping(Completion::Ok(Value::Null)),
        // It was executed and found nothing: the lease had run out.
        Ok(AnsweredMember { doubt: false, .. }) => End::keeping(no_longer_held()),
        // The key is gone; whether an earlier attempt deleted it or the end of the lease, is unknown.
        Ok(AnsweredMember { doubt: true, .. }) => {
            let gone = "an attempt was not answered, and the key is gone";
            End::keeping(Completion::info(ErrorCode::Timeout, gone))
        }
        // Not executed: the key stays until the session ends, which is now.
        Err(CallError::Refused { why, doubt: false, .. }) => End::dropping(Completion::Fail(why)),
        Err(error) => End::unknown(error.why()),
    }
}

/// After the end of the session that a release with doubt takes.
pub(super) fn after_release_by_end(ended: bool) -> Completion {
    match ended {
        true => Completion::Ok(Value::Null),
        false => Completion::info(ErrorCode::Timeout, "the lease could not be ended"),
    }
}

pub(super) fn after_unlock<T>(reply: Result<AnsweredMember<T>, CallError>) -> End {
    match reply {
        // The service does not say whether there was anything to delete; the key is gone either way.
        Ok(AnsweredMember { doubt: false, .. }) => End::keeping(Completion::Ok(Value::Null)),
        // An unlock that was not answered may come late, and delete the key of a later grant to this session.
        Ok(AnsweredMember { doubt: true, .. }) => End::dropping(Completion::Ok(Value::Null)),
        // A write without an answer, or one that was not executed: the key stays until the session runs out.
        Err(error) => End::unknown(error.why()),
    }
}

#[cfg(test)]
mod tests;
