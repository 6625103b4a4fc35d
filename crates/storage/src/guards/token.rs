//! `token`: rejects a fencing token lower than the highest seen for the key, in one step with the write.
//!
//! Source: Martin Kleppmann, "How to do distributed locking" (2016), "Making the lock safe with fencing".
//! Reads advance the token, too: a holder that writes back what it read is protected from the moment of its
//! read. If only writes did, a late write of the old holder could slip in between, and would be overwritten.

use super::guard::{Guard, Need, Record, Rejection, Write};
use super::none::NONE;

pub(super) const TOKEN: Guard = Guard {
    name: "token",
    about: "rejects a write whose fencing token is lower than the highest seen, in one step with the write",
    source: "Martin Kleppmann, \"How to do distributed locking\" (2016)",
    needs: Need::Token,
    admits,
    on_read: |record, credentials| record.token_max = record.token_max.max(credentials.token),
    ..NONE
};

fn admits(record: &mut Record, write: &Write) -> Result<(), Rejection> {
    let Some(token) = write.credentials.token else {
        return Err(Rejection::new("no-token", "this storage takes only writes with a fencing token"));
    };
    match record.token_max {
        Some(highest) if token < highest => {
            Err(Rejection::new("stale-token", format_args!("{token} < {highest}")))
        }
        // An equal token is the same holder, which may write more than once.
        _ => {
            record.token_max = Some(token);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::Credentials;
    use super::super::guard::literal::{token, write};
    use super::*;

    #[test]
    fn a_read_shuts_older_holders_out() {
        let mut record = Record::default();
        for credentials in [token(35), token(33), Credentials::default()] {
            TOKEN.saw_read(&mut record, &credentials);
        }
        assert!(TOKEN.admit(&mut record, &write(token(33))).is_err());
        assert!(TOKEN.admit(&mut record, &write(token(35))).is_ok());
    }

    #[test]
    fn accepts_tokens_that_do_not_fall() {
        let mut record = Record::default();
        for each in [33, 33, 35] {
            assert_eq!(TOKEN.admit(&mut record, &write(token(each))), Ok(()));
        }
    }

    #[test]
    fn rejects_a_stale_token_and_a_missing_one() {
        let mut record = Record { token_max: Some(35), ..Record::default() };
        let before = record.clone();
        assert_eq!(
            TOKEN.admit(&mut record, &write(token(33))),
            Err(Rejection::new("stale-token", "33 < 35"))
        );
        let missing = TOKEN.admit(&mut record, &write(Credentials::default()));
        assert!(missing.is_err_and(|why| why.code() == "no-token"));
        assert_eq!(record, before);
    }
}
