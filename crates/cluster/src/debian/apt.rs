//! Debian's apt, which decides what packages need: without a network, and confined like a node's programs.

use super::download::{RemoteFile, cannot_store};
use super::inside::{run_beside, run_inside};
use super::lists::{self, ReleaseFile};
use super::settings::Mirror;
use super::suite::{Archive, KEYS, Suite, architecture};
use crate::ClusterError;
use fencepost_history::prose::nearest;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, SystemTime};

#[derive(Clone, Debug)]
pub(super) enum Runner {
    Base(PathBuf),
    /// This machine's own, where the base cannot be had. Its settings do not count, and root's is confined.
    Machine,
}

/// A private apt for one suite. The caller must hold the lock on its folder.
#[derive(Debug)]
pub struct Apt {
    runner: Runner,
    suite: Suite,
    folder: PathBuf,
    seen: PathBuf,
}

impl Apt {
    pub(super) fn open(
        runner: Runner,
        all: &Path,
        suite: Suite,
        mirror_is_old: bool,
    ) -> Result<Apt, ClusterError> {
        let (folder, seen) = match &runner {
            Runner::Base(root) => {
                (root.join("suites").join(suite.name), Path::new("/suites").join(suite.name))
            }
            Runner::Machine => {
                let folder = all.join("suites").join(suite.name);
                (folder.clone(), folder)
            }
        };
        let apt = Apt { runner, suite, folder, seen };
        apt.prepare(mirror_is_old)?;
        Ok(apt)
    }

    fn prepare(&self, mirror_is_old: bool) -> Result<(), ClusterError> {
        for name in ["state/lists/partial", "cache/archives/partial", "empty", "tmp"] {
            make_folder(&self.folder.join(name))?;
        }
        for (archive, dist) in self.suite.parts() {
            let list = format!("main/binary-{}", architecture());
            make_folder(&lists::at(&self.lists(), archive, &dist).join(list))?;
        }
        // To apt this is a machine on which nothing is installed: it names everything, down to libc.
        write(&self.folder.join("status"), "")?;
        write(&self.folder.join("keys.gpg"), KEYS)?;
        write(&self.folder.join("sources.list"), self.sources(&self.seen))?;
        write(&self.folder.join("apt.conf"), self.settings(mirror_is_old))
    }

    pub fn lists(&self) -> PathBuf {
        self.folder.join("lists")
    }

    fn sources(&self, of: &Path) -> String {
        let (seen, of) = (self.seen.display(), of.display());
        let line = |(archive, dist): (Archive, String)| {
            format!("deb [signed-by={seen}/keys.gpg] file:{of}/lists/{} {dist} main\n", archive.folder())
        };
        self.suite.parts().into_iter().map(line).collect()
    }

    fn settings(&self, mirror_is_old: bool) -> String {
        let seen = self.seen.display();
        let mut settings: String = [
            ("Dir::State", "state"),
            ("Dir::Cache", "cache"),
            ("Dir::State::status", "status"),
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::Etc::sourceparts", "empty"),
            ("Dir::Etc::parts", "empty"),
            ("Dir::Etc::preferences", "none"),
            ("Dir::Etc::preferencesparts", "empty"),
            ("Dir::Etc::trustedparts", "empty"),
        ]
        .map(|(name, path)| format!("{name} \"{seen}/{path}\";\n"))
        .concat();
        let architecture = architecture();
        settings +=
            &format!("APT::Architecture \"{architecture}\";\nAPT::Architectures \"{architecture}\";\n");
        // apt's own user need not be able to read the folder; no phased updates: all machines make one image.
        settings += "APT::Sandbox::User \"root\";\nAPT::Get::Always-Include-Phased-Updates \"true\";\n";
        settings += "Acquire::ForceHash \"SHA256\";\nAcquire::Languages \"none\";\nAPT::Update::Error-Mode \"any\";\n";
        settings += "APT::Install-Recommends \"false\";\nAPT::Color \"false\";\n";
        if let Some(preferred) = self.suite.preferred() {
            settings += &format!("APT::Default-Release \"{preferred}\";\n");
        }
        if mirror_is_old {
            settings += "Acquire::Check-Valid-Until \"false\";\n";
        }
        settings
    }

