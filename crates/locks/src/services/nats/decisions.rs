//! What an answer of JetStream means for an acquire, a renewal or a release.

use crate::held::no_longer_held;
use crate::options::NatsRelease;
use crate::reply::Reply;
use crate::watchdog::{RenewalOutcome, after_no_answer};
use fencepost_history::{Completion, ErrorCode, OperationError, Released};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct FoundEntry {
    pub(super) revision: u64,
    /// Empty for the marker that a release leaves.
    pub(super) value: String,
}

#[derive(Debug, PartialEq)]
pub(super) enum NatsNext {
    Granted(u64),
    /// There is an entry: looks whether it is a lock, or the marker of a release.
    Look,
    /// Writes over the marker of this revision.
    Replace(u64),
    Refused(OperationError),
    /// Ends: something of it may be there, or may come.
    Unknown(OperationError),
}

/// The revision of a write that was stored; none: it expected another entry, and was not.
pub(super) type Stored = Option<u64>;

fn taken() -> OperationError {
    ErrorCode::Taken.error("another client holds the lock")
}

pub(super) fn after_create(reply: Reply<Stored>) -> NatsNext {
    match after_replace(reply) {
        NatsNext::Refused(why) if why.code() == ErrorCode::Taken => NatsNext::Look,
        next => next,
    }
}

pub(super) fn after_replace(reply: Reply<Stored>) -> NatsNext {
    match reply {
        Reply::Answer(Some(revision)) => NatsNext::Granted(revision),
        Reply::Answer(None) => NatsNext::Refused(taken()),
        Reply::Refused(why) | Reply::Unsent(why) => NatsNext::Refused(why),
        Reply::Unknown(why) => NatsNext::Unknown(why),
    }
}

/// After the look at the latest entry. A replica that is behind answers, too: then the next write is refused.
pub(super) fn after_look(reply: Reply<Option<FoundEntry>>) -> NatsNext {
    match reply {
        Reply::Answer(Some(found)) if found.value.is_empty() => NatsNext::Replace(found.revision),
        Reply::Answer(_) => NatsNext::Refused(taken()),
        Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => NatsNext::Refused(why),
    }
}

/// The revision at which this process still has the lock, where an earlier renewal's answer got lost.
pub(super) fn own_revision(reply: &Reply<Option<FoundEntry>>, own: &str) -> Option<u64> {
    match reply {
        Reply::Answer(Some(found)) => (found.value == own).then_some(found.revision),
        _ => None,
    }
}

pub(super) fn after_marker(reply: Reply<Stored>, release: NatsRelease) -> Completion {
    match reply {
        // Whose lock it was is known only where the write expected our own.
        Reply::Answer(Some(_)) => Completion::ok(Released {
            removed: (release == NatsRelease::Revision).then_some(true),
            ..Released::default()
        }),
        Reply::Answer(None) => no_longer_held(),
        Reply::Refused(why) | Reply::Unsent(why) => Completion::Fail(why),
        Reply::Unknown(why) => Completion::Info(why),
    }
}

/// After a renewal: what was stored, or what to do. `is_over`: by the client's clock the lease is over.
pub(super) fn after_renewal(reply: Reply<Stored>, is_over: bool) -> Result<Stored, RenewalOutcome> {
    reply.answered().map_err(|why| after_no_answer(&why, is_over))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ended;

    fn why() -> OperationError {
        "timeout: n1".into()
    }

    fn said(next: NatsNext) -> String {
        match next {
            NatsNext::Granted(revision) => format!("granted {revision}"),
            NatsNext::Look => "look".to_owned(),
            NatsNext::Replace(revision) => format!("replace {revision}"),
            NatsNext::Refused(why) => format!("refused {}", why.code_name()),
            NatsNext::Unknown(why) => format!("info {}", why.code_name()),
        }
    }

    #[test]
    fn what_each_reply_to_a_request_of_an_acquire_means() {
        for (reply, create, replace) in [
            (Reply::Answer(Some(7)), "granted 7", "granted 7"),
            (Reply::Answer(None), "look", "refused taken"),
            (Reply::Refused(why()), "refused timeout", "refused timeout"),
            (Reply::Unsent(why()), "refused timeout", "refused timeout"),
            (Reply::Unknown(why()), "info timeout", "info timeout"),
        ] {
            assert_eq!(said(after_create(reply.clone())), create);
            assert_eq!(said(after_replace(reply)), replace);
        }
        let found = |value: &str| Reply::Answer(Some(FoundEntry { revision: 9, value: value.to_owned() }));
        assert_eq!(said(after_look(found(""))), "replace 9");
        assert_eq!(said(after_look(found("c1-0-1-a"))), "refused taken");
        assert_eq!(said(after_look(Reply::Answer(None))), "refused taken", "it ran out just now");
        assert_eq!(said(after_look(Reply::Unknown(why()))), "refused timeout", "a look changes nothing");
    }

    #[test]
    fn a_lost_answer_of_a_renewal_is_found_by_the_value() {
        let found = |value: &str| Reply::Answer(Some(FoundEntry { revision: 9, value: value.to_owned() }));
        assert_eq!(own_revision(&found("mine"), "mine"), Some(9));
        for other in [found("another's"), found(""), Reply::Answer(None), Reply::Unknown(why())] {
            assert_eq!(own_revision(&other, "mine"), None);
        }
    }

    #[test]
    fn what_each_reply_to_a_release_means() {
        let revision = |reply| ended(&after_marker(reply, NatsRelease::Revision));
        assert_eq!(revision(Reply::Answer(Some(8))), r#"ok {"removed":true}"#);
        assert_eq!(revision(Reply::Answer(None)), "fail not-held");
        assert_eq!(revision(Reply::Refused(why())), "fail timeout");
        assert_eq!(revision(Reply::Unsent(why())), "fail timeout");
        assert_eq!(revision(Reply::Unknown(why())), "info timeout");
        let any = ended(&after_marker(Reply::Answer(Some(8)), NatsRelease::Any));
        assert!(any.starts_with("ok") && !any.contains("true"), "{any}");
    }

    #[test]
    fn what_each_reply_to_a_renewal_means() {
        for over in [false, true] {
            assert_eq!(after_renewal(Reply::Answer(Some(8)), over), Ok(Some(8)));
            assert_eq!(after_renewal(Reply::Answer(None), over), Ok(None), "it is looked at");
        }
        for reply in [Reply::Refused(why()), Reply::Unsent(why()), Reply::Unknown(why())] {
            assert_eq!(after_renewal(reply.clone(), false), Err(RenewalOutcome::Again));
            let lost = RenewalOutcome::Lost("it was not renewed for a whole TTL; timeout: n1".to_owned());
            assert_eq!(after_renewal(reply, true), Err(lost));
        }
    }
}
