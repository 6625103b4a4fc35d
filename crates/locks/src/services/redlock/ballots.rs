//! What the answers of the nodes mean for an acquire or a release: counting them, and what follows from that.

use crate::reply::Reply;
use fencepost_history::{Completion, ErrorCode, OperationError};
use serde_json::Value;

pub(super) type Ballot = (usize, Reply<bool>);

#[derive(Default)]
pub(super) struct Votes {
    pub(super) granted: Vec<usize>,
    pub(super) taken: usize,
    pub(super) unsent: usize,
    /// Those that were asked, and refused or did not answer.
    pub(super) failed: usize,
    /// What one of those that were not asked, refused or did not answer said.
    pub(super) why: Option<OperationError>,
}

impl Votes {
    pub(super) fn count(&mut self, (place, reply): Ballot) {
        match reply {
            Reply::Answer(true) => self.granted.push(place),
            Reply::Answer(false) => self.taken += 1,
            Reply::Unsent(why) => {
                self.unsent += 1;
                self.why = Some(why);
            }
            Reply::Refused(why) | Reply::Unknown(why) => {
                self.failed += 1;
                self.why = Some(why);
            }
        }
    }

    /// Whether the votes still out cannot change who has a majority.
    pub(super) fn decided(&self, nodes: usize) -> bool {
        let majority = nodes / 2 + 1;
        self.granted.len() >= majority || self.taken + self.unsent + self.failed > nodes - majority
    }

    /// Whether these votes are a lock: a majority, and in time, after everything that was asked so far. The
    /// error is why they are none. A client without both does not hold the lock, by the algorithm, whatever
    /// became of SETs that were not answered: those keys go with their TTL.
    pub(super) fn grant(&self, nodes: usize, in_time: bool) -> Result<(), OperationError> {
        if self.granted.len() < nodes / 2 + 1 {
            return Err(self.why_no_majority(nodes));
        }
        if !in_time {
            let late = "a majority granted it, but asking took longer than the validity";
            return Err(ErrorCode::Expired.error(late));
        }
        Ok(())
    }