    /// How long ago the lists were checked, where they came from this mirror; none where there are none.
    pub(super) fn age(&self, mirror: &Mirror) -> Option<Duration> {
        let from = fs::read_to_string(self.updated()).ok()?;
        (from == mirror.name(Archive::Main)).then(|| self.age_of_any()).flatten()
    }

    /// The same, wherever they came from. A clock that was set back makes them no younger than new.
    pub(super) fn age_of_any(&self) -> Option<Duration> {
        let at = fs::metadata(self.updated()).and_then(|it| it.modified()).ok()?;
        Some(SystemTime::now().duration_since(at).unwrap_or_default())
    }

    fn updated(&self) -> PathBuf {
        self.folder.join("updated")
    }

    /// Checks and reads the downloaded lists. Those of before stay in use if they are not accepted.
    pub(super) async fn update(&self, mirror: &Mirror) -> Result<(), ClusterError> {
        self.run_update(&[], mirror).await?;
        write(&self.updated(), mirror.name(Archive::Main))
    }

    async fn run_update(&self, options: &[&str], mirror: &Mirror) -> Result<(), ClusterError> {
        let output = self.run(&[&["-q", "update"], options].concat()).await?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(lists::refused(&String::from_utf8_lossy(&said), self.suite, mirror, &self.folder))
    }

    /// Checks the signatures of these lists alone, in a temporary folder: earlier lists stay in use.
    pub(super) async fn check(&self, releases: &[ReleaseFile], mirror: &Mirror) -> Result<(), ClusterError> {
        let (folder, seen) = (self.folder.join("check"), self.seen.join("check"));
        let _ = fs::remove_dir_all(&folder);
        let checked = async {
            make_folder(&folder.join("state/partial"))?;
            releases.iter().try_for_each(|release| release.store(&folder.join("lists")))?;
            write(&folder.join("sources.list"), self.sources(&seen))?;
            let sources = format!("Dir::Etc::sourcelist={}/sources.list", seen.display());
            let state = format!("Dir::State::lists={}/state", seen.display());
            let no_lists = "Acquire::IndexTargets::deb::Packages::DefaultEnabled=false";
            self.run_update(&["-o", &sources, "-o", &state, "-o", no_lists], mirror).await
        };
        let checked = checked.await;
        let _ = fs::remove_dir_all(&folder);
        checked
    }

