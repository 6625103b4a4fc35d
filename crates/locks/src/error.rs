//! Errors of locks outside of operations, which end in a [`fencepost_history::Completion`] instead.

/// An option or a TTL that a lock cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{sentence}")]
pub struct OptionError {
    /// The option that it is about, as in [`crate::LockDefinition::options`]; or `ttl`.
    pub option: String,
    pub sentence: String,
}

pub(crate) fn bad_option<T>(option: &str, sentence: impl Into<String>) -> Result<T, OptionError> {
    Err(OptionError { option: option.to_owned(), sentence: sentence.into() })
}

/// Refuses a number of nodes that the service cannot have.
pub(crate) fn nodes_are(right: bool, sentence: impl Into<String>) -> Result<(), OptionError> {
    if right { Ok(()) } else { bad_option("nodes", sentence) }
}

/// Why a client program ends early, or a storage has no connection to the lock service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The controller's lines are not of the protocol, or ask for what does not exist.
    #[error("{0}")]
    BadHello(String),
    #[error("{0}")]
    Environment(String),
}
