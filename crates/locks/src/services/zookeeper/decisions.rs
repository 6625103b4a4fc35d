//! What an answer of ZooKeeper means for an acquire or a release of the locks on it. Once the session has
//! moved to another connection, what was sent on the broken one has no effect: what is found then is final.

use crate::end::End;
use crate::held::no_longer_held;
use fencepost_history::{Completion, ErrorCode, OperationError};
use serde_json::Value;
use zookeeper_client::Error;

/// Whether a request was on a connection that broke: it may have been carried out, and the session goes on.
/// The library has errors of its own for bytes that cannot be sent and for a silent server.
fn broke(error: &Error) -> bool {
    matches!(error, Error::ConnectionLoss | Error::Custom(_))
}

/// The answer; none if the connection broke: it is sent again. Errors: the session is over, or a refusal.
pub(super) fn unless_broke<T>(reply: Result<T, Error>) -> Result<Option<T>, Error> {
    match reply {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if broke(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// As [`unless_broke`], where a znode that is gone is no error, and all is looked at again.
pub(super) fn unless_gone<T>(reply: Result<T, Error>) -> Result<Option<T>, Error> {
    match reply {
        Err(Error::NoNode) => Ok(None),
        other => unless_broke(other),
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum AfterCreate<T> {
    Created(T),
    Exists,
    MakeParent,
    /// It may have been created: what is there is looked for.
    Find,
    End(Error),
}

pub(super) fn after_create<T>(reply: Result<T, Error>) -> AfterCreate<T> {
    match reply {
        Ok(created) => AfterCreate::Created(created),
        Err(Error::NodeExists) => AfterCreate::Exists,
        Err(Error::NoNode) => AfterCreate::MakeParent,
        Err(error) if broke(&error) => AfterCreate::Find,
        Err(error) => AfterCreate::End(error),
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Place {
    /// Everybody who came before and is in the way is gone. An old view of a follower cannot mislead: it
    /// holds our own znode, so it holds all that are older, too, but for those that were deleted.
    First,
    Behind(String),
    /// As many as there are permits came before: whichever goes, the next one has its turn.
    BehindMany,
    /// Only the end of the session, or a stranger, can have removed it.
    Gone,
}

/// For whom a znode waits in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// For all that came before.
    Alone,
    /// For writers that came before.
    Reader,
    /// For the one that came just before, if it is a writer.
    CarelessReader,
    /// Until fewer came before than there are permits.
    Permit { of: u32 },
    /// Permits that are counted before the znode is made, and for nothing afterwards.
    CountedBefore { of: u32 },
}

impl Turn {
    /// What stands before the number in the names of its znodes.
    pub(super) fn word(self) -> &'static str {
        match self {
            Turn::Reader | Turn::CarelessReader => READ,
            Turn::Alone | Turn::Permit { .. } | Turn::CountedBefore { .. } => "lock",
        }
    }
}

const READ: &str = "read";

pub(super) fn place(mut names: Vec<String>, own: &str, turn: Turn) -> Place {
    names.sort_unstable_by(|a, b| sequence(a).cmp(sequence(b)));
    let Some(at) = names.iter().position(|name| name == own) else { return Place::Gone };
    names.truncate(at);
    let is_writer = |name: &String| name.rsplit('-').nth(1) != Some(READ);
    let before = match turn {
        Turn::Alone => names.pop(),
        Turn::Reader => names.into_iter().rfind(is_writer),
        Turn::CarelessReader => names.pop().filter(is_writer),
        Turn::Permit { of } if at >= of as usize => return Place::BehindMany,
        Turn::Permit { .. } | Turn::CountedBefore { .. } => None,
    };
    before.map_or(Place::First, Place::Behind)
}

/// The name that was given first.
pub(super) fn first(names: Vec<String>) -> Option<String> {
    names.into_iter().min_by(|a, b| sequence(a).cmp(sequence(b)))
}

/// What follows the last dash of a znode's name, always ten digits.
fn sequence(name: &str) -> &str {
    name.rsplit('-').next().unwrap_or(name)
}

/// After an attempt (none: time was up; `others`: another znode was in its way). Errors: why it has nothing.
pub(super) fn after_attempt<T>(ended: Option<Result<T, Error>>, others: bool) -> Result<T, OperationError> {
    match ended {
        Some(Ok(granted)) => Ok(granted),
        Some(Err(error)) => Err(sentence(&error)),
        None if others => Err(ErrorCode::Taken.error("another client holds the lock")),
        None => Err(ErrorCode::Timeout.error("ZooKeeper did not answer in time")),
    }
}

/// After the leader was asked for; none: time was up. Nothing was changed.
pub(super) fn after_question(reply: Option<Result<Option<u64>, Error>>) -> Completion {
    match reply {
        Some(Ok(process)) => Completion::ok(process),
        Some(Err(error)) => Completion::Fail(sentence(&error)),
        None => Completion::fail(ErrorCode::Timeout, "ZooKeeper did not answer in time"),
    }
}

/// After an attempt was to be taken back; none: time was up. A session's requests are carried out in order.
pub(super) fn after_attempt_taken_back(reply: Option<Result<(), Error>>, why: OperationError) -> End {
    match reply {
        Some(Ok(())) => End::keeping(Completion::Fail(why)),
        // The znode may be there, or may come yet, until the servers end the session: unknown. A session that
        // this client holds for expired may still live, where the servers had no leader to end it.
        Some(Err(_)) | None => End::unknown(why),
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum AfterDelete {
    End(End),
    /// It may have been deleted: what is there is looked for.
    TakeBack,
}

pub(super) fn after_delete(reply: Option<Result<(), Error>>) -> AfterDelete {
    AfterDelete::End(match reply {
        Some(Ok(())) => End::keeping(Completion::Ok(Value::Null)),
        // Carried out, and found nothing. While its session lives no other client removes the znode.
        Some(Err(Error::NoNode)) => End::keeping(no_longer_held()),
        // A session that is over owns no znode, and the servers carry out nothing for it.
        Some(Err(Error::SessionExpired)) => End::keeping(session_is_over()),
        Some(Err(error)) if broke(&error) => return AfterDelete::TakeBack,
        other => after_delete_taken_back(other),
    })
}

pub(super) fn after_delete_taken_back(reply: Option<Result<(), Error>>) -> End {
    match reply {
        // Only this client removes it while the session lives: one of the attempts did.
        Some(Ok(())) => End::keeping(Completion::Ok(Value::Null)),
        Some(Err(error)) => End::unknown(sentence(&error)),
        None => End::unknown(ErrorCode::Timeout.error("ZooKeeper did not answer in time")),
    }
}

/// A release for which nothing is sent: the znode went with its session.
pub(super) fn session_is_over() -> Completion {
    Completion::fail(ErrorCode::NotHeld, "the session is over, and the lock went with it")
}

fn sentence(error: &Error) -> OperationError {
    match error {
        Error::SessionExpired => {
            ErrorCode::SessionExpired.error("the session was over before the answer came")
        }
        error if broke(error) => ErrorCode::Disconnected.error("the connection to ZooKeeper broke"),
        error => ErrorCode::Refused.error(format_args!("{error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::zookeeper::testing::{SESSION, silent_server};
    use zookeeper_client::Client;

    fn ending() -> [Error; 7] {
        [
            Error::SessionMoved,
            Error::Throttled,
            Error::NoAuth,
            Error::QuotaExceeded,
            Error::UnexpectedErrorCode(-1),
            Error::AuthFailed,
            Error::ClientClosed,
        ]
    }

    #[test]
    fn what_the_answers_to_reads_mean() {
        assert_eq!(unless_broke(Ok(7)), Ok(Some(7)));
        assert_eq!(unless_broke::<()>(Err(Error::ConnectionLoss)), Ok(None));
        assert_eq!(unless_broke::<()>(Err(Error::NoNode)), Err(Error::NoNode));
        assert_eq!(unless_gone(Ok(7)), Ok(Some(7)));
        assert_eq!(unless_gone::<()>(Err(Error::ConnectionLoss)), Ok(None));
        assert_eq!(unless_gone::<()>(Err(Error::NoNode)), Ok(None));
        for error in ending().into_iter().chain([Error::SessionExpired, Error::NodeExists]) {
            assert_eq!(unless_broke::<()>(Err(error.clone())), Err(error.clone()));
            assert_eq!(unless_gone::<()>(Err(error.clone())), Err(error));
        }
    }

    #[test]
    fn what_the_answer_to_a_creation_means() {
        assert_eq!(after_create(Ok(7)), AfterCreate::Created(7));
        assert_eq!(after_create::<()>(Err(Error::NodeExists)), AfterCreate::Exists);
        assert_eq!(after_create::<()>(Err(Error::NoNode)), AfterCreate::MakeParent);
        assert_eq!(after_create::<()>(Err(Error::ConnectionLoss)), AfterCreate::Find);
        for error in ending().into_iter().chain([Error::SessionExpired]) {
            assert_eq!(after_create::<()>(Err(error.clone())), AfterCreate::End(error));
        }
    }

    #[test]
    fn the_queue_is_ordered_by_number_whatever_the_random_part() {
        let names = ["_c_ff-lock-0000000002", "_c_00-lock-0000000010", "_c_aa-lock-0000000001"];
        let of = |own: &str| place(names.map(str::to_owned).to_vec(), own, Turn::Alone);
        assert_eq!(of(names[2]), Place::First);
        assert_eq!(of(names[0]), Place::Behind(names[2].to_owned()));
        assert_eq!(of(names[1]), Place::Behind(names[0].to_owned()));
        assert_eq!(of("_c_bb-lock-0000000003"), Place::Gone);
        assert_eq!(place(Vec::new(), names[0], Turn::Alone), Place::Gone);
    }

    #[test]
    fn for_whom_a_znode_waits() {
        let names = [
            "_c_99-lock-0000000001",
            "_c_ff-read-0000000002",
            "_c_00-read-0000000003",
            "_c_aa-lock-0000000004",
            "_c_bb-lock-0000000005",
        ];
        let behind = |place: usize| Place::Behind(names[place].to_owned());
        let of = |own: usize, turn| place(names.map(str::to_owned).to_vec(), names[own], turn);
        for (turn, places) in [
            (Turn::Alone, [Place::First, behind(0), behind(1), behind(2), behind(3)]),
            (Turn::Reader, [Place::First, behind(0), behind(0), behind(0), behind(3)]),
            (Turn::CarelessReader, [Place::First, behind(0), Place::First, Place::First, behind(3)]),
            (
                Turn::Permit { of: 3 },
                [Place::First, Place::First, Place::First, Place::BehindMany, Place::BehindMany],
            ),
            (Turn::CountedBefore { of: 1 }, [(); 5].map(|()| Place::First)),
        ] {
            assert_eq!([0, 1, 2, 3, 4].map(|own| of(own, turn)), places, "{turn:?}");
        }
        assert_eq!(place(Vec::new(), names[0], Turn::Permit { of: 3 }), Place::Gone);
    }

    #[test]
    fn what_the_end_of_an_attempt_means() {
        let after = |ended, others| after_attempt(ended, others).map_err(|why| why.code_name().to_owned());
        for others in [false, true] {
            assert_eq!(after(Some(Ok(7)), others), Ok(7));
            for (error, code) in [
                (Error::SessionExpired, "session-expired"),
                (Error::ConnectionLoss, "disconnected"),
                (Error::SessionMoved, "refused"),
                (Error::Throttled, "refused"),
            ] {
                assert_eq!(after(Some(Err(error)), others), Err(code.to_owned()));
            }
        }
        assert_eq!(after(None, true), Err("taken".to_owned()));
        assert_eq!(after(None, false), Err("timeout".to_owned()), "no server has said that it is another's");

        let taken_back = |reply| after_attempt_taken_back(reply, "taken: x".into()).said();
        assert_eq!(taken_back(Some(Ok(()))), "fail taken");
        let errors = ending()
            .into_iter()
            .chain([Error::SessionExpired, Error::ConnectionLoss])
            .map(|error| Some(Err(error)));
        for reply in errors.chain([None]) {
            assert_eq!(taken_back(reply.clone()), "info taken, dropped", "{reply:?}");
        }
    }

    #[test]
    fn what_the_answers_to_a_release_mean() {
        let after = |reply| match after_delete(reply) {
            AfterDelete::End(end) => end.said(),
            AfterDelete::TakeBack => "take back".to_owned(),
        };
        assert_eq!(after(Some(Ok(()))), "ok null");
        assert_eq!(after(Some(Err(Error::NoNode))), "fail not-held");
        assert_eq!(after(Some(Err(Error::SessionExpired))), "fail not-held");
        assert_eq!(after(Some(Err(Error::ConnectionLoss))), "take back");
        assert_eq!(after(None), "info timeout, dropped");

        let taken_back = |reply| after_delete_taken_back(reply).said();
        assert_eq!(taken_back(Some(Ok(()))), "ok null");
        assert_eq!(taken_back(None), "info timeout, dropped");
        // It was sent before the session ended, and may have been carried out.
        assert_eq!(taken_back(Some(Err(Error::SessionExpired))), "info session-expired, dropped");
        for error in ending() {
            assert_eq!(after(Some(Err(error.clone()))), "info refused, dropped");
            assert_eq!(taken_back(Some(Err(error))), "info refused, dropped");
        }
    }

    #[tokio::test]
    async fn a_silent_server_ends_no_attempt() {
        let connector = Client::connector().with_session_timeout(SESSION).with_detached();
        let client = connector.connect(&silent_server().await).await.unwrap();
        let error = client.sync("/").await.unwrap_err();
        assert!(matches!(error, Error::Custom(_)), "the library has an error of its own: {error:?}");
        assert_eq!(after_create::<()>(Err(error.clone())), AfterCreate::Find);
        assert_eq!(unless_broke::<()>(Err(error.clone())), Ok(None));
        assert_eq!(unless_gone::<()>(Err(error.clone())), Ok(None));
        assert_eq!(after_delete(Some(Err(error.clone()))), AfterDelete::TakeBack);
        assert_eq!(sentence(&error).code(), ErrorCode::Disconnected);
    }
}