    pub(super) async fn resolve(
        &self,
        packages: &[&str],
        mirror: &Mirror,
    ) -> Result<Vec<RemoteFile>, ClusterError> {
        let options = ["-q", "--print-uris", "--yes", "--no-install-recommends", "install", "--"];
        let output = self.run(&[&options, packages].concat()).await?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(self.cannot_resolve(&said));
        }
        // 'address' file size hash
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines()
            .filter(|line| line.starts_with('\''))
            .map(|line| self.remote_file(line, mirror))
            .collect()
    }

    fn remote_file(&self, line: &str, mirror: &Mirror) -> Result<RemoteFile, ClusterError> {
        let unreadable = || ClusterError::new(format!("apt named a package in an unknown form: {line}"));
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, _, bytes, hash] = words[..] else { return Err(unreadable()) };
        let lists = format!("file:{}/lists/", self.seen.display());
        let path = address.trim_matches('\'').strip_prefix(&lists).ok_or_else(unreadable)?;
        let (archive, path) = path.split_once('/').ok_or_else(unreadable)?;
        let archive = Archive::of_folder(archive).ok_or_else(unreadable)?;
        let hash = hash.strip_prefix("SHA256:").ok_or_else(unreadable)?.to_owned();
        let bytes = bytes.parse().map_err(|_| unreadable())?;
        Ok(RemoteFile { address: mirror.address(archive, path), bytes, hash })
    }

    fn cannot_resolve(&self, said: &str) -> ClusterError {
        let suite = self.suite;
        if let Some(name) = missing_package(said) {
            let names = self.names();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let near = nearest_names(name, &names);
            let hint = match near.is_empty() {
                true => "Debian's name of a program's package can be another".to_owned(),
                false => format!("there are {}", near.join(", ")),
            };
            return ClusterError::new(format!("Debian's suite {suite} has no package {name}: {hint}"));
        }
        let last = said.lines().rfind(|line| line.starts_with("E:")).or(said.lines().last());
        let last = last.unwrap_or("apt said nothing").trim_start_matches("E:").trim();
        ClusterError::new(format!(
            "cannot find out which of Debian's packages are needed (suite {suite}): {last}"
        ))
    }

    fn names(&self) -> Vec<String> {
        let entries =
            fs::read_dir(self.folder.join("state/lists")).map(|it| it.flatten().collect::<Vec<_>>());
        let lists = entries.unwrap_or_default().into_iter().map(|entry| entry.path());
        let files = lists
            .filter(|path| path.to_string_lossy().ends_with("_Packages"))
            .filter_map(|it| fs::File::open(it).ok());
        let lines = files.flat_map(|file| BufReader::new(file).lines().map_while(Result::ok));
        lines.filter_map(|line| line.strip_prefix("Package: ").map(str::to_owned)).collect()
    }

    async fn run(&self, args: &[&str]) -> Result<Output, ClusterError> {
        let cannot = |error: std::io::Error| {
            ClusterError::new(format!(
                "cannot run apt to find out which packages are needed: {error}; as another user than root this needs user namespaces \
                 (`fencepost doctor`)"
            ))
        };
        let mut command = std::process::Command::new("apt-get");
        command.args(args).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8");
        command.env("APT_CONFIG", self.seen.join("apt.conf")).env("TMPDIR", self.seen.join("tmp"));
        match &self.runner {
            Runner::Base(root) => run_inside(&mut command, root)?,
            Runner::Machine => run_beside(&mut command, &self.folder)?,
        }
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::null()).kill_on_drop(true).output().await.map_err(cannot)
    }
}

fn missing_package(error: &str) -> Option<&str> {
    if let Some((_, name)) = error.split_once("Unable to locate package ") {
        return name.split_whitespace().next();
    }
    let (before, _) = error.split_once("' has no installation candidate")?;
    Some(before.rsplit_once("Package '")?.1)
}

/// Up to three names that may have been meant: the nearest, and those with other numbers (`postgresql-17`).
fn nearest_names<'a>(name: &str, names: &[&'a str]) -> Vec<&'a str> {
    let without_numbers =
        |name: &str| name.chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect::<String>();
    let shape = without_numbers(name);
    let mut near: Vec<&str> = names.iter().copied().filter(|known| without_numbers(known) == shape).collect();
    near.extend(nearest(name, names));
    near.sort_unstable();
    near.dedup();
    near.truncate(3);
    near
}

fn make_folder(path: &Path) -> Result<(), ClusterError> {
    fs::create_dir_all(path).map_err(|error| cannot_store(path)(error).into())
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), ClusterError> {
    fs::write(path, content).map_err(|error| cannot_store(path)(error).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_apt_does_not_find_is_named() {
        let located = "E: Unable to locate package redis-sever";
        assert_eq!(missing_package(located), Some("redis-sever"));
        let virtual_only = "E: Package 'redis' has no installation candidate";
        assert_eq!(missing_package(virtual_only), Some("redis"));
        assert_eq!(missing_package("E: Temporary failure resolving 'HOST'"), None);
    }

    #[test]
    fn names_that_may_have_been_meant_come_with_other_numbers() {
        let names = ["postgresql-15", "postgresql", "php8.2-cli", "redis-server"];
        assert_eq!(nearest_names("postgresql-17", &names), ["postgresql-15"]);
        assert_eq!(nearest_names("php8.4-cli", &names), ["php8.2-cli"]);
        assert_eq!(nearest_names("redis-sever", &names), ["redis-server"]);
        assert!(nearest_names("a", &names).is_empty());
    }
}
