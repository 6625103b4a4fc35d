//! Servers of a user's own, in place of Debian's: a program, a folder of programs, or a container image.

use super::definitions;
use super::servers::{OwnProgram, server};
use crate::environment::{Environment, check_file};
use fencepost_history::Refusal;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq)]
pub struct OwnServer {
    text: String,
    origin: ServerOrigin,
}

#[derive(Debug, PartialEq, Eq)]
enum ServerOrigin {
    Path(PathBuf),
    Image(String),
    Machine,
}

const MACHINE: &str = "machine";

/// Unpacked packages have programs in `usr/lib/NAME/VERSION/bin`.
const DEEPEST: usize = 5;

impl OwnServer {
    /// An own server: `./src/redis-server`, `folder:my-etcd`, `image:valkey/valkey:9`, `machine`; else none.
    pub(super) fn parse(text: &str) -> Option<OwnServer> {
        if text == MACHINE {
            return Some(OwnServer { text: text.to_owned(), origin: ServerOrigin::Machine });
        }
        let path = text.strip_prefix("program:").or_else(|| text.strip_prefix("folder:"));
        let origin = match (text.strip_prefix("image:"), path) {
            (Some(image), _) => ServerOrigin::Image(image.to_owned()),
            (None, Some(path)) => ServerOrigin::Path(path.into()),
            (None, None) if text.contains('/') => ServerOrigin::Path(text.into()),
            (None, None) => return None,
        };
        Some(OwnServer { text: text.to_owned(), origin })
    }

    /// What nodes of this kind run: the programs, and the packages of Debian's own server. Errors: unfit.
    pub fn environment(&self, kind: &str) -> Result<Arc<Environment>, Refusal> {
        let failed = |why: String| Refusal::new(format!("--server {}: {why}", self.text));
        let path = match &self.origin {
            ServerOrigin::Image(image) if image.is_empty() => {
                return Err(failed("name the image: image:NAME:TAG".to_owned()));
            }
            ServerOrigin::Image(_) if !server(kind).is_some_and(|server| server.has_images) => {
                return Err(failed(format!("an image is taken of Redis, Valkey and etcd, not of {kind}")));
            }
            ServerOrigin::Image(image) => {
                let environment = Environment {
                    name: self.text.clone(),
                    image: Some(image.clone()),
                    ..Environment::default()
                };
                return Ok(Arc::new(environment));
            }
            ServerOrigin::Path(path) => check_file(path).map_err(|refusal| failed(refusal.sentence))?,
            ServerOrigin::Machine => {
                let path = installed(kind).map_err(failed)?;
                check_file(&path).map_err(|refusal| failed(refusal.sentence))?
            }
        };
        let image = definitions::find(kind).map_err(|error| failed(error.to_string()))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let packages = image.package_names().map(str::to_owned).collect();
        let environment =
            Environment { name, packages, suite: Some(image.suite), leads: true, ..Environment::default() };
        let environment = match path.is_dir() {
            true => of_folder(kind, path, environment),
            false => of_program(kind, path, environment),
        };
        environment.map(Arc::new).map_err(failed)
    }
}

fn installed(kind: &str) -> Result<PathBuf, String> {
    let program = the_program(kind, &format!("its folder, as in folder:/opt/{kind}"))?;
    let names = program.names();
    let found = names.iter().find_map(|name| definitions::installed(name));
    found.ok_or_else(|| {
        format!(
            "this machine has no {}; install it, or choose one of `fencepost list servers`",
            names.join(" or ")
        )
    })
}

/// The one program that a server of this kind needs. Errors: it needs more, so that `instead` is to be named.
fn the_program(kind: &str, instead: &str) -> Result<&'static OwnProgram, String> {
    let mut needed = programs(kind).iter().filter(|program| program.is_needed);
    match (needed.next(), needed.next()) {
        (Some(program), None) => Ok(program),
        _ => Err(format!("a {kind} is more than one file; name {instead}")),
    }
}

