//! `fencepost lock new`: a folder with a lock, which runs at once.

use super::templates::{LANGUAGES, Language, services};
use crate::output::say;
use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use fencepost_engine::{BadUsage, refuse};
use fencepost_history::LockKind;
use fencepost_report::terminal::rows;
use std::path::{Path, PathBuf};

/// Which lock is begun.
#[derive(Debug, Args)]
pub(super) struct NewArgs {
    /// The folder to make. Its last part is the name of the lock.
    folder: PathBuf,
    /// Language of the client.
    #[arg(long, default_value = LANGUAGES[0].name, value_parser = languages())]
    language: String,
    /// The servers beneath the lock; on redis the client works as it is.
    #[arg(long, default_value = "redis", value_parser = servers())]
    servers: String,
    /// Who may hold the lock together.
    #[arg(long, default_value = LockKind::Mutex.name(), value_parser = kinds())]
    kind: String,
}

fn languages() -> PossibleValuesParser {
    PossibleValuesParser::new(LANGUAGES.iter().map(|language| language.name))
}

fn servers() -> PossibleValuesParser {
    PossibleValuesParser::new(services().map(|service| service.name))
}

fn kinds() -> PossibleValuesParser {
    PossibleValuesParser::new(LockKind::ALL.map(LockKind::name))
}

pub(super) fn new(args: &NewArgs) -> Result<i32> {
    let name = name_of(&args.folder)?;
    let language = LANGUAGES.iter().find(|language| language.name == args.language);
    let service = services().find(|service| service.name == args.servers);
    let kind = LockKind::ALL.into_iter().find(|kind| kind.name() == args.kind);
    let (Some(language), Some(service), Some(kind)) = (language, service, kind) else {
        refuse!("no such language, servers or kind");
    };
    if args.folder.symlink_metadata().is_ok() {
        let folder = args.folder.display();
        refuse!("{folder} is there already; choose another name");
    }
    make(&args.folder, &language.files(name, kind, service))
        .with_context(|| format!("cannot make {}", args.folder.display()))?;
    say!("{}", made(args, language, kind, service.about).trim_end());
    Ok(0)
}

/// The last part of the path, if it can be the name of a lock in every language.
fn name_of(folder: &Path) -> Result<&str, BadUsage> {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    match name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(fits) {
        true => Ok(name),
        false => refuse!(
            "{name:?} cannot be the name of a lock: use letters, digits, - and _, and begin with a letter"
        ),
    }
}

/// Writes all files into a folder beside, and moves it to its place when it is whole.
fn make(folder: &Path, files: &[(String, String)]) -> Result<()> {
    let mut partial = folder.as_os_str().to_owned();
    partial.push(format!(".partial-{}", std::process::id()));
    let partial = PathBuf::from(partial);
    let written = write_all(&partial, files).and_then(|()| Ok(std::fs::rename(&partial, folder)?));
    if written.is_err() {
        let _ = std::fs::remove_dir_all(&partial);
    }
    written
}

fn write_all(folder: &Path, files: &[(String, String)]) -> Result<()> {
    std::fs::create_dir(folder)?;
    for (path, text) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

fn made(args: &NewArgs, language: &Language, kind: LockKind, servers: &str) -> String {
    let folder = args.folder.display().to_string();
    let as_lock = if folder.contains('/') { folder.clone() } else { format!("./{folder}") };
    let to_do = match language.works_on(&args.servers) {
        true => format!(
            "{folder}/{} is a working lock without a library: put yours in its place",
            language.client
        ),
        false => format!("write the functions in {folder}/{}", language.client),
    };
    let a_lock = if kind.is_mutex() { "a lock" } else { kind.in_words() };
    let about = format!("{folder}, {a_lock} in {} on {servers}", language.title);
    // Commands are to be copied: they stay in one line.
    rows(&[("made", &about), ("change", &to_do)])
        + &format!("next      fencepost lock check {as_lock}\n          fencepost test --lock {as_lock}\n")
}
