//! What an answer of Redis means for an acquire, a renewal or a release of the lock on one server.

use crate::held::no_longer_held;
use crate::options::{Acquire, LockValue, Options};
use crate::reply::Reply;
use crate::watchdog::{RenewalOutcome, after_no_answer};
use fencepost_history::{Completion, ErrorCode, OperationError, Released};
use serde_json::Value;

#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// The lock is taken: gives it its TTL.
    Expire,
    /// The lock is taken: lets so many replicas acknowledge it.
    AwaitReplicas(u32),
    End(AttemptEnd),
}

#[derive(Debug, PartialEq)]
pub(super) enum AttemptEnd {
    Granted,
    /// Nothing of the attempt is left or can come: tries again while there is time.
    Refused(OperationError),
    /// Something of it may be left, or may come: takes it back.
    TakeBack(OperationError),
    /// As [`AttemptEnd::TakeBack`], but what is there may as well be another's.
    Unknown(OperationError),
}

pub(super) fn after_set(reply: Reply<bool>, options: &Options) -> Next {
    match after_ask(reply) {
        AttemptEnd::Granted if options.acquire == Acquire::SetnxExpire => Next::Expire,
        AttemptEnd::Granted => after_taken(options),
        AttemptEnd::TakeBack(why) => something_left(why, options),
        end => Next::End(end),
    }
}

/// After a request that takes all of the lock, or a share of it, under a value of its own.
pub(super) fn after_ask(reply: Reply<bool>) -> AttemptEnd {
    match reply {
        Reply::Answer(true) => AttemptEnd::Granted,
        Reply::Answer(false) => AttemptEnd::Refused(ErrorCode::Taken.error("another client holds the lock")),
        // Not executed, or not even sent: nothing is held.
        Reply::Refused(why) | Reply::Unsent(why) => AttemptEnd::Refused(why),
        // It may have been executed, or may be later.
        Reply::Unknown(why) => AttemptEnd::TakeBack(why),
    }
}

/// After a request before the one that takes a share: its failure leaves nothing, the second is not sent.
pub(super) fn after_look<T>(reply: Reply<T>) -> Result<T, Reply<bool>> {
    reply.answered().map_err(Reply::Refused)
}

pub(super) fn after_expire(reply: Reply<bool>, options: &Options) -> Next {
    match reply {
        Reply::Answer(true) => after_taken(options),
        Reply::Answer(false) => refused(ErrorCode::NotHeld.error("the key was gone before it had a TTL")),
        // The key is there, without a TTL or with one.
        Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => something_left(why, options),
    }
}

pub(super) fn after_wait(reply: Reply<u32>, wanted: u32, options: &Options) -> Next {
    let why = match reply.answered() {
        Ok(acknowledged) if acknowledged >= wanted => return Next::End(AttemptEnd::Granted),
        Ok(acknowledged) => ErrorCode::Other.error(format_args!(
            "not-replicated: {acknowledged} of {wanted} replicas had acknowledged it in time"
        )),
        Err(why) => why,
    };
    something_left(why, options)
}

fn refused(why: OperationError) -> Next {
    Next::End(AttemptEnd::Refused(why))
}

fn after_taken(options: &Options) -> Next {
    options.wait.map_or(Next::End(AttemptEnd::Granted), Next::AwaitReplicas)
}

fn something_left(why: OperationError, options: &Options) -> Next {
    match options.value {
        LockValue::Unique => Next::End(AttemptEnd::TakeBack(why)),
        // The value does not tell ours from another's: whatever was deleted could be theirs.
        LockValue::Fixed => Next::End(AttemptEnd::Unknown(why)),
    }
}

/// After the compare-and-delete on the SET's connection: why to try again, or how the acquire ends.
pub(super) fn after_take_back(reply: Reply<bool>, why: OperationError) -> Result<OperationError, Completion> {
    match reply.answered() {
        // A connection's commands are executed in order: nothing of this SET is left, nor can come.
        Ok(_) => Ok(why),
        // A new connection would prove nothing: it can overtake the old one.
        Err(_) => Err(Completion::Info(why)),
    }
}

