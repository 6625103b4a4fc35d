//! `unique-racy`: the check of `unique`, but the write is a second step: another request may come in between.
//! Source: the remark of viraptor in the Hacker News thread on antirez' article (2016).

use super::guard::Guard;
use super::unique::UNIQUE;

pub(super) const UNIQUE_RACY: Guard = Guard {
    name: "unique-racy",
    about: "checks as unique does, but writes in a second step: another mark and write may come in between",
    source: "viraptor, in the Hacker News thread on antirez' article (2016)",
    in_two_steps: true,
    ..UNIQUE
};

#[cfg(test)]
mod tests {
    use super::super::guard::Record;
    use super::super::guard::literal::{unique, write};
    use super::*;

    #[test]
    fn refuses_what_unique_refuses_and_says_that_it_is_racy() {
        let mut record = Record::default();
        assert_eq!(UNIQUE_RACY.mark(&mut record, &unique("b")), Ok(()));
        assert_eq!(UNIQUE_RACY.admit(&mut record, &write(unique("b"))), Ok(()));
        assert!(UNIQUE_RACY.admit(&mut record, &write(unique("a"))).is_err());
        assert!(UNIQUE_RACY.in_two_steps && !UNIQUE.in_two_steps);
    }
}
