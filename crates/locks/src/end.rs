//! How an operation ended that was sent under a session or on a connection.

use fencepost_history::{Completion, OperationError};

/// How an operation ended, and whether its session can be used again; if not, it is dropped.
#[derive(Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) completion: Completion,
    keeps_session: bool,
}

impl End {
    pub(crate) fn keeping(completion: Completion) -> End {
        End { completion, keeps_session: true }
    }

    pub(crate) fn dropping(completion: Completion) -> End {
        End { completion, keeps_session: false }
    }

    pub(crate) fn unknown(why: OperationError) -> End {
        End::dropping(Completion::Info(why))
    }

    pub(crate) fn close<S>(self, session: &mut Option<S>) -> Completion {
        if !self.keeps_session {
            *session = None;
        }
        self.completion
    }

    /// In short, for tables: how it ended, and `dropped` where the session is.
    #[cfg(test)]
    pub(crate) fn said(&self) -> String {
        let dropped = if self.keeps_session { "" } else { ", dropped" };
        format!("{}{dropped}", crate::testing::ended(&self.completion))
    }
}
