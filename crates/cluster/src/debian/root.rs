//! A root file system of Debian's packages, without a registry, an engine, or the right to install anything.
//! Packages are unpacked, not installed, so what their scripts would do is done here: the links of the merged
//! /usr, the alternatives of iptables, and a few files in /etc.

use super::base::unpack;
use super::inside::run_inside;
use super::settings::DownloadSettings;
use super::unpack::{Described, make_merged_links};
use super::users;
use crate::error::{cannot, if_there};
use crate::images::{Image, Release};
use crate::{ClusterError, Progress};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// What every root file system has: the shell and the commands that locks and faults run.
const BASE: [&str; 10] =
    ["base-files", "bash", "coreutils", "dash", "findutils", "grep", "hostname", "libc-bin", "procps", "sed"];

const FILES: [(&str, &str); 4] = [
    ("etc/passwd", include_str!("etc/passwd")),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
];

/// Usual names of programs that packages leave to a script: folder (with `*`), beginning, usual name.
const ALTERNATIVES: [(&str, &str, &str); 13] = [
    ("usr/bin", "gcc", "cc"),
    ("usr/bin", "g++", "c++"),
    ("usr/bin", "mawk", "awk"),
    ("usr/bin", "php8", "php"),
    ("usr/bin", "nodejs", "node"),
    ("usr/lib/jvm/*/bin", "java", "java"),
    ("usr/lib/jvm/*/bin", "javac", "javac"),
    ("usr/lib/jvm/*/bin", "jar", "jar"),
    // Valkey's programs take the place of Redis's.
    ("usr/bin", "valkey-server", "redis-server"),
    ("usr/bin", "valkey-cli", "redis-cli"),
    ("usr/lib/postgresql/*/bin", "postgres", "postgres"),
    ("usr/lib/postgresql/*/bin", "initdb", "initdb"),
    // Under `psql` Debian has a wrapper in Perl, which looks for clusters of its own.
    ("usr/lib/postgresql/*/bin", "psql", "postgres-psql"),
];

/// Makes the root file system of an image under another name, tries it, and then gives it its name: what
/// bears the name is whole.
pub(crate) async fn make(
    image: &Image,
    folder: &Path,
    settings: &DownloadSettings,
    progress: &Progress,
) -> Result<(), ClusterError> {
    let (title, suite) = (image.title(), image.suite);
    progress(&format!("making the image {title} from the packages of Debian's suite {suite}, once"));
    let packages: Vec<&str> = BASE.into_iter().chain(image.package_names()).collect();
    let files = super::download(suite, &packages, settings, progress).await?;
    progress(&format!("unpacking {} packages of the image {title}", files.len()));
    let unfinished = folder.with_extension("unfinished");
    remove(&unfinished).await?;
    let made = fill(image, &unfinished, files).await;
    if made.is_err() {
        let _ = remove(&unfinished).await;
    }
    made?;
    fs::rename(&unfinished, folder).map_err(cannot("make", folder))
}

async fn remove(folder: &Path) -> Result<(), ClusterError> {
    if_there(tokio::fs::remove_dir_all(folder).await).map_err(cannot("remove", folder))
}

async fn fill(image: &Image, root: &Path, packages: Vec<PathBuf>) -> Result<(), ClusterError> {
    make_merged_links(root).map_err(cannot("make folders in", root))?;
    let descriptions = unpack(packages, root).await?;
    note_versions(&descriptions, root)?;
    if let Some(release) = image.release {
        check_release(release, &descriptions)?;
    }
    let made: Vec<String> = descriptions.iter().flat_map(|described| described.users.clone()).collect();
    let (users, groups) = users::lines(&made);
    for (path, text) in FILES {
        let more = match path {
            "etc/passwd" => &users,
            "etc/group" => &groups,
            _ => "",
        };
        write(&root.join(path), &format!("{text}{more}"))?;
    }
    for family in ["iptables", "ip6tables"] {
        for suffix in ["", "-save", "-restore"] {
            link("xtables-nft-multi", &root.join(format!("usr/sbin/{family}{suffix}")))?;
        }
    }
    link("dash", &root.join("usr/bin/sh"))?;
    for (folder, program, name) in ALTERNATIVES {
        if let Some(found) = alternative(root, folder, program) {
            link(&found, &root.join("usr/bin").join(name))?;
        }
    }
    for program in image.programs {
        try_program(root, program).await?;
    }
    for file in image.files {
        // Links lead to places of the root file system itself, which lie elsewhere here.
        if fs::symlink_metadata(root.join(file.trim_start_matches('/'))).is_err() {
            return Err(format!("Debian's packages of {} hold no {file}", image.title()).into());
        }
    }
    // Before it gets its name: a loss of power must not leave half of it under that name.
    let folder = fs::File::open(root).map_err(cannot("open", root))?;
    let synced = tokio::task::spawn_blocking(move || nix::unistd::syncfs(folder)).await;
    let synced = synced.map_err(|error| error.to_string())?;
    synced.map_err(|error| cannot("write", root)(error.into()))
}

