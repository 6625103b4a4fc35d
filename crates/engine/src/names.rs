//! Looks up what a user named, and says which name was probably meant.

use fencepost_history::mistake::Mistake;
pub use fencepost_history::prose::unknown;
use fencepost_locks::{LockDefinition, folder};
use std::path::Path;
use toml::Spanned;

/// A mistake in what the user asked for: one sentence. Exit code 254.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadUsage(pub String);

/// The built-in lock of that name, or the one in this folder.
pub fn find_lock(name: &str) -> Result<&'static LockDefinition, BadUsage> {
    match folder::is_folder(name) {
        true => folder::load(name).map_err(BadUsage),
        false => pick("lock", name, fencepost_locks::registry(), |lock| lock.name).map_err(|error| {
            let sentence = match Path::new(name).is_dir() {
                true => format!("unknown lock \"{name}\": did you mean the folder ./{name}?"),
                false if error.0.ends_with('?') => error.0,
                false => format!("{}, or the folder of a lock of your own, such as ./{name}", error.0),
            };
            BadUsage(sentence)
        }),
    }
}

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

/// As [`pick`], of a name in a file.
///
/// # Errors
/// The mistake at the place of the name.
pub(crate) fn pick_at<T: Copy>(
    what: &str,
    name: &Spanned<String>,
    all: &[T],
    name_of: impl Fn(&T) -> &'static str,
) -> Result<T, Mistake> {
    pick(what, name.get_ref(), all, name_of).map_err(|error| Mistake::new(name.span(), error.0))
}
