//! `token-racy`: the check of `token`, but the write is a second step: another request may come in between.
//! Source: the remark of reza_n in the Hacker News thread on Martin Kleppmann's article (2016): a fencing
//! token helps only where the storage compares it and writes in one step.

use super::guard::Guard;
use super::token::TOKEN;

pub(super) const TOKEN_RACY: Guard = Guard {
    name: "token-racy",
    about: "checks as token does, but writes in a second step: another write may come in between",
    source: "reza_n, in the Hacker News thread on Kleppmann's article (2016)",
    in_two_steps: true,
    ..TOKEN
};

#[cfg(test)]
mod tests {
    use super::super::guard::Record;
    use super::super::guard::literal::{token, write};
    use super::*;

    #[test]
    fn refuses_what_token_refuses_and_says_that_it_is_racy() {
        let mut record = Record::default();
        assert_eq!(TOKEN_RACY.admit(&mut record, &write(token(35))), Ok(()));
        assert!(TOKEN_RACY.admit(&mut record, &write(token(33))).is_err());
        assert!(TOKEN_RACY.in_two_steps && !TOKEN.in_two_steps);
    }
}
