//! What an answer of MariaDB means for an acquire or a release.

use crate::end::End;
use crate::held::no_longer_held;
use crate::sql::Failed;
use fencepost_history::{Completion, ErrorCode, OperationError, Released};
use serde_json::Value;

#[derive(Debug, PartialEq)]
pub(super) enum AfterGetLock {
    Granted,
    End(End),
}

/// After `GET_LOCK`: 1 is a grant, 0 the end of the time, NULL an error, such as a statement that was killed.
pub(super) fn after_lock(reply: Result<Option<i64>, Failed>) -> AfterGetLock {
    AfterGetLock::End(match reply {
        Ok(Some(1)) => return AfterGetLock::Granted,
        Ok(Some(_)) => End::keeping(Completion::fail(ErrorCode::Taken, "another client holds the lock")),
        // Whatever is left of it goes with the connection.
        Ok(None) => End::dropping(Completion::fail(ErrorCode::Refused, "GET_LOCK answered NULL: an error")),
        Err(Failed::Refused { why, .. }) => End::dropping(Completion::Fail(why)),
        // The lock may be taken, or may be yet, until the server notices that the connection is gone.
        Err(Failed::Unknown(why)) => End::unknown(why),
    })
}

/// After `RELEASE_LOCK`: 1 if this connection held the lock, 0 if another does, NULL if no connection does.
pub(super) fn after_unlock(reply: Result<Option<i64>, Failed>) -> End {
    match reply {
        Ok(Some(1)) => End::keeping(Completion::Ok(Value::Null)),
        Ok(_) => End::keeping(no_longer_held()),
        // A write without an answer; or one that was not carried out, but the lock ends with the connection.
        Err(failed) => End::unknown(failed.why()),
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum AfterTake {
    Granted(i64),
    TryAgain(OperationError),
    End(End),
}

pub(super) type RowState = (Option<Vec<u8>>, i64);

/// After the statement that takes an expired row; the holder is `mine` only if it took the row.
pub(super) fn after_take(reply: Result<Option<RowState>, Failed>, mine: &str) -> AfterTake {
    match reply {
        Ok(Some((Some(holder), token))) if holder == mine.as_bytes() => AfterTake::Granted(token),
        Ok(Some(_)) => AfterTake::TryAgain(ErrorCode::Taken.error("another process holds the lock")),
        Ok(None) => AfterTake::TryAgain(ErrorCode::Refused.error("the statement gave no row")),
        // A deadlock with another statement, for example: undone.
        Err(Failed::Refused { why, .. }) => AfterTake::TryAgain(why),
        // The row may be taken, or may be yet: it is free again when the lease is over.
        Err(Failed::Unknown(why)) => AfterTake::End(End::unknown(why)),
    }
}

/// After the statement that gives the row back, which counts the rows that it changed.
pub(super) fn after_give_back(reply: Result<u64, Failed>) -> End {
    match reply {
        Ok(0) => End::keeping(no_longer_held()),
        Ok(_) => End::keeping(Completion::ok(Released { removed: Some(true), ..Released::default() })),
        // Not carried out: the row is this process's until the lease is over.
        Err(Failed::Refused { why, .. }) => End::keeping(Completion::Fail(why)),
        Err(Failed::Unknown(why)) => End::unknown(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T>() -> Result<T, Failed> {
        Err(Failed::refused("x"))
    }

    fn unknown<T>(code: &str) -> Result<T, Failed> {
        Err(Failed::Unknown(format!("{code}: x").as_str().into()))
    }

    #[test]
    fn what_the_answers_to_get_lock_mean() {
        let after = |reply| match after_lock(reply) {
            AfterGetLock::Granted => "granted".to_owned(),
            AfterGetLock::End(end) => end.said(),
        };
        for (reply, expected) in [
            (Ok(Some(1)), "granted"),
            (Ok(Some(0)), "fail taken"),
            (Ok(None), "fail refused, dropped"),
            (refused(), "fail refused, dropped"),
            (unknown("timeout"), "info timeout, dropped"),
            (unknown("disconnected"), "info disconnected, dropped"),
        ] {
            assert_eq!(after(reply), expected);
        }
    }

    #[test]
    fn what_the_answers_to_release_lock_mean() {
        for (reply, expected) in [
            (Ok(Some(1)), "ok null"),
            (Ok(Some(0)), "fail not-held"),
            (Ok(None), "fail not-held"),
            (refused(), "info refused, dropped"),
            (unknown("timeout"), "info timeout, dropped"),
        ] {
            assert_eq!(after_unlock(reply).said(), expected);
        }
    }

    #[test]
    fn what_the_answers_to_taking_the_row_mean() {
        let after = |reply| match after_take(reply, "c1-1-1") {
            AfterTake::Granted(token) => format!("granted {token}"),
            AfterTake::TryAgain(why) => format!("again {}", why.code_name()),
            AfterTake::End(end) => end.said(),
        };
        for (reply, expected) in [
            (Ok(Some((Some(b"c1-1-1".to_vec()), 7))), "granted 7"),
            (Ok(Some((Some(b"c2-1-1".to_vec()), 7))), "again taken"),
            (Ok(Some((None, 7))), "again taken"),
            (Ok(None), "again refused"),
            (refused(), "again refused"),
            (unknown("timeout"), "info timeout, dropped"),
            (unknown("disconnected"), "info disconnected, dropped"),
        ] {
            assert_eq!(after(reply), expected);
        }
    }

    #[test]
    fn what_the_answers_to_giving_the_row_back_mean() {
        for (reply, expected) in [
            (Ok(1), r#"ok {"removed":true}"#),
            (Ok(0), "fail not-held"),
            (refused(), "fail refused"),
            (unknown("timeout"), "info timeout, dropped"),
        ] {
            assert_eq!(after_give_back(reply).said(), expected);
        }
    }
}
