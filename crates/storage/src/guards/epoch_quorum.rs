//! `epoch-quorum`: three replicas; each holder marks its epoch on a majority before anything else. Source:
//! Flavio Junqueira, "Note on fencing and distributed locks" (2016). The epoch is the fencing token. A
//! replica refuses every mark and write of an epoch lower than the highest it has seen. Two majorities have a
//! replica in common, so a holder that marked a majority shuts all earlier ones out before it reads.

use super::guard::{Credentials, Guard, Need, Record, Rejection};
use super::none::NONE;

pub(super) const EPOCH_QUORUM: Guard = Guard {
    name: "epoch-quorum",
    about: "three replicas: a holder marks its token on a majority, then reads and writes there; lower tokens are refused",
    source: "Flavio Junqueira, \"Note on fencing and distributed locks\" (2016)",
    needs: Need::Token,
    replicas: 3,
    admits: |record, write| advance(record, &write.credentials),
    marks: Some(advance),
    ..NONE
};

fn advance(record: &mut Record, credentials: &Credentials) -> Result<(), Rejection> {
    let Some(epoch) = credentials.token else {
        return Err(Rejection::new("no-token", "these replicas take only writes with a fencing token"));
    };
    match record.token_max {
        Some(highest) if epoch < highest => {
            Err(Rejection::new("stale-epoch", format_args!("{epoch} < {highest}")))
        }
        _ => {
            record.token_max = Some(epoch);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::literal::{token, write};
    use super::*;

    #[test]
    fn accepts_the_epoch_that_marked_last() {
        let mut record = Record::default();
        for epoch in [33, 35] {
            assert_eq!(EPOCH_QUORUM.mark(&mut record, &token(epoch)), Ok(()));
            assert_eq!(EPOCH_QUORUM.admit(&mut record, &write(token(epoch))), Ok(()));
        }
    }

    #[test]
    fn a_mark_shuts_earlier_epochs_out_before_anything_is_written() {
        let mut record = Record::default();
        assert_eq!(EPOCH_QUORUM.mark(&mut record, &token(35)), Ok(()));
        let stale = Rejection::new("stale-epoch", "33 < 35");
        assert_eq!(EPOCH_QUORUM.admit(&mut record, &write(token(33))), Err(stale.clone()));
        assert_eq!(EPOCH_QUORUM.mark(&mut record, &token(33)), Err(stale));
        assert!(EPOCH_QUORUM.admit(&mut record, &write(Credentials::default())).is_err());
    }
}
