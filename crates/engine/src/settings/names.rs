//! Looks up what a user named, and says which name was probably meant.

use crate::settings::other_names::known_elsewhere;
use fencepost_history::mistake::Mistake;
use fencepost_history::printable;
use fencepost_history::prose::meant;
pub use fencepost_history::prose::unknown;
use fencepost_locks::{LockDefinition, OptionError, folder, on_server};
use std::convert::Infallible;
use std::fmt::Display;
use std::path::Path;
use toml::Spanned;

/// A mistake in what the user asked for. Exit code 254.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub struct BadUsage {
    pub key: Option<String>,
    pub sentence: String,
}

impl BadUsage {
    /// A mistake that is about no option.
    pub fn new(sentence: impl Display) -> BadUsage {
        BadUsage { key: None, sentence: sentence.to_string() }
    }

    /// What the user named, and cannot be used: `cannot read PATH`, and why.
    pub fn cannot<E: Display>(what: &str, path: &Path) -> impl Fn(E) -> BadUsage {
        move |error| BadUsage::new(format!("cannot {what} {}: {error}", path.display()))
    }

    /// A mistake in this option: `ttl`.
    pub fn at(option: &str, sentence: impl Display) -> BadUsage {
        BadUsage { key: Some(option.to_owned()), ..BadUsage::new(sentence) }
    }
}

/// Returns a mistake that is about no option, as a [`BadUsage`] or what can be made of one.
#[macro_export]
macro_rules! refuse {
    ($($words:tt)*) => { return Err($crate::BadUsage::new(format!($($words)*)).into()) };
}

/// Returns a mistake in this option, as [`refuse`](crate::refuse) does one that is about none.
#[macro_export]
macro_rules! refuse_option {
    ($option:expr, $($words:tt)*) => { return Err($crate::BadUsage::at($option, format!($($words)*)).into()) };
}

impl From<OptionError> for BadUsage {
    fn from(OptionError { option, sentence }: OptionError) -> BadUsage {
        BadUsage::at(&option, sentence)
    }
}

/// The built-in lock of that name (`redlock@redis-7.0`), or the one in this folder. Errors: the nearest name.
pub fn find_lock(name: &str) -> Result<&'static LockDefinition, BadUsage> {
    if !folder::is_folder(name)
        && let Some(lock) = on_server(name).map_err(|sentence| BadUsage::at("lock", sentence))?
    {
        return Ok(lock);
    }
    match folder::is_folder(name) {
        true => folder::load(name).map_err(|sentence| BadUsage::at("lock", sentence)),
        false => pick("lock", name, fencepost_locks::registry(), |lock| lock.name).map_err(|refused| {
            let names: Vec<&str> = fencepost_locks::registry().iter().map(|lock| lock.name).collect();
            let is_answered = !meant(name, &names).is_empty() || known_elsewhere("lock", name).is_some();
            let sentence = match Path::new(name).is_dir() {
                true => format!("unknown lock \"{name}\": did you mean the folder ./{name}?"),
                false if is_answered => refused.sentence,
                false => format!("{refused}, or the folder of a lock of your own, such as ./{name}"),
            };
            BadUsage::at("lock", sentence)
        }),
    }
}

/// A name in a list of an option, without blanks around it: `pause, kill`. Never fails.
pub fn name_in_list(text: &str) -> Result<String, Infallible> {
    Ok(text.trim().to_owned())
}

/// The one of that name, or a sentence that offers the nearest right one. `what` is the option that names it.
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
    let sentence = match known_elsewhere(what, name) {
        Some(answer) => format!("unknown {what} \"{}\": {answer}", printable(name)),
        None => unknown(what, name, &names),
    };
    Err(BadUsage::at(what, sentence))
}

/// As [`pick`], of a name in a file. Errors: the mistake at the place of the name.
pub(crate) fn pick_at<T: Copy>(
    what: &str,
    name: &Spanned<String>,
    all: &[T],
    name_of: impl Fn(&T) -> &'static str,
) -> Result<T, Mistake> {
    pick(what, name.get_ref(), all, name_of).map_err(|error| Mistake::new(name.span(), error.sentence))
}
