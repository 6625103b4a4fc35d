//! A root file system out of Debian's packages, without a registry, an engine, or the right to install anything.
//!
//! Packages are unpacked, not installed, so what their scripts would have set up is set up here: the links of the
//! merged /usr, the alternatives of iptables, and a few files in /etc.

use super::apt::{self, Apt, make_folder, write};
use super::commands::{remove_folder, run};
use super::definitions::{Image, MAKERS, PACKAGES, installed};
use crate::{ClusterError, Progress};
use nix::libc;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;

/// What every root file system has: the shell and the commands that locks and faults run.
const BASE: [&str; 10] =
    ["base-files", "bash", "coreutils", "dash", "findutils", "grep", "hostname", "libc-bin", "procps", "sed"];

/// Folders that are not unpacked: no program reads them.
const LEFT_OUT: [&str; 6] = ["doc", "info", "locale", "man", "lintian", "bug"];

const FILES: [(&str, &str); 4] = [
    ("etc/passwd", include_str!("etc/passwd")),
    ("etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
    ("etc/hosts", "127.0.0.1 localhost\n::1 localhost\n"),
];

/// Makes it under another name, tries it, and then gives it its name: what bears the name is whole.
pub(super) async fn make(image: &Image, folder: &Path, progress: &Progress) -> Result<(), ClusterError> {
    check_programs(image)?;
    progress(&format!(
        "making the image {} from Debian's packages; this takes a minute, once",
        image.title()
    ));
    let files = download(image, progress).await?;
    progress(&format!("unpacking {} packages of the image {}", files.len(), image.title()));
    let unfinished = folder.with_extension("unfinished");
    if unfinished.exists() {
        remove_folder(&unfinished).await?;
    }
    let made = fill(image, &unfinished, &files).await;
    if made.is_err() {
        let _ = remove_folder(&unfinished).await;
    }
    made?;
    std::fs::rename(&unfinished, folder)
        .map_err(|error| ClusterError::new(format!("cannot rename to {}: {error}", folder.display())))
}

/// Downloads the packages of the image, and all that they need. One image at a time: apt's folder is everyone's.
async fn download(image: &Image, progress: &Progress) -> Result<Vec<PathBuf>, ClusterError> {
    let (apt_folder, _alone) = apt::folder().await?;
    let apt = Apt::open(apt_folder, progress).await?;
    let packages: Vec<&str> = BASE.into_iter().chain(image.package_names()).collect();
    progress(&format!("downloading the packages of the image {}", image.title()));
    apt.download(&packages).await.map_err(|error| match missing_package(&error.to_string()) {
        Some(name) if image.name == PACKAGES => ClusterError::new(format!(
            "Debian has no package {name}: correct `packages` in lock.toml (Debian's name of a program's package can be another)"
        )),
        _ => error,
    })
}

/// The name of the package that apt does not find, from its error.
fn missing_package(error: &str) -> Option<&str> {
    if let Some((_, name)) = error.split_once("Unable to locate package ") {
        return name.split_whitespace().next();
    }
    let (before, _) = error.split_once("' has no installation candidate")?;
    Some(before.rsplit_once("Package '")?.1)
}

fn check_programs(image: &Image) -> Result<(), ClusterError> {
    let missing: Vec<&str> = MAKERS.into_iter().filter(|name| installed(name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if image.name == PACKAGES {
        return Err(ClusterError::new(format!(
            "cannot make an image {}: this machine has no {} to make it from Debian's packages; where it has the programs by \
             other means, leave them out of `packages` in lock.toml and use --driver local",
            image.title(),
            missing.join(", ")
        )));
    }
    Err(ClusterError::new(format!(
        "cannot make the image {}: no container registry answers, and this machine has no {} to make it from \
         Debian's packages; connect the Docker engine to a registry, or install {} here and use --driver local",
        image.name,
        missing.join(", "),
        [image.programs, image.files].concat().join(", ")
    )))
}

async fn fill(image: &Image, root: &Path, packages: &[PathBuf]) -> Result<(), ClusterError> {
    for name in ["bin", "sbin", "lib", "lib64"] {
        make_folder(&root.join("usr").join(name))?;
        link(&format!("usr/{name}"), &root.join(name))?;
    }
    for package in packages {
        unpack(package, root).await?;
    }
    if image.name == PACKAGES {
        note_versions(packages, root).await?;
    }
    for (path, text) in FILES {
        write(&root.join(path), text)?;
    }
    for family in ["iptables", "ip6tables"] {
        for suffix in ["", "-save", "-restore"] {
            link("xtables-nft-multi", &root.join(format!("usr/sbin/{family}{suffix}")))?;
        }
    }
    link("dash", &root.join("usr/bin/sh"))?;
    for program in image.programs {
        try_program(root, program).await?;
    }
    for file in image.files {
        let there = root.join(file.trim_start_matches('/'));
        if !there.is_file() {
            return Err(ClusterError::new(format!("Debian's packages of {} hold no {file}", image.name)));
        }
    }
    Ok(())
}

async fn unpack(package: &Path, root: &Path) -> Result<(), ClusterError> {
    let what = format!("unpack {}", package.display());
    let cannot = |error: std::io::Error| ClusterError::new(format!("cannot {what}: {error}"));
    let (read, write) = std::io::pipe().map_err(cannot)?;
    let mut from = Command::new("dpkg-deb");
    from.arg("--fsys-tarfile").arg(package).stdin(Stdio::null()).stdout(write).kill_on_drop(true);
    let mut from_child = from.spawn().map_err(cannot)?;
    // The other end of the pipe must be the child's alone, or tar would wait for ever.
    drop(from);
    let mut into = Command::new("tar");
    into.arg("-C").arg(root).args(["-x", "-p", "--keep-directory-symlink", "--no-same-owner"]);
    into.args(LEFT_OUT.map(|name| format!("--exclude=./usr/share/{name}/*")));
    let output = into.stdin(read).kill_on_drop(true).output().await.map_err(cannot)?;
    let unpacked = from_child.wait().await.map_err(cannot)?;
    if unpacked.success() && output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(ClusterError::new(format!("cannot {what}: {}", said.lines().next().unwrap_or("dpkg-deb failed"))))
}

/// Notes the packages as installed, so that `dpkg-query` says their versions: some libraries say them nowhere else.
async fn note_versions(packages: &[PathBuf], root: &Path) -> Result<(), ClusterError> {
    let mut status = String::new();
    for package in packages {
        let mut command = Command::new("dpkg-deb");
        let fields =
            run(command.arg("--field").arg(package), "read what a package says about itself").await?;
        status += &format!("{}\nStatus: install ok installed\n\n", fields.trim_end());
    }
    make_folder(&root.join("var/lib/dpkg/info"))?;
    write(&root.join("var/lib/dpkg/status"), &status)
}

/// Unless something is there already.
fn link(to: &str, at: &Path) -> Result<(), ClusterError> {
    match symlink(to, at) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(ClusterError::new(format!("cannot make the link {}: {error}", at.display())))
        }
        _ => Ok(()),
    }
}

/// Runs the program inside, so that a root file system that lacks something never counts.
async fn try_program(root: &Path, program: &str) -> Result<(), ClusterError> {
    let path =
        CString::new(root.as_os_str().as_bytes()).map_err(|error| ClusterError::new(error.to_string()))?;
    let is_root = nix::unistd::geteuid().is_root();
    let mut command = Command::new(program);
    let version = if program == "etcdctl" { "version" } else { "--version" };
    command.arg(version).env_clear().env("PATH", "/usr/sbin:/usr/bin").env("ETCDCTL_API", "3");
    let enter = move || {
        // SAFETY: system calls only, as is right between fork and exec; the path ends in a zero byte.
        let entered = unsafe {
            (is_root || libc::unshare(libc::CLONE_NEWUSER) == 0)
                && libc::chroot(path.as_ptr()) == 0
                && libc::chdir(c"/".as_ptr()) == 0
        };
        if entered { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(enter) };
    run(&mut command, &format!("run {program} in the new root file system")).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::missing_package;

    #[test]
    fn a_package_that_apt_does_not_find_is_named() {
        let missing = |error: &str| missing_package(error).map(str::to_owned);
        let cannot = "cannot find out which of Debian's packages are needed: E: ";
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(
            missing(&format!("{cannot}Unable to locate package python3-redsi")),
            named("python3-redsi")
        );
        assert_eq!(
            missing(&format!("{cannot}Package 'mysql' has no installation candidate")),
            named("mysql")
        );
        assert_eq!(missing(&format!("{cannot}Unable to fetch some archives")), None);
    }
}