    /// Why these votes are no majority: *taken* only by a server's word that it holds another's value.
    fn why_no_majority(&self, nodes: usize) -> OperationError {
        let granted = self.granted.len();
        let silent = ErrorCode::Timeout.error("too few servers answered");
        match &self.why {
            Some(why) if self.unsent == nodes => {
                ErrorCode::Unreachable.error(format_args!("none of {nodes} could be asked; {}", why.detail()))
            }
            why if self.taken == 0 => {
                let why = why.as_ref().unwrap_or(&silent);
                ErrorCode::NoMajority.error(format_args!("{granted} of {nodes} granted it; {why}"))
            }
            Some(why) => ErrorCode::Taken
                .error(format_args!("{granted} of {nodes} granted it, {} held another's; {why}", self.taken)),
            None => ErrorCode::Taken
                .error(format_args!("{granted} of {nodes} granted it, {} held another's", self.taken)),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct BallotTally {
    deleted: usize,
    absent: usize,
    unknown: usize,
    /// Not executed, or not sent: these nodes keep the key until its TTL ends.
    untouched: usize,
    why: Option<OperationError>,
}

impl BallotTally {
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
    use crate::testing::ended;

    #[test]
    fn votes_are_decided_by_a_majority_either_way() {
        let votes = |granted: usize, taken, unsent, failed| {
            Votes { granted: (0..granted).collect(), taken, unsent, failed, why: None }.decided(5)
        };
        assert!(votes(3, 0, 0, 0));
        assert!(!votes(2, 2, 0, 0));
        assert!(votes(2, 2, 0, 1));
        assert!(votes(2, 2, 1, 0));
        assert!(votes(0, 3, 0, 0));
    }

    #[test]
    fn a_lock_that_no_server_holds_is_not_called_taken() {
        let why = |replies: Vec<Reply<bool>>| {
            let mut votes = Votes::default();
            replies.into_iter().enumerate().for_each(|ballot| votes.count(ballot));
            votes.grant(5, true).unwrap_err().to_string()
        };
        let unsent = || Reply::Unsent(ErrorCode::Unreachable.error("no connection to n5"));
        let unknown = || Reply::Unknown(ErrorCode::Timeout.error("n1 did not answer in time"));
        let (yes, no) = (|| Reply::Answer(true), || Reply::Answer(false));
        assert_eq!(
            why((0..5).map(|_| unsent()).collect()),
            "unreachable: none of 5 could be asked; no connection to n5"
        );
        assert_eq!(
            why(vec![unknown(), unsent(), unsent(), unsent(), unsent()]),
            "no-majority: 0 of 5 granted it; unreachable: no connection to n5",
            "the request may have reached n1"
        );
        // Answers that are still out at the deadline are not counted at all.
        assert_eq!(why(vec![]), "no-majority: 0 of 5 granted it; timeout: too few servers answered");
        assert_eq!(
            why(vec![yes(), yes()]),
            "no-majority: 2 of 5 granted it; timeout: too few servers answered"
        );
        assert_eq!(why(vec![yes(), yes(), no(), no(), no()]), "taken: 2 of 5 granted it, 3 held another's");
        assert_eq!(
            why(vec![no(), unknown()]),
            "taken: 0 of 5 granted it, 1 held another's; timeout: n1 did not answer in time"
        );
    }

    #[test]
    fn a_majority_is_a_lock_if_it_was_in_time() {
        let votes = |granted: usize| Votes { granted: (0..granted).collect(), ..Votes::default() };
        for (granted, in_time, expected) in [
            (5, true, "ok"),
            (3, true, "ok"),
            (3, false, "expired"),
            (2, true, "no-majority"),
            (2, false, "no-majority"),
        ] {
            let said = votes(granted)
                .grant(5, in_time)
                .map_or_else(|why| why.code_name().to_owned(), |()| "ok".to_owned());
            assert_eq!(said, expected, "{granted} of 5, in time: {in_time}");
        }
        assert_eq!(votes(2).grant(3, true), Ok(()));
        assert!(votes(2).grant(4, true).is_err());
    }

    /// Each row: deleted, absent, unknown, untouched, of five; what is known before all have answered; what
    /// is at the end.
    #[test]
    fn what_the_answers_to_a_release_mean() {
        let (open, ok) = ("-", "ok null");
        for (counts, before, at_last) in [
            ([5, 0, 0, 0], ok, ok),
            ([3, 0, 0, 0], ok, ok),
            ([3, 2, 0, 0], ok, ok),
            // Two of the four that are left at most hold it: no client is kept out.
            ([2, 2, 1, 0], open, ok),
            ([2, 1, 2, 0], open, ok),
            ([1, 2, 0, 2], open, ok),
            // A majority had lost it before.
            ([0, 3, 0, 0], "fail not-held", "fail not-held"),
            ([2, 3, 0, 0], "fail not-held", "fail not-held"),
            ([0, 3, 2, 0], "fail not-held", "fail not-held"),
            // A majority may hold it still, or not.
            ([2, 0, 0, 0], open, "info timeout"),
            ([2, 0, 3, 0], open, "info timeout"),
            ([0, 2, 0, 3], open, "info timeout"),
            ([1, 0, 0, 4], open, "info timeout"),
            ([0, 0, 1, 4], open, "info timeout"),
            ([0, 0, 0, 4], open, "info timeout"),
            ([0, 0, 0, 0], open, "info timeout"),
            // It was executed nowhere.
            ([0, 0, 0, 5], open, "fail timeout"),
        ] {
            let [deleted, absent, unknown, untouched] = counts;
            let why = Some(ErrorCode::Timeout.error("n1"));
            let tally = BallotTally { deleted, absent, unknown, untouched, why };
            let known = tally.verdict(5).map_or(open.to_owned(), |completion| ended(&completion));
            assert_eq!(known, before, "{counts:?}");
            assert_eq!(ended(&tally.completion(5)), at_last, "{counts:?}");
        }
    }

    /// However the nodes that did not answer stand: `ok` leaves no majority, and `fail` deleted from no
    /// majority of holders.
    #[test]
    fn a_release_says_no_more_than_its_answers_show() {
        let replies = || {
            let why = || ErrorCode::Timeout.error("n1");
            [
                Some(Reply::Answer(true)),
                Some(Reply::Answer(false)),
                Some(Reply::Unsent(why())),
                Some(Reply::Refused(why())),
                Some(Reply::Unknown(why())),
                None,
            ]
        };
        for code in 0..6_usize.pow(5) {
            let of_node = |node: u32| code / 6_usize.pow(node) % 6;
            let mut tally = BallotTally::default();
            (0..5).filter_map(|node| replies()[of_node(node)].clone()).for_each(|reply| tally.count(reply));
            let (gone, deleted) =
                ((0..5).filter(|node| of_node(*node) < 2), (0..5).filter(|node| of_node(*node) == 0));
            let absent = (0..5).filter(|node| of_node(*node) == 1).count();
            let executed = deleted.count() > 0 || (0..5).any(|node| of_node(node) > 3);
            match tally.completion(5) {
                Completion::Ok(_) => assert!(5 - gone.count() < 3, "{tally:?}"),
                Completion::Fail(_) => assert!(absent >= 3 || !executed, "{tally:?}"),
                Completion::Info(_) => assert!(absent < 3, "{tally:?}"),
            }
        }
    }
}
