//! `sequencer`: the storage asks the lock service, at each write, whether the lock is still held. Source:
//! Mike Burrows, "The Chubby lock service for loosely-coupled distributed systems" (OSDI 2006), section 2.4.
//! It asks before the write, so a lock that is lost in between lets one more write in.

use super::guard::{Guard, Need, Rejection};
use super::none::NONE;

pub(super) const SEQUENCER: Guard = Guard {
    name: "sequencer",
    about: "asks the lock service before each write whether the writer's sequencer is still valid",
    source: "Mike Burrows, \"The Chubby lock service\" (2006)",
    needs: Need::Sequencer,
    // The storage has checked the sequencer with the lock service before.
    admits: |_, write| match &write.credentials.sequencer {
        Some(_) => Ok(()),
        None => Err(Rejection::new("no-sequencer", "this storage takes only writes with a sequencer")),
    },
    ..NONE
};

#[cfg(test)]
mod tests {
    use super::super::guard::literal::write;
    use super::super::guard::{Credentials, Record};
    use super::*;

    #[test]
    fn takes_a_sequencer_and_refuses_to_do_without() {
        let mut record = Record::default();
        let credentials =
            Credentials { sequencer: Some("a:exclusive:33".to_owned()), ..Credentials::default() };
        assert_eq!(SEQUENCER.admit(&mut record, &write(credentials)), Ok(()));
        let without = SEQUENCER.admit(&mut record, &write(Credentials::default()));
        assert!(without.is_err_and(|why| why.code() == "no-sequencer"));
    }
}
