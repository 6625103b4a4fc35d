//! What became of a request to a server, as far as its client can know.

use fencepost_history::OperationError;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply<T> {
    Answer(T),
    /// The server answered with an error: it did not execute it.
    Refused(OperationError),
    Unsent(OperationError),
    /// Sent, and not answered: it may have been executed, or may still be while its bytes are under way.
    Unknown(OperationError),
}

impl<T> Reply<T> {
    /// The answer, or why there is none, where it makes no difference what became of the request.
    pub(crate) fn answered(self) -> Result<T, OperationError> {
        match self {
            Reply::Answer(answer) => Ok(answer),
            Reply::Refused(why) | Reply::Unsent(why) | Reply::Unknown(why) => Err(why),
        }
    }

    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Reply<U> {
        match self {
            Reply::Answer(answer) => Reply::Answer(f(answer)),
            Reply::Refused(why) => Reply::Refused(why),
            Reply::Unsent(why) => Reply::Unsent(why),
            Reply::Unknown(why) => Reply::Unknown(why),
        }
    }
}
