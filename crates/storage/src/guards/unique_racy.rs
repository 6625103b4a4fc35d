//! `unique-racy`: the check of `unique`, but the write is a second step: another request may come in between.
//! Source: the remark of viraptor in the Hacker News thread on antirez' article (2016).

use super::guard::{Credentials, Guard, Need, Record, Rejection, Write};
use super::unique::Unique;

pub(super) struct UniqueRacy;

impl Guard for UniqueRacy {
    fn name(&self) -> &'static str {
        "unique-racy"
    }

    fn about(&self) -> &'static str {
        "checks as unique does, but writes in a second step: another mark and write may come in between"
    }

    fn source(&self) -> &'static str {
        "viraptor, in the Hacker News thread on antirez' article (2016)"
    }

    fn needs(&self) -> Need {
        Need::UniqueValue
    }

    fn marks_first(&self) -> bool {
        true
    }

    fn in_two_steps(&self) -> bool {
        true
    }

    fn admit(&self, record: &mut Record, write: &Write) -> Result<(), Rejection> {
        Unique.admit(record, write)
    }

    fn mark(&self, record: &mut Record, credentials: &Credentials) -> Result<(), Rejection> {
        Unique.mark(record, credentials)
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::literal::{unique, write};
    use super::*;

    #[test]
    fn refuses_what_unique_refuses_and_says_that_it_is_racy() {
        let mut record = Record::default();
        assert_eq!(UniqueRacy.mark(&mut record, &unique("b")), Ok(()));
        assert_eq!(UniqueRacy.admit(&mut record, &write(unique("b"))), Ok(()));
        assert!(UniqueRacy.admit(&mut record, &write(unique("a"))).is_err());
        assert!(UniqueRacy.in_two_steps() && !Unique.in_two_steps());
    }
}
