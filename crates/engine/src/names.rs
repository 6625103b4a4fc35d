//! Looks up what a user named, and says which name was probably meant.

pub use fencepost_history::prose::nearest;

/// A mistake in what the user asked for: one sentence. Exit code 254.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadUsage(pub String);

/// The one of that name, or a sentence that offers the nearest right one.
pub fn pick<T: Copy>(
    what: &str,
    name: &str,
    all: &[T],
    name_of: impl Fn(&T) -> &'static str,
) -> Result<T, BadUsage> {
    if let Some(found) = all.iter().find(|each| name_of(each) == name) {
        return Ok(*found);
    }
    let names: Vec<&str> = all.iter().map(&name_of).collect();
    Err(BadUsage(unknown(what, name, &names)))
}

/// `unknown lock "redlok": did you mean "redlock"?`; where no name is near, all that there are.
pub fn unknown(what: &str, name: &str, names: &[&str]) -> String {
    match nearest(name, names) {
        Some(known) => format!("unknown {what} \"{name}\": did you mean \"{known}\"?"),
        None => format!("unknown {what} \"{name}\": expected one of {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_answered_with_the_nearest() {
        let names = ["clock-jump", "pause"];
        let suggestion = "unknown nemesis \"clok-jump\": did you mean \"clock-jump\"?";
        assert_eq!(unknown("nemesis", "clok-jump", &names), suggestion);
        let list = "unknown nemesis \"earthquake\": expected one of clock-jump, pause";
        assert_eq!(unknown("nemesis", "earthquake", &names), list);
    }
}
