//! `epoch-quorum`: three replicas; each holder marks its epoch on a majority before anything else. Source:
//! Flavio Junqueira, "Note on fencing and distributed locks" (2016). The epoch is the fencing token. A
//! replica refuses every mark and write of an epoch lower than the highest it has seen. Two majorities have a
//! replica in common, so a holder that marked a majority shuts all earlier ones out before it reads.

use super::guard::{Credentials, Guard, Need, Record, Rejection, Write};

pub(super) struct EpochQuorum;

impl Guard for EpochQuorum {
    fn name(&self) -> &'static str {
        "epoch-quorum"
    }

    fn about(&self) -> &'static str {
        "three replicas: a holder marks its token on a majority, then reads and writes there; lower tokens are refused"
    }

    fn source(&self) -> &'static str {
        "Flavio Junqueira, \"Note on fencing and distributed locks\" (2016)"
    }

    fn needs(&self) -> Need {
        Need::Token
    }

    fn replicas(&self) -> usize {
        3
    }

    fn marks_first(&self) -> bool {
        true
    }

    fn admit(&self, record: &mut Record, write: &Write) -> Result<(), Rejection> {
        advance(record, &write.credentials)
    }

    fn mark(&self, record: &mut Record, credentials: &Credentials) -> Result<(), Rejection> {
        advance(record, credentials)
    }
}

pub(super) fn advance(record: &mut Record, credentials: &Credentials) -> Result<(), Rejection> {
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
            assert_eq!(EpochQuorum.mark(&mut record, &token(epoch)), Ok(()));
            assert_eq!(EpochQuorum.admit(&mut record, &write(token(epoch))), Ok(()));
        }
    }

    #[test]
    fn a_mark_shuts_earlier_epochs_out_before_anything_is_written() {
        let mut record = Record::default();
        assert_eq!(EpochQuorum.mark(&mut record, &token(35)), Ok(()));
        let stale = Rejection::new("stale-epoch", "33 < 35");
        assert_eq!(EpochQuorum.admit(&mut record, &write(token(33))), Err(stale.clone()));
        assert_eq!(EpochQuorum.mark(&mut record, &token(33)), Err(stale));
        assert!(EpochQuorum.admit(&mut record, &write(Credentials::default())).is_err());
    }
}