/// After the GET of `--release get-del`: whether to go on and delete, or how the release ends.
pub(super) fn after_get(reply: Reply<Option<String>>, own: &str) -> Result<(), Completion> {
    match reply {
        Reply::Answer(Some(found)) if found == own => Ok(()),
        Reply::Answer(_) => Err(no_longer_held()),
        // A GET changes nothing, and the DEL was not sent.
        Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => Err(Completion::Fail(why)),
    }
}

pub(super) fn after_delete(reply: Reply<bool>) -> Completion {
    match reply {
        Reply::Answer(true) => Completion::ok(Released { removed: Some(true), ..Released::default() }),
        Reply::Answer(false) => no_longer_held(),
        // Not executed, or not sent: the key stays until its TTL ends.
        Reply::Refused(why) | Reply::Unsent(why) => Completion::Fail(why),
        // A write without an answer: it may have been executed, and may still be.
        Reply::Unknown(why) => Completion::Info(why),
    }
}

/// What a process gave back that may hold the lock more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenBack {
    Gone,
    /// It is held less often by one.
    Less,
    Removed,
}

/// After the script that gives back a share, or one entry of a reentrant lock.
pub(super) fn after_give_back(reply: Reply<GivenBack>) -> Completion {
    match reply {
        Reply::Answer(GivenBack::Less) => {
            Completion::ok(Released { removed: Some(false), ..Released::default() })
        }
        // As of a lock that is held once.
        reply => after_delete(reply.map(|given_back| given_back == GivenBack::Removed)),
    }
}

/// After the request that prolongs a lock by its holder's wish.
pub(super) fn after_prolong(reply: Reply<bool>) -> Completion {
    match reply {
        Reply::Answer(true) => Completion::ok(Value::Null),
        Reply::Answer(false) => no_longer_held(),
        // Not executed, or not sent: the lock ends when it would have.
        Reply::Refused(why) | Reply::Unsent(why) => Completion::Fail(why),
        Reply::Unknown(why) => Completion::Info(why),
    }
}

