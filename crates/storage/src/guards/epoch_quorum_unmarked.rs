//! `epoch-quorum-unmarked`: the three replicas of `epoch-quorum`, without the mark. A replica learns of an
//! epoch by its first write only. Until then a superseded holder can still write, and the later holder, which
//! had read before, overwrites that update: Flavio Junqueira's note (2016) warns of this.

use super::epoch_quorum::EPOCH_QUORUM;
use super::guard::Guard;

pub(super) const EPOCH_QUORUM_UNMARKED: Guard = Guard {
    name: "epoch-quorum-unmarked",
    about: "three replicas as with epoch-quorum, without the mark: an earlier holder can write until a later one has written",
    source: "what Flavio Junqueira's note (2016) warns of",
    marks: None,
    ..EPOCH_QUORUM
};

#[cfg(test)]
mod tests {
    use super::super::guard::Record;
    use super::super::guard::literal::{token, write};
    use super::*;

    #[test]
    fn lets_an_earlier_epoch_in_until_a_later_one_has_written() {
        let mut record = Record::default();
        // The later holder has read by now.
        EPOCH_QUORUM_UNMARKED.saw_read(&mut record, &token(35));
        assert_eq!(EPOCH_QUORUM_UNMARKED.admit(&mut record, &write(token(33))), Ok(()));
        assert_eq!(EPOCH_QUORUM_UNMARKED.admit(&mut record, &write(token(35))), Ok(()));
        assert!(EPOCH_QUORUM_UNMARKED.admit(&mut record, &write(token(33))).is_err());
        assert!(EPOCH_QUORUM_UNMARKED.mark(&mut record, &token(35)).is_err(), "there are no marks");
    }
}
