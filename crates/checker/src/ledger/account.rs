use super::interval::{Bound, Interval, Reason};
use crate::tracker::HoldEnd;

/// When a hold ends, which `ends` fills. Readers compare bounds, and each carries its reason.
#[derive(Debug)]
pub struct Ends {
    pub how: HoldEnd,
    /// When its process did, or the history stopped.
    pub let_go_ns: u64,
    /// Of a lock that was reported lost: when its process released or acquired the key again, or was over.
    pub(crate) given_back_ns: u64,
    /// The earliest moment from which its lease can count, where that is later than the request.
    pub(crate) counted: Option<Bound>,
    /// When its lease can have run out; none where its end is no matter of time, and of a session whose
    /// client reports neither validity nor renewals: when it was last prolonged is then unknown.
    pub lease: Option<Interval>,
    /// When its TTL is over, whichever of its renewals counted: from the answer, or from the last of them.
    pub(crate) over: Option<Bound>,
    /// From when on a fault may have ended the session or the connection of the grant, if one did.
    pub cut: Option<Bound>,
    /// When Fencepost gave up the section under it, so that its process releases nothing.
    pub abandoned_ns: Option<u64>,
    /// When the lock was taken from its process: claimed until the earliest moment, free after the latest.
    pub interval: Interval,
}

impl Ends {
    /// Of a grant that was answered now, of which nothing more is known.
    pub(crate) fn unknown(from_ns: u64) -> Ends {
        let open = Bound::new(u64::MAX, Reason::Open);
        Ends {
            how: HoldEnd::Open,
            let_go_ns: from_ns,
            given_back_ns: from_ns,
            counted: None,
            lease: None,
            over: None,
            cut: None,
            abandoned_ns: None,
            interval: Interval::new(open, open),
        }
    }

    pub(crate) fn count_from(&mut self, bound: Bound) {
        self.counted = Some(self.counted.map_or(bound, |counted| counted.or_later(bound)));
    }
}
