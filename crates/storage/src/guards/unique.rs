//! `unique`: check-and-set on a value that no other grant has. Source: antirez, "Is Redlock safe?" (2016): a
//! holder sets the resource to its unique value, works, and writes only if that still stands. They have no
//! order: an old holder can mark again and write late, but overwrites only what it has seen.

use super::guard::{Guard, Need, Record, Rejection, Write};
use super::none::NONE;

pub(super) const UNIQUE: Guard = Guard {
    name: "unique",
    about: "a holder marks the storage with its unique value; accepts a write only while that mark is there, in one step",
    source: "antirez, \"Is Redlock safe?\" (2016)",
    needs: Need::UniqueValue,
    admits,
    marks: Some(|record, credentials| {
        record.marked_by = Some(credentials.unique.clone().ok_or_else(missing)?);
        Ok(())
    }),
    ..NONE
};

fn admits(record: &mut Record, write: &Write) -> Result<(), Rejection> {
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

fn missing() -> Rejection {
    Rejection::new("no-unique", "this storage takes only writes with the unique value of their lock")
}

#[cfg(test)]
mod tests {
    use super::super::guard::Credentials;
    use super::super::guard::literal::{unique, write};
    use super::*;

    #[test]
    fn accepts_writes_while_the_mark_is_there() {
        let mut record = Record::default();
        assert_eq!(UNIQUE.mark(&mut record, &unique("a")), Ok(()));
        assert_eq!(UNIQUE.admit(&mut record, &write(unique("a"))), Ok(()));
        assert_eq!(UNIQUE.admit(&mut record, &write(unique("a"))), Ok(()), "as often as it likes");
    }

    #[test]
    fn rejects_a_holder_whose_mark_was_replaced() {
        let mut record = Record::default();
        assert!(UNIQUE.admit(&mut record, &write(unique("a"))).is_err_and(|why| why.code() == "no-mark"));
        for holder in ["a", "b"] {
            assert_eq!(UNIQUE.mark(&mut record, &unique(holder)), Ok(()));
        }
        let stale = UNIQUE.admit(&mut record, &write(unique("a")));
        assert!(stale.is_err_and(|why| why.code() == "stale-unique"));
        assert_eq!(UNIQUE.admit(&mut record, &write(unique("b"))), Ok(()));
        assert!(UNIQUE.admit(&mut record, &write(Credentials::default())).is_err());
        assert!(UNIQUE.mark(&mut record, &Credentials::default()).is_err());
    }

    #[test]
    fn keeps_no_order_an_old_holder_that_marks_again_is_let_in() {
        let mut record = Record::default();
        for holder in ["old", "new", "old"] {
            assert_eq!(UNIQUE.mark(&mut record, &unique(holder)), Ok(()));
        }
        assert_eq!(UNIQUE.admit(&mut record, &write(unique("old"))), Ok(()));
        assert!(UNIQUE.admit(&mut record, &write(unique("new"))).is_err());
    }
}
