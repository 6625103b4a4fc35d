//! Locks of one's own: a folder with a `lock.toml` and a client program, or a command on the command line.
//!
//! ```text
//! lock.toml ─► file.rs ─► LockDefinition { service: built in, or service.rs; recipe: client.rs }
//! ```
//!
//! A lock that was read stays in memory until the program ends: there are few, and everything refers to them.

mod client;
mod entries;
mod file;
mod service_table;
mod texts;

use crate::client::client_program::{ClientProgram, GrantValues};
use crate::definition::LockDefinition;
use crate::service::{LockService, ServiceDefaults};
use crate::services;
use fencepost_cluster::images::{Release, ServerChoice};
use fencepost_cluster::{Environment, Suite};
use fencepost_history::Refusal;
use fencepost_history::mistake::{Mistake, read_table};
use fencepost_history::run::read_settings;
use file::{CommandWords, LockFile, VariantTable};
use parking_lot::Mutex;
use service_table::ServiceOf;
use std::collections::HashMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml::Spanned;
use toml::de::DeTable;

const FILE: &str = "lock.toml";

/// Whether this names a folder rather than a built-in lock: it has a slash, or there is such a folder.
pub fn is_folder(name: &str) -> bool {
    let (rest, server) = split_server(name);
    if server.is_some() && services::find(rest).is_some() {
        return false;
    }
    let (path, _) = split(rest);
    path.contains('/') || path == "." || Path::new(path).join(FILE).is_file()
}

/// `PATH@VARIANT`, each of them with a server in one of its versions behind it: `PATH@redis-8.0`.
fn split_server(name: &str) -> (&str, Option<ServerChoice>) {
    ServerChoice::behind(name).map_or((name, None), |(rest, server)| (rest, Some(server)))
}

fn split(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('@') {
        Some((path, variant)) if !variant.contains('/') => (path, Some(variant)),
        _ => (name, None),
    }
}

/// The lock of this folder: `PATH[@VARIANT][@SERVER]`. Errors: no `lock.toml`, or where it is wrong.
pub fn load(name: &str) -> Result<&'static LockDefinition, Refusal> {
    kept(name.to_owned(), || {
        let (rest, server) = split_server(name);
        let (path, variant) = split(rest);
        let folder =
            std::fs::canonicalize(path).map_err(|error| format!("cannot open the lock {path}: {error}"))?;
        let file = folder.join(FILE);
        if !file.is_file() {
            return Err(Refusal::new(format!(
                "{path} is no lock: it has no {FILE}; `fencepost lock new {path}` makes a folder to begin with"
            )));
        }
        let text =
            read_settings(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let place = Path::new(path).join(FILE).display().to_string();
        let lock = read(&text, &place, &folder, (variant, server))?;
        check_files(&text, &folder).map_err(|mistake| mistake.in_file(&place, &text))?;
        Ok(lock)
    })
}

/// Reads a `lock.toml` of this text, and each of its variants: for the fuzzer.
pub fn fuzz(text: &str) {
    for variant in [None, Some("careful")] {
        let _ = read(text, "lock.toml", Path::new("/dev/shm"), (variant, None));
    }
}

/// `--client` on a built-in lock's servers, with its folder and Debian's `packages`. Errors: bad ones.
pub fn ad_hoc(
    servers_of: &'static LockDefinition,
    command: &str,
    files: Option<&Path>,
    packages: &[String],
) -> Result<&'static LockDefinition, Refusal> {
    kept(format!("{} {files:?} {packages:?} {command}", servers_of.name), || {
        packages.iter().try_for_each(|name| texts::check_package(name))?;
        let words = CommandWords::Line(command.to_owned()).words()?;
        let name = name_of_command(&words);
        let whole = |folder: &Path| {
            let whole = std::fs::canonicalize(folder);
            let refused =
                |why: &dyn Display| Refusal::new(format!("--client-files {}: {why}", folder.display()));
            let whole = whole.map_err(|error| refused(&error))?;
            let whole = fencepost_cluster::check_file(&whole).map_err(|refusal| refused(&refusal))?;
            if whole.is_dir() { Ok(whole) } else { Err(refused(&"it is no folder")) }
        };
        let folder = files.map(whole).transpose()?;
        let environment =
            Environment { name: name.clone(), folder, packages: packages.to_vec(), ..Environment::default() };
        let program = ClientProgram {
            name: name.clone(),
            command: words,
            environment: Some(Arc::new(environment)),
            start_time: texts::START_TIME,
            ..ClientProgram::default()
        };
        Ok(definition(
            format!("{command}, on the servers of {}", servers_of.name),
            servers_of.service,
            program,
        ))
    })
}