/// After a renewal; `is_over`: nothing is left of the lease by the client's own clock.
pub(super) fn after_renewal(reply: Reply<bool>, is_over: bool) -> RenewalOutcome {
    match reply {
        Reply::Answer(true) => RenewalOutcome::Renewed,
        // The script ran and found no key, or another's value.
        Reply::Answer(false) => RenewalOutcome::Lost("the key is gone, or another's".to_owned()),
        Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => after_no_answer(&why, is_over),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ended;

    fn why() -> OperationError {
        "timeout: n1".into()
    }

    fn unanswered<T>() -> [Reply<T>; 3] {
        [Reply::Refused(why()), Reply::Unsent(why()), Reply::Unknown(why())]
    }

    /// An option set each: the recipe of the documentation, with replicas, with the TTL apart, both, and with
    /// a fixed value.
    fn variants() -> [Options; 5] {
        let plain = Options::default();
        let wait = Options { wait: Some(1), ..Options::default() };
        let apart = Options { acquire: Acquire::SetnxExpire, ..Options::default() };
        let both = Options { wait: Some(1), ..apart.clone() };
        let fixed = Options { value: LockValue::Fixed, ..Options::default() };
        [plain, wait, apart, both, fixed]
    }

    fn said(next: Next) -> String {
        match next {
            Next::Expire => "expire".to_owned(),
            Next::AwaitReplicas(count) => format!("await {count}"),
            Next::End(AttemptEnd::Granted) => "granted".to_owned(),
            Next::End(AttemptEnd::Refused(why)) => format!("refused {}", why.code_name()),
            Next::End(AttemptEnd::TakeBack(why)) => format!("take back {}", why.code_name()),
            Next::End(AttemptEnd::Unknown(why)) => format!("info {}", why.code_name()),
        }
    }

    #[test]
    fn what_each_reply_to_a_request_of_an_acquire_means() {
        let take_back = "take back timeout";
        let set = [
            (Reply::Answer(true), ["granted", "await 1", "expire", "expire", "granted"]),
            (Reply::Answer(false), ["refused taken"; 5]),
            (Reply::Refused(why()), ["refused timeout"; 5]),
            (Reply::Unsent(why()), ["refused timeout"; 5]),
            (Reply::Unknown(why()), [take_back, take_back, take_back, take_back, "info timeout"]),
        ];
        for (reply, expected) in set {
            let next = variants().map(|options| said(after_set(reply.clone(), &options)));
            assert_eq!(next, expected, "SET, {reply:?}");
        }
        let expire = [
            (Reply::Answer(true), ["granted", "await 1", "granted", "await 1", "granted"]),
            (Reply::Answer(false), ["refused not-held"; 5]),
            (Reply::Refused(why()), [take_back, take_back, take_back, take_back, "info timeout"]),
            (Reply::Unsent(why()), [take_back, take_back, take_back, take_back, "info timeout"]),
            (Reply::Unknown(why()), [take_back, take_back, take_back, take_back, "info timeout"]),
        ];
        for (reply, expected) in expire {
            let next = variants().map(|options| said(after_expire(reply.clone(), &options)));
            assert_eq!(next, expected, "PEXPIRE, {reply:?}");
        }
        let [unique, .., fixed] = variants();
        for (reply, of_unique, of_fixed) in [
            (Reply::Answer(3), "granted", "granted"),
            (Reply::Answer(2), "granted", "granted"),
            (Reply::Answer(1), "take back not-replicated", "info not-replicated"),
            (Reply::Answer(0), "take back not-replicated", "info not-replicated"),
            (Reply::Refused(why()), take_back, "info timeout"),
            (Reply::Unsent(why()), take_back, "info timeout"),
            (Reply::Unknown(why()), take_back, "info timeout"),
        ] {
            let next = [&unique, &fixed].map(|options| said(after_wait(reply.clone(), 2, options)));
            assert_eq!(next, [of_unique, of_fixed], "WAIT 2, {reply:?}");
        }
    }

    #[test]
    fn what_each_reply_to_a_look_before_a_share_is_taken_means() {
        assert_eq!(after_look(Reply::Answer(7)), Ok(7));
        assert_eq!(unanswered::<u64>().map(after_look), [(); 3].map(|()| Err(Reply::Refused(why()))));
    }

    #[test]
    fn an_attempt_is_taken_back_for_certain_by_an_answer_only() {
        for deleted in [true, false] {
            assert_eq!(after_take_back(Reply::Answer(deleted), why()), Ok(why()));
        }
        for reply in unanswered() {
            let completion = after_take_back(reply.clone(), why()).unwrap_err();
            assert_eq!(ended(&completion), "info timeout", "{reply:?}");
        }
    }

    #[test]
    fn what_each_reply_to_a_request_of_a_prolong_or_a_release_means() {
        let get = |reply| {
            after_get(reply, "mine").map_or_else(|completion| ended(&completion), |()| "delete".to_owned())
        };
        assert_eq!(get(Reply::Answer(Some("mine".to_owned()))), "delete");
        assert_eq!(get(Reply::Answer(Some("another's".to_owned()))), "fail not-held");
        assert_eq!(get(Reply::Answer(None)), "fail not-held");
        assert_eq!(unanswered().map(get), ["fail timeout"; 3], "the DEL is not sent");

        let prolong = |reply| ended(&after_prolong(reply));
        assert_eq!(prolong(Reply::Answer(true)), "ok null");
        assert_eq!(prolong(Reply::Answer(false)), "fail not-held");
        assert_eq!(unanswered().map(prolong), ["fail timeout", "fail timeout", "info timeout"]);

        let delete = |reply| ended(&after_delete(reply));
        assert_eq!(delete(Reply::Answer(true)), r#"ok {"removed":true}"#);
        assert_eq!(delete(Reply::Answer(false)), "fail not-held");
        assert_eq!(unanswered().map(delete), ["fail timeout", "fail timeout", "info timeout"]);
    }

    #[test]
    fn what_each_reply_to_a_renewal_means() {
        for over in [false, true] {
            assert_eq!(after_renewal(Reply::Answer(true), over), RenewalOutcome::Renewed);
            let lost = RenewalOutcome::Lost("the key is gone, or another's".to_owned());
            assert_eq!(after_renewal(Reply::Answer(false), over), lost);
        }
        for reply in unanswered() {
            assert_eq!(after_renewal(reply.clone(), false), RenewalOutcome::Again);
            let lost = RenewalOutcome::Lost("it was not renewed for a whole TTL; timeout: n1".to_owned());
            assert_eq!(after_renewal(reply, true), lost);
        }
    }
}
