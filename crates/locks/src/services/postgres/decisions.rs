//! What an answer of PostgreSQL means for an acquire, a release or a write.

use crate::end::End;
use crate::held::no_longer_held;
use crate::sql::Failed;
use fencepost_history::{Completion, ErrorCode, OperationError};
use serde_json::Value;

#[derive(Debug, PartialEq)]
pub(super) enum AfterLock {
    Granted,
    /// It failed. Something of it may be left: takes it back.
    TakeBack(OperationError),
    End(End),
}

pub(super) fn after_lock(reply: Result<(), Failed>) -> AfterLock {
    match reply {
        Ok(()) => AfterLock::Granted,
        Err(Failed::Refused { lock_timeout: true, .. }) => {
            AfterLock::TakeBack(ErrorCode::Taken.error("another client holds the lock"))
        }
        Err(Failed::Refused { why, .. }) => AfterLock::TakeBack(why),
        // The lock may be taken, or may be yet, until the server notices that the connection is gone.
        Err(Failed::Unknown(why)) => AfterLock::End(End::unknown(why)),
    }
}

/// After `pg_advisory_unlock`, where the statement that asked for the lock failed. No failure undoes an
/// advisory lock: it can be granted as its time is up (`LockErrorCleanup`), and nothing would release it.
pub(super) fn after_advisory_taken_back(reply: Result<bool, Failed>, why: OperationError) -> End {
    match reply {
        Ok(_) => End::keeping(Completion::Fail(why)),
        Err(_) => End::unknown(why),
    }
}

/// After `ROLLBACK`, where the statement for the row failed: the transaction failed, and no row is locked.
pub(super) fn after_rollback(reply: Result<(), Failed>, why: OperationError) -> End {
    match reply {
        Ok(()) => End::keeping(Completion::Fail(why)),
        Err(_) => End::dropping(Completion::Fail(why)),
    }
}

/// A grant whose connection ended before it was known: taken until the server notices.
pub(super) fn ended_with_grant() -> End {
    let ended = "the connection ended before the grant was known";
    End::dropping(Completion::info(ErrorCode::SessionExpired, ended))
}

pub(super) fn after_unlock(reply: Result<bool, Failed>) -> End {
    match reply {
        Ok(true) => End::keeping(Completion::Ok(Value::Null)),
        // Carried out, and this connection did not hold it.
        Ok(false) => End::keeping(no_longer_held()),
        // A write without an answer; or one that was not carried out, but the lock ends with the connection.
        Err(failed) => End::unknown(failed.why()),
    }
}

pub(super) fn after_commit(reply: Result<(), Failed>) -> End {
    match reply {
        Ok(()) => End::keeping(Completion::Ok(Value::Null)),
        // Either way the lock ends with the connection.
        Err(failed) => End::unknown(failed.why()),
    }
}

/// After the `UPDATE` in a row's transaction. Err: the write's end; without a COMMIT it is undone.
pub(super) fn after_update(reply: Result<u64, Failed>) -> Result<(), End> {
    reply.map(drop).map_err(|failed| End::dropping(Completion::Fail(failed.why())))
}

pub(super) fn after_commit_of_write(reply: Result<(), Failed>, value: &Value) -> End {
    match reply {
        Ok(()) => End::keeping(written(value)),
        Err(Failed::Refused { why, .. }) => End::dropping(Completion::Fail(why)),
        Err(Failed::Unknown(why)) => End::unknown(why),
    }
}

/// After the `UPDATE` of a value with this version, which is a transaction of its own.
pub(super) fn after_update_of_version(reply: Result<u64, Failed>, version: i64, value: &Value) -> End {
    match reply {
        // It was carried out, and found another version: someone else has written. Nothing was changed.
        Ok(0) => {
            let written_over = format!("version {version} has been written over");
            End::keeping(Completion::fail(ErrorCode::Conflict, written_over))
        }
        Ok(_) => End::keeping(written(value)),
        Err(Failed::Refused { why, .. }) => End::keeping(Completion::Fail(why)),
        Err(Failed::Unknown(why)) => End::unknown(why),
    }
}

/// What a write that was carried out answers, as the storage does: a list would only be repeated at length.
fn written(value: &Value) -> Completion {
    Completion::Ok(value.as_array().map_or_else(|| value.clone(), |list| list.len().into()))
}

