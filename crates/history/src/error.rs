use crate::name::Name;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// What an error code says of what went wrong. Each code has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The lock, the guard of the storage or a careful client said no: a result, and no error.
    No,
    /// The lock said no since too much time had passed: no majority in time, a lease that was over by then.
    TooLate,
    /// There was no answer: no connection, none in time, or the one asked was gone.
    Unanswered,
    /// Something answered that makes no sense, or was asked for what it cannot do.
    Broken,
    Unknown,
}

impl ErrorKind {
    /// Whether it is an error in place of a result.
    pub fn is_error(self) -> bool {
        match self {
            ErrorKind::Unanswered | ErrorKind::Broken => true,
            ErrorKind::No | ErrorKind::TooLate | ErrorKind::Unknown => false,
        }
    }

    /// Whether a machine that is too slow explains it.
    pub fn is_by_slowness(self) -> bool {
        match self {
            ErrorKind::TooLate | ErrorKind::Unanswered => true,
            ErrorKind::No | ErrorKind::Broken | ErrorKind::Unknown => false,
        }
    }
}

macro_rules! codes {
    ($($(#[$about:meta])* $variant:ident = $text:literal is $kind:ident,)*) => {
        /// The kind of error that ended an operation (`docs/history.md`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[$about])* $variant,)*
            /// A code that Fencepost does not know, such as an adapter's own, or none. The text holds it.
            Other,
        }

        impl ErrorCode {
            /// Every code that has a name, in the order of the documentation.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant,)*];

            /// Its name in histories and in the client protocol; none for [`Other`](ErrorCode::Other).
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(ErrorCode::$variant => Some($text),)*
                    ErrorCode::Other => None,
                }
            }

            /// What it says of what went wrong.
            pub fn kind(self) -> ErrorKind {
                match self {
                    $(ErrorCode::$variant => ErrorKind::$kind,)*
                    ErrorCode::Other => ErrorKind::Unknown,
                }
            }

            fn of_name(name: &str) -> ErrorCode {
                match name {
                    $($text => ErrorCode::$variant,)*
                    // As histories had it before 2026-11.
                    "unsaid" => ErrorCode::NoReason,
                    _ => ErrorCode::Other,
                }
            }
        }
    };
}

codes! {
    /// Another process held the lock until the time was up.
    Taken = "taken" is No,
    /// The lock library answered no, after tries of its own: whether one of them took the lock is unknown.
    RefusedByLibrary = "refused-by-library" is No,
    /// Too few servers could be asked, or too few agreed.
    NoMajority = "no-majority" is TooLate,
    /// The lock was granted too late to be valid.
    Expired = "expired" is TooLate,
    /// The lease ran out while the lock was waited for.
    SessionExpired = "session-expired" is TooLate,
    NotHeld = "not-held" is No,
    /// A careful client looked at its own clock, and did not send the write.
    GaveUp = "gave-up" is No,
    /// The storage's guard did not accept the write. The detail begins with its own code (`stale-token`).
    Rejected = "rejected" is No,
    /// It was sent, and not answered in time.
    Timeout = "timeout" is Unanswered,
    /// It was sent, and the connection broke before the answer.
    Disconnected = "disconnected" is Unanswered,
    /// The service answered that it cannot serve now.
    Unavailable = "unavailable" is Unanswered,
    /// It was not sent: there was no connection.
    Unreachable = "unreachable" is Unanswered,
    Refused = "refused" is Broken,
    Protocol = "protocol" is Broken,
    /// The client did not understand the operation.
    BadCommand = "bad-command" is Broken,
    /// The service or the storage holds a value that the client cannot use.
    BadValue = "bad-value" is Broken,
    NoStorage = "no-storage" is Broken,
    /// An earlier operation of the process was indeterminate, so the process cannot go on.
    ProcessOver = "process-over" is Broken,
    /// The client program had ended, or ended meanwhile.
    ClientGone = "client-gone" is Unanswered,
    Mismatch = "mismatch" is No,
    /// The value had been changed since it was read, and was not written over.
    Conflict = "conflict" is No,
    /// Its caller gave the call up in the middle, and the library ended it.
    Cancelled = "cancelled" is Unanswered,
    NoReason = "no-reason" is Unknown,
}