/// `my_client`, of `python3 my_client.py`.
fn name_of_command(words: &[String]) -> String {
    let is_file = |word: &&String| !word.starts_with('-') && Path::new(word).extension().is_some();
    let word = words.iter().find(is_file).unwrap_or(&words[0]);
    Path::new(word).file_stem().map_or_else(|| word.clone(), |stem| stem.to_string_lossy().into_owned())
}

/// The lock that was made for these words before, or the one that `make` gives now.
pub(crate) fn kept(
    words: String,
    make: impl FnOnce() -> Result<LockDefinition, Refusal>,
) -> Result<&'static LockDefinition, Refusal> {
    static KEPT: Mutex<Option<HashMap<String, &'static LockDefinition>>> = Mutex::new(None);
    let mut kept = KEPT.lock();
    let kept = kept.get_or_insert_default();
    if let Some(known) = kept.get(&words) {
        return Ok(known);
    }
    let made: &'static LockDefinition = Box::leak(Box::new(make()?));
    kept.insert(words, made);
    Ok(made)
}

fn parse(text: &str) -> Result<LockFile<Spanned<ServiceOf>>, Mistake> {
    let document = DeTable::parse(text).map_err(|error| Mistake::of_toml(&error))?;
    let (span, table) = (document.span(), document.into_inner());
    texts::check(&table)?;
    entries::check(&table)?;
    let file: LockFile<Spanned<ServiceOf>> = read_table(table, span)?;
    let at = file.service.span();
    match file.service.get_ref() {
        ServiceOf::BuiltIn(name) => {
            service_named(name).map_err(|refusal| Mistake::of(at, refusal))?;
        }
        ServiceOf::Own(_) => {
            let misplaced = [
                ("nodes", file.nodes.is_some()),
                ("redis-persistence", file.redis_persistence.is_some()),
                ("server", file.server.is_some()),
            ];
            if let Some((name, _)) = misplaced.into_iter().find(|(_, there)| *there) {
                return Err(Mistake::new(
                    at,
                    format!("`{name}` outside of [service] is for built-in services"),
                ));
            }
        }
    }
    Ok(file)
}

fn check_files(text: &str, folder: &Path) -> Result<(), Mistake> {
    let document = DeTable::parse(text).map_err(|error| Mistake::of_toml(&error))?;
    entries::check_files(document.get_ref(), folder)
}

type Chosen<'a> = (Option<&'a str>, Option<ServerChoice>);

/// The lock of the text of a `lock.toml` in this folder. `place` is how messages call the file.
fn read(text: &str, place: &str, folder: &Path, chosen: Chosen) -> Result<LockDefinition, Refusal> {
    let file = parse(text).map_err(|mistake| mistake.in_file(place, text))?;
    of_file(file, folder, chosen).map_err(|refusal| refusal.worded(|why| format!("{place}: {why}")))
}

