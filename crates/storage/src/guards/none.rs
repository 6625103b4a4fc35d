//! `none`: the storage trusts the lock.

use super::guard::{Guard, Need};

pub(super) const NONE: Guard = Guard {
    name: "none",
    about: "accepts every write",
    source: "the storages of most programs",
    needs: Need::Nothing,
    replicas: 1,
    in_two_steps: false,
    admits: |_, _| Ok(()),
    on_read: |_, _| {},
    marks: None,
};

#[cfg(test)]
mod tests {
    use super::super::guard::literal::{token, write};
    use super::super::guard::{Credentials, Record};
    use super::*;

    #[test]
    fn accepts_everything() {
        let mut record = Record { token_max: Some(35), ..Record::default() };
        assert_eq!(NONE.admit(&mut record, &write(token(33))), Ok(()));
        assert_eq!(NONE.admit(&mut record, &write(Credentials::default())), Ok(()));
    }
}
