//! `none`: the storage trusts the lock.

use super::{Guard, Record, Write};

pub(super) struct NoGuard;

impl Guard for NoGuard {
    fn name(&self) -> &'static str {
        "none"
    }

    fn about(&self) -> &'static str {
        "accepts every write"
    }

    fn needs_token(&self) -> bool {
        false
    }

    fn admit(&self, _record: &mut Record, _write: &Write) -> Result<(), String> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_everything() {
        let mut record = Record { value: 7, token_max: Some(35) };
        assert_eq!(NoGuard.admit(&mut record, &Write { value: 8, token: Some(33) }), Ok(()));
        assert_eq!(NoGuard.admit(&mut record, &Write { value: 8, token: None }), Ok(()));
    }
}
