//! `none`: the storage trusts the lock.

use super::guard::{Guard, Need, Record, Rejection, Write};

pub(super) struct NoGuard;

impl Guard for NoGuard {
    fn name(&self) -> &'static str {
        "none"
    }

    fn about(&self) -> &'static str {
        "accepts every write"
    }

    fn source(&self) -> &'static str {
        "the storages of most programs"
    }

    fn needs(&self) -> Need {
        Need::Nothing
    }

    fn admit(&self, _record: &mut Record, _write: &Write) -> Result<(), Rejection> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::Credentials;
    use super::super::guard::literal::{token, write};
    use super::*;

    #[test]
    fn accepts_everything() {
        let mut record = Record { token_max: Some(35), ..Record::default() };
        assert_eq!(NoGuard.admit(&mut record, &write(token(33))), Ok(()));
        assert_eq!(NoGuard.admit(&mut record, &write(Credentials::default())), Ok(()));
    }
}