/// The programs that a kind of server is made of; none where it is no program, but classes of Java.
fn programs(kind: &str) -> &'static [OwnProgram] {
    server(kind).map_or(&[], |server| server.own)
}

fn of_program(kind: &str, path: PathBuf, environment: Environment) -> Result<Environment, String> {
    let program = the_program(kind, "the folder in which it is installed")?;
    check_program(&path)?;
    let link = (environment.name != program.name)
        .then(|| (program.name.to_owned(), PathBuf::from(&environment.name)));
    Ok(Environment { files: vec![path], links: link.into_iter().collect(), ..environment })
}

fn of_folder(kind: &str, folder: PathBuf, environment: Environment) -> Result<Environment, String> {
    if kind == "zookeeper" {
        let has_classes = ["lib", ""].iter().any(|place| has_zookeeper(&folder.join(place)));
        return match has_classes {
            true => Ok(Environment { folder: Some(folder), ..environment }),
            false => Err("neither the folder nor its lib has a zookeeper….jar".to_owned()),
        };
    }
    let mut links = Vec::new();
    for program in programs(kind) {
        match place_of(program, &folder) {
            Some(place) => {
                check_program(&folder.join(&place))?;
                if place != Path::new(program.name) {
                    links.push((program.name.to_owned(), place));
                }
            }
            None if program.is_needed => {
                return Err(format!("the folder has no program {}", program.names().join(" or ")));
            }
            None => {}
        }
    }
    Ok(Environment { folder: Some(folder), links, ..environment })
}

/// Where in the folder the program lies: the one nearest to the top, whatever lies beside it.
fn place_of(program: &OwnProgram, folder: &Path) -> Option<PathBuf> {
    let names = program.names();
    let mut places = vec![PathBuf::new()];
    for _ in 0..DEEPEST {
        let in_places = names.iter().flat_map(|name| places.iter().map(move |place| place.join(name)));
        if let Some(found) = in_places.into_iter().find(|place| folder.join(place).is_file()) {
            return Some(found);
        }
        places = places.iter().flat_map(|place| folders_in(folder, place)).collect();
    }
    None
}

/// The folders in this place of the folder, by name. Links are not followed: they may lead back.
fn folders_in(folder: &Path, place: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join(place)).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut folders: Vec<PathBuf> = folders.map(|entry| place.join(entry.file_name())).collect();
    folders.sort();
    folders
}

fn has_zookeeper(folder: &Path) -> bool {
    let is_jar =
        |name: &str| name == "zookeeper.jar" || (name.starts_with("zookeeper-") && name.ends_with(".jar"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| name.to_str().is_some_and(is_jar))
}

/// Refuses what cannot be started here: a file that is no program, or one for another machine.
fn check_program(path: &Path) -> Result<(), String> {
    let read = || -> std::io::Result<(bool, Vec<u8>)> {
        let mut head = Vec::new();
        let mut file = File::open(path)?;
        file.by_ref().take(20).read_to_end(&mut head)?;
        Ok((file.metadata()?.permissions().mode() & 0o111 != 0, head))
    };
    let (may_be_run, head) = read().map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let path = path.display();
    if !may_be_run {
        return Err(format!("{path} is no program: it may not be executed"));
    }
    match machine_of(&head) {
        Some(machine) if machine != OWN_MACHINE => {
            let name = machine_name(machine);
            Err(format!("{path} is a program for {name}, and this machine is {}", machine_name(OWN_MACHINE)))
        }
        // A script.
        None if !head.starts_with(b"#!") => Err(format!("{path} is neither a program of Linux nor a script")),
        _ => Ok(()),
    }
}

/// The number of this machine's kind in a program's head (`e_machine` in elf.h).
const OWN_MACHINE: u16 = if cfg!(target_arch = "aarch64") { AARCH64 } else { X86_64 };
const X86_64: u16 = 62;
const AARCH64: u16 = 183;

/// The kind of machine that a program is for, by its first bytes (the manual page elf(5)).
fn machine_of(head: &[u8]) -> Option<u16> {
    let number = head.get(18..20)?.try_into().ok()?;
    head.starts_with(b"\x7fELF").then(|| u16::from_le_bytes(number))
}

fn machine_name(machine: u16) -> String {
    match machine {
        X86_64 => "x86-64".to_owned(),
        AARCH64 => "ARM64".to_owned(),
        other => format!("another kind of machine ({other} in elf.h)"),
    }
}

impl fmt::Display for OwnServer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, name: &str, content: &[u8], mode: u32) {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    fn environment(path: &Path, kind: &str) -> Result<Arc<Environment>, String> {
        let own = OwnServer::parse(&path.display().to_string()).unwrap();
        own.environment(kind).map_err(|refusal| refusal.sentence)
    }

