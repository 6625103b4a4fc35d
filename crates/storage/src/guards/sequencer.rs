//! `sequencer`: the storage asks the lock service, at each write, whether the lock is still held. Source:
//! Mike Burrows, "The Chubby lock service for loosely-coupled distributed systems" (OSDI 2006), section 2.4.
//! It asks before the write, so a lock that is lost in between lets one more write in.

use super::guard::{Guard, Need, Record, Rejection, Write};

pub(super) struct Sequencer;

impl Guard for Sequencer {
    fn name(&self) -> &'static str {
        "sequencer"
    }

    fn about(&self) -> &'static str {
        "asks the lock service before each write whether the writer's sequencer is still valid"
    }

    fn source(&self) -> &'static str {
        "Mike Burrows, \"The Chubby lock service\" (2006)"
    }

    fn needs(&self) -> Need {
        Need::Sequencer
    }

    /// The storage has checked the sequencer with the lock service before.
    fn admit(&self, _record: &mut Record, write: &Write) -> Result<(), Rejection> {
        match &write.credentials.sequencer {
            Some(_) => Ok(()),
            None => Err(Rejection::new("no-sequencer", "this storage takes only writes with a sequencer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::Credentials;
    use super::super::guard::literal::write;
    use super::*;

    #[test]
    fn takes_a_sequencer_and_refuses_to_do_without() {
        let mut record = Record::default();
        let credentials =
            Credentials { sequencer: Some("a:exclusive:33".to_owned()), ..Credentials::default() };
        assert_eq!(Sequencer.admit(&mut record, &write(credentials)), Ok(()));
        let without = Sequencer.admit(&mut record, &write(Credentials::default()));
        assert!(without.is_err_and(|why| why.code() == "no-sequencer"));
    }
}
