//! `unique`: check-and-set on a value that no other grant has. Source: antirez, "Is Redlock safe?" (2016): a
//! holder first sets the resource's state to its unique value, works, and writes only if that value is still
//! there. Unique values have no order: an old holder that marks the storage again can write after a later
//! one. It cannot overwrite an update that it has not seen.

use super::guard::{Credentials, Guard, Need, Record, Rejection, Write};

pub(super) struct Unique;

impl Guard for Unique {
    fn name(&self) -> &'static str {
        "unique"
    }

    fn about(&self) -> &'static str {
        "a holder marks the storage with its unique value; accepts a write only while that mark is there, in one step"
    }

    fn source(&self) -> &'static str {
        "antirez, \"Is Redlock safe?\" (2016)"
    }

    fn needs(&self) -> Need {
        Need::UniqueValue
    }

    fn marks_first(&self) -> bool {
        true
    }

    fn admit(&self, record: &mut Record, write: &Write) -> Result<(), Rejection> {
        let Some(unique) = &write.credentials.unique else { return Err(missing()) };
        match &record.marked_by {
            Some(mark) if mark == unique => Ok(()),
            Some(mark) => Err(Rejection::new(
                "stale-unique",
                format_args!("the storage is marked by {mark}, not by {unique}"),
            )),
            None => Err(Rejection::new("no-mark", "the storage is not marked yet")),
        }
    }

    fn mark(&self, record: &mut Record, credentials: &Credentials) -> Result<(), Rejection> {
        record.marked_by = Some(credentials.unique.clone().ok_or_else(missing)?);
        Ok(())
    }
}

fn missing() -> Rejection {
    Rejection::new("no-unique", "this storage takes only writes with the unique value of their lock")
}

#[cfg(test)]
mod tests {
    use super::super::guard::literal::{unique, write};
    use super::*;

    #[test]
    fn accepts_writes_while_the_mark_is_there() {
        let mut record = Record::default();
        assert_eq!(Unique.mark(&mut record, &unique("a")), Ok(()));
        assert_eq!(Unique.admit(&mut record, &write(unique("a"))), Ok(()));
        assert_eq!(Unique.admit(&mut record, &write(unique("a"))), Ok(()), "as often as it likes");
    }

    #[test]
    fn rejects_a_holder_whose_mark_was_replaced() {
        let mut record = Record::default();
        assert!(Unique.admit(&mut record, &write(unique("a"))).is_err_and(|why| why.code() == "no-mark"));
        for holder in ["a", "b"] {
            assert_eq!(Unique.mark(&mut record, &unique(holder)), Ok(()));
        }
        let stale = Unique.admit(&mut record, &write(unique("a")));
        assert!(stale.is_err_and(|why| why.code() == "stale-unique"));
        assert_eq!(Unique.admit(&mut record, &write(unique("b"))), Ok(()));
        assert!(Unique.admit(&mut record, &write(Credentials::default())).is_err());
        assert!(Unique.mark(&mut record, &Credentials::default()).is_err());
    }

    #[test]
    fn keeps_no_order_an_old_holder_that_marks_again_is_let_in() {
        let mut record = Record::default();
        for holder in ["old", "new", "old"] {
            assert_eq!(Unique.mark(&mut record, &unique(holder)), Ok(()));
        }
        assert_eq!(Unique.admit(&mut record, &write(unique("old"))), Ok(()));
        assert!(Unique.admit(&mut record, &write(unique("new"))).is_err());
    }
}
