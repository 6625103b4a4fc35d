use crate::error::{ErrorCode, OperationError};
use crate::event::Kind;
use serde_json::Value;
use std::fmt;

/// How an operation ended. Errors become `Fail` or `Info` where they arise, with the reason beside it.
#[derive(Clone, Debug, PartialEq)]
pub enum Completion {
    Ok(Value),
    /// It certainly did not happen.
    Fail(OperationError),
    Info(OperationError),
}

impl Completion {
    /// It happened, with this result.
    pub fn ok(result: impl Into<Value>) -> Completion {
        Completion::Ok(result.into())
    }

    /// As [`Completion::Fail`], for this reason; `detail` is for people.
    pub fn fail(code: ErrorCode, detail: impl fmt::Display) -> Completion {
        Completion::Fail(code.error(detail))
    }

    /// As [`Completion::Info`], for this reason; `detail` is for people.
    pub fn info(code: ErrorCode, detail: impl fmt::Display) -> Completion {
        Completion::Info(code.error(detail))
    }

    /// The kind of event that records this completion.
    pub fn kind(&self) -> Kind {
        match self {
            Completion::Ok(_) => Kind::Ok,
            Completion::Fail(_) => Kind::Fail,
            Completion::Info(_) => Kind::Info,
        }
    }
}
