//! Counting what the nodes answered, and what follows from it.

use crate::redis::node::Reply;
use fencepost_history::{Completion, ErrorCode, OperationError};
use serde_json::Value;

/// A node by its place in the list, and what it answered.
pub(super) type Ballot = (usize, Reply<bool>);

/// How the nodes answered an acquire.
#[derive(Default)]
pub(super) struct Votes {
    /// The places of those that granted it.
    pub(super) granted: Vec<usize>,
    pub(super) taken: usize,
    pub(super) failed: usize,
    /// What one of those that failed said.
    pub(super) why: Option<OperationError>,
}

impl Votes {
    pub(super) fn count(&mut self, (place, reply): Ballot) {
        match reply {
            Reply::Answer(true) => self.granted.push(place),
            Reply::Answer(false) => self.taken += 1,
            Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => {
                self.failed += 1;
                self.why = Some(why);
            }
        }
    }

    /// Whether the votes still out cannot change who has a majority.
    pub(super) fn decided(&self, nodes: usize) -> bool {
        let majority = nodes / 2 + 1;
        self.granted.len() >= majority || self.taken + self.failed > nodes - majority
    }
}

/// How the nodes answered a release.
#[derive(Default)]
pub(super) struct Tally {
    deleted: usize,
    absent: usize,
    /// Sent, and not answered.
    unknown: usize,
    /// Not executed, or not sent: these nodes keep the key until its TTL ends.
    untouched: usize,
    why: Option<OperationError>,
}

impl Tally {
    pub(super) fn count(&mut self, reply: Reply<bool>) {
        match reply {
            Reply::Answer(true) => self.deleted += 1,
            Reply::Answer(false) => self.absent += 1,
            Reply::Refused(why) | Reply::Unsent(why) => {
                self.untouched += 1;
                self.why = Some(why);
            }
            Reply::Unknown(why) => {
                self.unknown += 1;
                self.why = Some(why);
            }
        }
    }

    /// The outcome, as soon as the answers still out cannot change it.
    pub(super) fn verdict(&self, nodes: usize) -> Option<Completion> {
        let majority = nodes / 2 + 1;
        // A majority did not have the key: this process no longer held the lock when it released.
        if self.absent >= majority {
            return Some(Completion::fail(
                ErrorCode::NotHeld,
                format!("{} of {nodes} no longer had this process's lock", self.absent),
            ));
        }
        // The key is gone from so many that the rest is no majority: it keeps no client out any more.
        let out = nodes - self.deleted - self.absent;
        (out < majority && self.absent + out < majority).then_some(Completion::Ok(Value::Null))
    }

    /// The outcome when no more answers come.
    pub(super) fn completion(&self, nodes: usize) -> Completion {
        if let Some(verdict) = self.verdict(nodes) {
            return verdict;
        }
        let majority = nodes / 2 + 1;
        if self.deleted + self.absent >= majority {
            // As above; whether it was still held cannot be known any more, and does not matter to anybody.
            return Completion::Ok(Value::Null);
        }
        let why = self.why.clone().unwrap_or_else(|| ErrorCode::Timeout.error("too few nodes answered"));
        if self.deleted == 0 && self.unknown == 0 && self.untouched == nodes {
            // Nothing was executed anywhere: it certainly did not happen.
            return Completion::Fail(why);
        }
        // A majority may still hold the key, or not: unknown.
        Completion::Info(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(deleted: usize, absent: usize, unknown: usize, untouched: usize) -> Tally {
        Tally { deleted, absent, unknown, untouched, why: Some(ErrorCode::Timeout.error("n1")) }
    }

    #[test]
    fn votes_are_decided_by_a_majority_either_way() {
        let votes = |granted: usize, taken, failed| {
            Votes { granted: (0..granted).collect(), taken, failed, why: None }.decided(5)
        };
        assert!(votes(3, 0, 0));
        assert!(!votes(2, 2, 0));
        assert!(votes(2, 2, 1));
        assert!(votes(0, 3, 0));
    }

    #[test]
    fn a_release_is_ok_once_no_majority_can_have_it() {
        assert_eq!(tally(3, 0, 0, 0).verdict(5), Some(Completion::Ok(Value::Null)));
        assert_eq!(tally(3, 2, 0, 0).completion(5), Completion::Ok(Value::Null));
        assert_eq!(tally(2, 1, 0, 0).verdict(5), None, "the two still out may say absent");
        assert_eq!(tally(2, 2, 1, 0).completion(5), Completion::Ok(Value::Null));
    }

    #[test]
    fn a_release_of_what_a_majority_lost_fails() {
        assert!(
            matches!(tally(2, 3, 0, 0).completion(5), Completion::Fail(why) if why.starts_with("not-held"))
        );
    }

    #[test]
    fn a_release_without_enough_answers_is_indeterminate() {
        assert!(matches!(tally(2, 0, 3, 0).completion(5), Completion::Info(_)));
        assert!(matches!(tally(0, 0, 0, 5).completion(5), Completion::Fail(_)), "nothing was sent");
    }
}