pub(super) fn read(text: &str) -> Completion {
    serde_json::from_str(text)
        .map_or_else(|error| Completion::fail(ErrorCode::BadValue, error), Completion::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ended;
    use serde_json::json;

    fn refused<T>() -> Result<T, Failed> {
        Err(Failed::refused("x"))
    }

    fn lock_timeout<T>() -> Result<T, Failed> {
        Err(Failed::Refused { why: "refused: x".into(), lock_timeout: true })
    }

    fn unknown<T>(code: &str) -> Result<T, Failed> {
        Err(Failed::Unknown(format!("{code}: x").as_str().into()))
    }

    #[test]
    fn what_the_answers_to_an_acquire_mean() {
        let after = |reply| match after_lock(reply) {
            AfterLock::Granted => "granted".to_owned(),
            AfterLock::TakeBack(why) => format!("take back {}", why.code_name()),
            AfterLock::End(end) => end.said(),
        };
        for (reply, expected) in [
            (Ok(()), "granted"),
            (lock_timeout(), "take back taken"),
            (refused(), "take back refused"),
            (unknown("timeout"), "info timeout, dropped"),
            (unknown("disconnected"), "info disconnected, dropped"),
        ] {
            assert_eq!(after(reply), expected);
        }
        let taken_back = |reply| after_advisory_taken_back(reply, "taken: x".into()).said();
        assert_eq!(taken_back(Ok(false)), "fail taken");
        assert_eq!(taken_back(Ok(true)), "fail taken", "it was granted as the time was up");
        for reply in [refused(), unknown("timeout"), unknown("disconnected")] {
            assert_eq!(taken_back(reply), "info taken, dropped");
        }
        let rolled_back = |reply| after_rollback(reply, "taken: x".into()).said();
        assert_eq!(rolled_back(Ok(())), "fail taken");
        for reply in [refused(), unknown("timeout"), unknown("disconnected")] {
            assert_eq!(rolled_back(reply), "fail taken, dropped", "the row went with the statement");
        }
        assert_eq!(ended_with_grant().said(), "info session-expired, dropped");
    }

    #[test]
    fn what_the_answers_to_a_release_mean() {
        let unlocked = |reply| after_unlock(reply).said();
        assert_eq!(unlocked(Ok(true)), "ok null");
        assert_eq!(unlocked(Ok(false)), "fail not-held");
        // The lock goes with the connection.
        assert_eq!(unlocked(refused()), "info refused, dropped");
        assert_eq!(unlocked(unknown("timeout")), "info timeout, dropped");
        let committed = |reply| after_commit(reply).said();
        assert_eq!(committed(Ok(())), "ok null");
        assert_eq!(committed(refused()), "info refused, dropped");
        assert_eq!(committed(unknown("disconnected")), "info disconnected, dropped");
    }

    #[test]
    fn what_the_answers_to_a_write_mean() {
        let updated = |reply| after_update(reply).map_err(|end| end.said());
        assert_eq!(updated(Ok(1)), Ok(()));
        for (reply, expected) in [
            (refused(), "fail refused, dropped"),
            (unknown("timeout"), "fail timeout, dropped"),
            (unknown("disconnected"), "fail disconnected, dropped"),
        ] {
            assert_eq!(updated(reply), Err(expected.to_owned()), "no COMMIT is sent");
        }
        let committed = |reply| after_commit_of_write(reply, &json!(8)).said();
        assert_eq!(committed(Ok(())), "ok 8");
        assert_eq!(committed(refused()), "fail refused, dropped");
        assert_eq!(committed(unknown("timeout")), "info timeout, dropped");
        assert_eq!(committed(unknown("disconnected")), "info disconnected, dropped");
        assert_eq!(after_commit_of_write(Ok(()), &json!([1, 2])).said(), "ok 2");

        let of_version = |reply| after_update_of_version(reply, 3, &json!(8)).said();
        assert_eq!(of_version(Ok(1)), "ok 8");
        assert_eq!(of_version(Ok(0)), "fail conflict");
        assert_eq!(of_version(refused()), "fail refused");
        assert_eq!(of_version(unknown("timeout")), "info timeout, dropped");
        assert_eq!(
            (ended(&read("[1,2]")), ended(&read("[1"))),
            ("ok [1,2]".to_owned(), "fail bad-value".to_owned())
        );
    }
}
