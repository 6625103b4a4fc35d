//! `epoch-quorum-unmarked`: the three replicas of `epoch-quorum`, without the mark. A replica learns of an
//! epoch by its first write only. Until then a superseded holder can still write, and the later holder, which
//! had read before, overwrites that update: Flavio Junqueira's note (2016) warns of this.

use super::epoch_quorum::advance;
use super::guard::{Guard, Need, Record, Rejection, Write};

pub(super) struct EpochQuorumUnmarked;

impl Guard for EpochQuorumUnmarked {
    fn name(&self) -> &'static str {
        "epoch-quorum-unmarked"
    }

    fn about(&self) -> &'static str {
        "three replicas as with epoch-quorum, without the mark: an earlier holder can write until a later one has written"
    }

    fn source(&self) -> &'static str {
        "what Flavio Junqueira's note (2016) warns of"
    }

    fn needs(&self) -> Need {
        Need::Token
    }

    fn replicas(&self) -> usize {
        3
    }

    fn admit(&self, record: &mut Record, write: &Write) -> Result<(), Rejection> {
        advance(record, &write.credentials)
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::literal::{token, write};
    use super::*;

    #[test]
    fn lets_an_earlier_epoch_in_until_a_later_one_has_written() {
        let mut record = Record::default();
        // The later holder has read by now.
        EpochQuorumUnmarked.saw_read(&mut record, &token(35));
        assert_eq!(EpochQuorumUnmarked.admit(&mut record, &write(token(33))), Ok(()));
        assert_eq!(EpochQuorumUnmarked.admit(&mut record, &write(token(35))), Ok(()));
        assert!(EpochQuorumUnmarked.admit(&mut record, &write(token(33))).is_err());
        assert!(EpochQuorumUnmarked.mark(&mut record, &token(35)).is_err(), "there are no marks");
    }
}