    #[test]
    fn a_path_or_an_image_is_a_server_of_ones_own() {
        assert!(OwnServer::parse("redis-7.0").is_none());
        let parse = |text: &str| OwnServer::parse(text).unwrap().origin;
        assert_eq!(parse("folder:my-etcd"), ServerOrigin::Path("my-etcd".into()));
        assert_eq!(parse("./src/redis-server"), ServerOrigin::Path("./src/redis-server".into()));
        assert_eq!(parse("image:valkey/valkey:9"), ServerOrigin::Image("valkey/valkey:9".to_owned()));
    }

    #[test]
    fn programs_are_found_where_builds_and_installations_have_them() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "src/valkey-server", b"#!/bin/sh\n", 0o755);
        let found = environment(folder.path(), "redis").unwrap();
        assert_eq!(found.links, [("redis-server".to_owned(), PathBuf::from("src/valkey-server"))]);
        assert!(found.leads && found.packages.contains(&"iptables".to_owned()));
        let program = environment(&folder.path().join("src/valkey-server"), "redis").unwrap();
        assert_eq!(program.links, [("redis-server".to_owned(), PathBuf::from("valkey-server"))]);
        assert_eq!(environment(folder.path(), "valkey").unwrap().links, found.links);
        let refused = environment(folder.path(), "etcd").unwrap_err();
        assert!(refused.contains("has no program etcd"), "{refused}");
        let refused = environment(&folder.path().join("src/valkey-server"), "postgres").unwrap_err();
        assert!(refused.contains("a postgres is more than one file"), "{refused}");
    }

    #[test]
    fn what_cannot_be_started_here_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
        head.extend_from_slice(&243_u16.to_le_bytes());
        let refusal = |name: &str| environment(&folder.path().join(name), "redis").unwrap_err();
        put(folder.path(), "foreign", &head, 0o755);
        assert!(refusal("foreign").contains("another kind of machine (243 in elf.h), and this machine is"));
        put(folder.path(), "text", b"hello", 0o755);
        assert!(refusal("text").contains("neither a program of Linux nor a script"));
        put(folder.path(), "shut", b"#!/bin/sh\n", 0o644);
        assert!(refusal("shut").contains("may not be executed"));
        assert!(refusal("gone").contains("is not there"));
    }

    #[test]
    fn this_machines_own_program_is_taken_where_it_has_one() {
        let own = OwnServer::parse("machine").unwrap();
        let refused = |kind: &str| own.environment(kind).map_err(|refusal| refusal.sentence).err();
        assert!(refused("postgres").unwrap().contains("folder:/opt/postgres"), "more than one file");
        for kind in ["redis", "etcd", "nats"] {
            let is_there = installed(kind).is_ok();
            assert_eq!(refused(kind).is_none(), is_there);
            assert!(is_there || refused(kind).unwrap().contains("this machine has no "));
        }
        assert_eq!(OwnServer::parse("machine").map(|own| own.to_string()).as_deref(), Some("machine"));
    }

    #[test]
    fn zookeeper_is_a_folder_of_classes() {
        let folder = tempfile::tempdir().unwrap();
        assert!(environment(folder.path(), "zookeeper").unwrap_err().contains("zookeeper….jar"));
        put(folder.path(), "lib/zookeeper-3.9.3.jar", b"", 0o644);
        assert!(environment(folder.path(), "zookeeper").is_ok());
    }
}