fn of_file(
    file: LockFile<Spanned<ServiceOf>>,
    folder: &Path,
    (variant, server): Chosen,
) -> Result<LockDefinition, Refusal> {
    let about = |(name, table): (&String, &VariantTable)| (name.clone(), table.about.clone());
    let variants = file.variants.iter().filter(|_| variant.is_none()).map(about).collect();
    let (mut file, args) = with_variant(file, variant)?;
    let base = folder.file_name().map_or_else(|| "/".to_owned(), |name| name.to_string_lossy().into_owned());
    texts::check_name(&base)?;
    if let ServiceOf::Own(service) = file.service.get_ref() {
        // Clients and servers run in nodes that are made alike.
        file.packages.extend(service.packages.iter().map(|name| (*name).to_owned()));
        match server {
            Some(ServerChoice::Release(release)) => {
                check_release(service, release)?;
                file.suite = Some(release.suite.to_owned());
            }
            Some(ServerChoice::Own(own)) => {
                return Err(Refusal::new(format!(
                    "its [service] names its own server; put {own} into the folder, and name it there"
                )));
            }
            None => {}
        }
    }
    let environment = Arc::new(Environment {
        name: base.clone(),
        folder: Some(folder.to_owned()),
        files: file.files,
        build: file.build,
        setup: file.setup,
        packages: file.packages,
        suite: file.suite.as_deref().map(Suite::find).transpose()?,
        dockerfile: Some(PathBuf::from("Dockerfile")).filter(|file| folder.join(file).is_file()),
        ..Environment::default()
    });
    let service = match file.service.into_inner() {
        ServiceOf::BuiltIn(name) => LockService {
            defaults: ServiceDefaults {
                nodes: file.nodes,
                server: server.or(file.server),
                redis_persistence: file.redis_persistence,
            },
            ..*service_named(&name)?
        },
        ServiceOf::Own(service) => {
            LockService { environment: Some(Box::leak(Box::new(environment.clone()))), ..*service }
        }
    };
    let program = ClientProgram {
        name: [Some(base), variant.map(str::to_owned), server.map(String::from)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("@"),
        command: [file.client.words()?, args].concat(),
        version: file.version.as_ref().map(CommandWords::words).transpose()?,
        environment: Some(environment),
        kind: file.kind,
        lease: file.lease,
        ttl_step: texts::ttl_step(file.ttl_step)?,
        properties: file.properties,
        promised: Some(GrantValues { token: file.token, unique: file.unique }),
        start_time: texts::start_time(file.start_time, texts::START_TIME)?,
        options: file.options,
        variants,
    };
    Ok(definition(file.about, Box::leak(Box::new(service)), program))
}

fn with_variant<S>(
    mut file: LockFile<S>,
    variant: Option<&str>,
) -> Result<(LockFile<S>, Vec<String>), Refusal> {
    let Some(name) = variant else { return Ok((file, Vec::new())) };
    let mut variants = std::mem::take(&mut file.variants);
    let known: Vec<&str> = variants.keys().map(String::as_str).collect();
    if known.is_empty() {
        return Err(format!("the lock has no variants; leave out @{name}").into());
    }
    let unknown = Refusal::unknown("variant", name, &known);
    let mut table = variants.remove(name).ok_or(unknown)?;
    let args = std::mem::take(&mut table.args);
    Ok((file.with_variant(name, table)?, args))
}

fn service_named(name: &str) -> Result<&'static LockService, Refusal> {
    services::services().find(|service| service.name == name).ok_or_else(|| {
        let mut names: Vec<&str> = services::services().map(|service| service.name).collect();
        names.sort_unstable();
        Refusal::unknown("service", name, &names)
    })
}

fn check_release(service: &LockService, release: &Release) -> Result<(), Refusal> {
    let packages = release.packages();
    match packages.iter().any(|package| service.packages.contains(&package.as_str())) {
        true => Ok(()),
        false => Err(Refusal::new(format!(
            "{release} is no version of its server: the packages of its [service] have no {}",
            packages[0]
        ))),
    }
}

fn definition(about: String, service: &'static LockService, program: ClientProgram) -> LockDefinition {
    let program: &'static ClientProgram = Box::leak(Box::new(program));
    let claims = match &program.properties {
        Some(properties) => properties.join(", "),
        None => "whatever can be judged".to_owned(),
    };
    LockDefinition {
        name: &program.name,
        about: about.leak(),
        claims: claims.leak(),
        service,
        recipe: program,
        options: &[],
        capabilities: |_| unreachable!("a client program says itself what it can"),
    }
}

#[cfg(test)]
mod tests;
