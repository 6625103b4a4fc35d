//! Looks up what a user named, and says which name was probably meant.

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

/// "there is no backend redlok; did you mean redlock? …"
pub fn unknown(what: &str, name: &str, names: &[&str]) -> String {
    let hint = nearest(name, names).map(|known| format!("; did you mean {known}?")).unwrap_or_default();
    let all = names.join(", ");
    format!("there is no {what} `{name}`{hint} (there are: {all})")
}

/// The name that was probably meant.
pub fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let distances = names.iter().map(|known| (strsim::damerau_levenshtein(name, known), *known));
    let (distance, known) = distances.min()?;
    (distance <= known.len().div_ceil(2)).then_some(known)
}
