use fencepost_history::{ErrorCode, Event, Kind, Millis, OperationError, Released, f};

/// Whether an operation proves that its process believed, as it invoked it, that it held the key. Belief only
/// ever ends: after a `holds` that answered false, or a notice that the lock is lost, nothing shows belief in
/// that hold any more. A library that takes the lock again by itself says so by no operation.
///
/// - `holds` that answered true: who believed at the answer did at the question.
/// - A write that the storage took, or that its guard rejected: the client chose to send it. A client that
///   looked first and held back ends with another code, and an indeterminate write may never have been sent
///   (its client may have slept through it and given up), so neither proves anything.
/// - A release, or one of an inner section, whose client says that it still believed as it began.
/// - An acquire of a reentrant lock by its holder that was granted.
pub fn shows_belief(name: &str, completion: &Event) -> bool {
    match name {
        f::HOLDS => completion.kind == Kind::Ok && completion.value.as_bool() == Some(true),
        f::WRITE => match completion.kind {
            Kind::Ok => true,
            Kind::Fail => completion.error.as_ref().is_some_and(OperationError::is_rejected),
            Kind::Invoke | Kind::Info => false,
        },
        f::REENTER => completion.kind == Kind::Ok,
        f::RELEASE | f::LEAVE => Released::of(&completion.value).believed == Some(true),
        _ => false,
    }
}

/// Whether an operation proves that its process, as it answered, no longer believed that it held the key: a
/// `holds` that answered false, or that there was nothing to prolong, re-acquire or release.
pub fn denies_belief(name: &str, completion: &Event) -> bool {
    match name {
        f::HOLDS => completion.kind == Kind::Ok && completion.value.as_bool() == Some(false),
        f::PROLONG | f::REENTER | f::LEAVE => {
            let is_gone = |error: &OperationError| error.code() == ErrorCode::NotHeld;
            completion.kind == Kind::Fail && completion.error.as_ref().is_some_and(is_gone)
        }
        _ => false,
    }
}

/// Whether a grant was over when its client learned of it, as the client said itself: by a validity of 0.
pub fn is_over(validity_ms: Option<Millis>) -> bool {
    validity_ms.is_some_and(|Millis(ms)| ms <= 0.0)
}

/// Whether this is a client's notice, which has no invocation and can come at any time.
pub fn is_notice(event: &Event) -> bool {
    event.kind == Kind::Info && f::is_notice(&event.f)
}
