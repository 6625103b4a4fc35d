//! Errors of locks outside of operations, which end in a [`fencepost_history::Completion`] instead.

/// An option or a TTL that a lock cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct OptionError {
    /// The option that it is about, as in [`crate::LockDefinition::options`]; or `ttl`.
    pub option: String,
    pub sentence: String,
}

/// Returns an [`OptionError`] about this option, whose sentence is formatted.
macro_rules! refuse {
    ($option:expr, $($sentence:tt)+) => {
        return Err(crate::error::OptionError {
            option: String::from($option),
            sentence: format!($($sentence)+),
        })
    };
}
pub(crate) use refuse;

/// Refuses a number of nodes that the service cannot have.
macro_rules! nodes_are {
    ($right:expr, $($sentence:tt)+) => {
        match $right {
            true => Ok(()),
            false => crate::error::refuse!("nodes", $($sentence)+),
        }
    };
}
pub(crate) use nodes_are;

/// Why a client program ends early, or a storage has no connection to the lock service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The controller's lines are not of the protocol, or ask for what does not exist.
    #[error("{0}")]
    BadHello(String),
    #[error("{0}")]
    Environment(String),
}