impl ErrorCode {
    /// An error with this code; `detail` says for people what went wrong, and can be empty.
    pub fn error(self, detail: impl fmt::Display) -> OperationError {
        let text = match self.name() {
            Some(name) => format!("{name}: {detail}"),
            None => detail.to_string(),
        };
        OperationError::from(text.strip_suffix(": ").unwrap_or(&text))
    }
}

/// Why an operation failed or is indeterminate. It is one text in files, `timeout: n1 did not answer in
/// time`: the code, a colon, and what happened for people. The text is kept, and this dereferences to it.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(from = "Cow<str>", into = "Name")]
pub struct OperationError {
    code: ErrorCode,
    text: Name,
}

impl OperationError {
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The code as the text has it, also one that [`ErrorCode`] does not know; empty where there is none.
    pub fn code_name(&self) -> &str {
        split(&self.text).0
    }

    /// The text without its code.
    pub fn detail(&self) -> &str {
        split(&self.text).1
    }

    /// Whether the storage's guard did not accept the write, for a reason of its own: the client did send it.
    pub fn is_rejected(&self) -> bool {
        self.code == ErrorCode::Rejected
    }
}

/// The code (empty if there is none) and the rest.
fn split(text: &str) -> (&str, &str) {
    let (code, detail) = match text.split_once(": ") {
        Some((code, detail)) => (code, detail),
        None => (text, ""),
    };
    let is_code = code.starts_with(|first: char| first.is_ascii_lowercase())
        && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if is_code { (code, detail) } else { ("", text) }
}

impl<T: AsRef<str> + Into<Name>> From<T> for OperationError {
    fn from(text: T) -> OperationError {
        OperationError { code: ErrorCode::of_name(split(text.as_ref()).0), text: text.into() }
    }
}

impl From<OperationError> for Name {
    fn from(error: OperationError) -> Name {
        error.text
    }
}

impl Deref for OperationError {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl fmt::Debug for OperationError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_parsed_from_its_own_text() {
        for &code in ErrorCode::ALL {
            let error = code.error("what happened: in words");
            assert_eq!((error.code(), error.detail()), (code, "what happened: in words"));
            assert_eq!(Some(&*code.error("")), code.name());
            assert_eq!(code.error("").code(), code);
        }
    }

    #[test]
    fn unknown_codes_and_free_texts_keep_their_words() {
        let own = OperationError::from("my-code: it broke");
        assert_eq!((own.code(), own.code_name(), own.detail()), (ErrorCode::Other, "my-code", "it broke"));
        let free = OperationError::from("No route to n1: it is down");
        assert_eq!((free.code_name(), free.detail()), ("", "No route to n1: it is down"));
        assert_eq!(free.to_string(), "No route to n1: it is down");
    }

    #[test]
    fn a_guard_with_a_code_of_its_own_is_still_a_rejection() {
        let rejected = ErrorCode::Rejected.error("made-up-code: 3 is not prime");
        assert!(rejected.is_rejected());
        assert_eq!(&*rejected, "rejected: made-up-code: 3 is not prime");
        assert!(!OperationError::from("made-up-code: 3 is not prime").is_rejected());
        assert!(!ErrorCode::GaveUp.error("it looked at its clock").is_rejected());
    }

    #[test]
    fn an_error_is_one_text_in_files() {
        let error = ErrorCode::Timeout.error("n1 did not answer");
        let json = serde_json::to_string(&error).unwrap();
        assert_eq!(json, "\"timeout: n1 did not answer\"");
        assert_eq!(serde_json::from_str::<OperationError>(&json).unwrap(), error);
        assert_eq!(serde_json::from_str::<OperationError>(r#""a \"quoted\" text""#).unwrap().len(), 15);
    }
    #[test]
    fn the_documentation_names_every_code() {
        let docs = include_str!("../../../docs/history.md");
        let rows: Vec<&str> = docs.lines().filter(|line| line.starts_with("| `")).collect();
        for code in ErrorCode::ALL.iter().filter_map(|code| code.name()) {
            let quoted = format!("`{code}`");
            let named =
                rows.iter().any(|row| row.split('|').nth(1).is_some_and(|cell| cell.contains(&quoted)));
            assert!(named, "docs/history.md has no row for {code}");
        }
    }
}
