//! `token-racy`: the check of `token`, but the write is a second step: another request may come in between.
//! Source: the remark of reza_n in the Hacker News thread on Martin Kleppmann's article (2016): a fencing
//! token helps only where the storage compares it and writes in one step.

use super::guard::{Credentials, Guard, Need, Record, Rejection, Write};
use super::token::Token;

pub(super) struct TokenRacy;

impl Guard for TokenRacy {
    fn name(&self) -> &'static str {
        "token-racy"
    }

    fn about(&self) -> &'static str {
        "checks as token does, but writes in a second step: another write may come in between"
    }

    fn source(&self) -> &'static str {
        "reza_n, in the Hacker News thread on Kleppmann's article (2016)"
    }

    fn needs(&self) -> Need {
        Need::Token
    }

    fn in_two_steps(&self) -> bool {
        true
    }

    fn admit(&self, record: &mut Record, write: &Write) -> Result<(), Rejection> {
        Token.admit(record, write)
    }

    fn saw_read(&self, record: &mut Record, credentials: &Credentials) {
        Token.saw_read(record, credentials);
    }
}

#[cfg(test)]
mod tests {
    use super::super::guard::literal::{token, write};
    use super::*;

    #[test]
    fn refuses_what_token_refuses_and_says_that_it_is_racy() {
        let mut record = Record::default();
        assert_eq!(TokenRacy.admit(&mut record, &write(token(35))), Ok(()));
        assert!(TokenRacy.admit(&mut record, &write(token(33))).is_err());
        assert!(TokenRacy.in_two_steps() && !Token.in_two_steps());
    }
}