/// Notes the packages as installed: some libraries know their version only by `dpkg-query`.
fn note_versions(descriptions: &[Described], root: &Path) -> Result<(), ClusterError> {
    let status: String = descriptions
        .iter()
        .map(|Described { fields, .. }| format!("{fields}\nStatus: install ok installed\n\n"))
        .collect();
    let folder = root.join("var/lib/dpkg/info");
    fs::create_dir_all(&folder).map_err(cannot("make the folder", &folder))?;
    write(&root.join("var/lib/dpkg/status"), &status)
}

/// Refuses packages of another version than was asked for: suites that are not released move on.
fn check_release(release: &Release, descriptions: &[Described]) -> Result<(), ClusterError> {
    let packages = release.packages();
    let field = |fields: &str, name: &str| {
        fields.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
    };
    let mut all = descriptions.iter().map(|described| described.fields.as_str());
    let found = all.find(|fields| field(fields, "Package:").is_some_and(|name| packages.contains(&name)));
    let version = found.and_then(|fields| field(fields, "Version:")).unwrap_or_else(|| "none".to_owned());
    match release.is_version(&version) {
        true => Ok(()),
        false => Err(ClusterError::new(format!(
            "{release} cannot be had: the suite {} of Debian now has {} {version}; \
             `fencepost list servers` shows the other versions",
            release.suite, packages[0]
        ))),
    }
}

fn write(path: &Path, text: &str) -> Result<(), ClusterError> {
    fs::write(path, text).map_err(cannot("write", path))
}

/// The path of the program with this name, or else of the first whose name goes on with a number (`php8.2`).
fn alternative(root: &Path, folder: &str, program: &str) -> Option<String> {
    let folders = match folder.split_once("*/") {
        None => vec![folder.to_owned()],
        Some((before, after)) => {
            let mut names = names(&root.join(before));
            names.sort();
            names.into_iter().map(|name| format!("{before}{name}/{after}")).collect()
        }
    };
    folders.into_iter().find_map(|folder| {
        let is_it = |name: &String| {
            let rest = name.strip_prefix(program);
            rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
        };
        let found = names(&root.join(&folder)).into_iter().filter(is_it).min()?;
        Some(format!("/{folder}/{found}"))
    })
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn link(to: &str, at: &Path) -> Result<(), ClusterError> {
    match symlink(to, at) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(cannot("make the link", at)(error)),
        _ => Ok(()),
    }
}

/// Runs the program inside, so that a root file system that lacks something never counts.
async fn try_program(root: &Path, program: &str) -> Result<(), ClusterError> {
    let mut command = std::process::Command::new(program);
    let version = if program == "etcdctl" { "version" } else { "--version" };
    command.arg(version).env_clear().env("PATH", "/usr/sbin:/usr/bin").env("ETCDCTL_API", "3");
    run_inside(&mut command, root)?;
    let what = format!("run {program} in the new root file system");
    let output = Command::from(command).stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| format!("cannot {what}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("cannot {what}: {}", said.lines().last().unwrap_or("it failed without a word")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_names_lead_to_what_is_there() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        };
        put("usr/bin/php8.2");
        put("usr/bin/gcc-12");
        put("usr/bin/gcc");
        put("usr/lib/jvm/java-17-openjdk-amd64/bin/java");
        let found = |folder, program| alternative(root.path(), folder, program);
        assert_eq!(found("usr/bin", "php8").unwrap(), "/usr/bin/php8.2");
        assert_eq!(found("usr/bin", "gcc").unwrap(), "/usr/bin/gcc");
        assert_eq!(
            found("usr/lib/jvm/*/bin", "java").unwrap(),
            "/usr/lib/jvm/java-17-openjdk-amd64/bin/java"
        );
        assert_eq!(found("usr/bin", "mawk"), None);
    }
}
