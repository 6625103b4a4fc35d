//! Which images there are, and what each is made of.

use super::releases::{RELEASES, Release};
use super::servers::{Server, VERSION, server};
use crate::ClusterError;
use crate::debian::{DEFAULT_SUITE, Suite};
use crate::hash::short_hash;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Changes when root file systems are put together in another way.
const RECIPE: &str = "6";

/// What a kind of node is made of.
#[derive(Debug)]
pub struct Image {
    pub name: Cow<'static, str>,
    /// Programs that a node needs, by name or path; with all of them and the files no image is needed.
    pub(crate) programs: &'static [&'static str],
    pub(crate) files: &'static [&'static str],
    pub(crate) suite: Suite,
    pub(crate) packages: Cow<'static, str>,
    pub(crate) release: Option<&'static Release>,
}

pub(crate) const PACKAGES: &str = "packages";

/// All images without a named release: of the servers of the default suite, and of clients.
pub static ALL: LazyLock<Vec<Image>> = LazyLock::new(|| {
    let servers = RELEASES.iter().filter(|release| release.is_default()).filter_map(of_release);
    servers.chain([CLIENT]).collect()
});

static OTHERS: LazyLock<Vec<Image>> = LazyLock::new(|| {
    let others = RELEASES.iter().filter(|release| !release.is_default());
    others.filter_map(of_release).collect()
});

fn known() -> impl Iterator<Item = &'static Image> {
    ALL.iter().chain(OTHERS.iter())
}

pub fn name_of(release: &Release) -> Option<&'static str> {
    known().find(|image| image.release == Some(release)).map(|image| image.name.as_ref())
}

fn of_release(release: &'static Release) -> Option<Image> {
    let Server { name, packages, programs, files, .. } = server(release.server)?;
    Some(Image {
        name: if release.is_default() { (*name).into() } else { release.name().into() },
        programs,
        files,
        suite: Suite::find(release.suite).ok()?,
        packages: packages.replace(VERSION, release.version).into(),
        release: Some(release),
    })
}

const CLIENT: Image = Image {
    name: Cow::Borrowed("client"),
    programs: &["iptables"],
    files: &[],
    suite: DEFAULT_SUITE,
    packages: Cow::Borrowed(include_str!("../../../../docker/client/packages")),
    release: None,
};

/// The image of that name. The error names the known ones.
pub fn find(name: &str) -> Result<&'static Image, ClusterError> {
    let of_default = RELEASES.iter().find(|release| release.is_default() && release.name() == name);
    let name = of_default.map_or(name, |release| release.server);
    known().find(|image| image.name == name).ok_or_else(|| {
        let names: Vec<&str> = known().map(|image| image.name.as_ref()).collect();
        ClusterError::new(format!("there is no image {name}; there are {}", names.join(", ")))
    })
}

impl Image {
    pub(crate) fn hash(&self) -> String {
        short_hash(format!("{RECIPE}\n{}\n{}", self.suite, self.packages).as_bytes())
    }

    /// Whether this machine has all programs that its nodes run. Another release's are never this machine's.
    pub(crate) fn can_be_this_machines(&self) -> bool {
        let is_usual = self.release.is_none_or(|release| release.is_default() && release.server != "valkey");
        is_usual && self.programs.iter().chain(self.files).all(|name| installed(name).is_some())
    }

    pub(crate) fn with_packages(packages: &[String], suite: Suite) -> Image {
        let more: BTreeSet<&str> = packages.iter().map(String::as_str).collect();
        if more.is_empty() && suite == CLIENT.suite {
            return CLIENT;
        }
        let lines: String = more.iter().map(|name| format!("{name}\n")).collect();
        let packages = format!("{}\n{lines}", CLIENT.packages.trim_end());
        Image { name: PACKAGES.into(), packages: packages.into(), suite, ..CLIENT }
    }

    /// For messages: `redis`, or `with python3-venv`.
    pub(crate) fn title(&self) -> String {
        if self.name != PACKAGES {
            return self.name.to_string();
        }
        let client = CLIENT;
        let known: Vec<&str> = client.package_names().collect();
        let more: Vec<&str> = self.package_names().filter(|name| !known.contains(name)).collect();
        match more.is_empty() {
            true => format!("of {}", self.suite),
            false => format!("with {}", more.join(", ")),
        }
    }

    /// Whether this Fencepost would make such an image; unknown for users' packages.
    pub(crate) fn is_current(name: &str, hash: &str) -> bool {
        name == PACKAGES || find(name).is_ok_and(|image| image.hash() == hash)
    }

    pub(crate) fn package_names(&self) -> impl Iterator<Item = &str> {
        self.packages.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
    }
}

/// Where a program is installed on this machine. Those of root are looked for, too, whatever the user's PATH.
pub(super) fn installed(name: &str) -> Option<PathBuf> {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::super::servers::SERVERS;
    use super::*;

    #[test]
    fn every_image_names_packages() {
        for image in known() {
            assert!(image.package_names().any(|name| name == "iptables"), "{}", image.name);
            assert_eq!(find(&image.name).unwrap().hash(), image.hash());
        }
    }

    #[test]
    fn packages_make_an_image_of_their_own_in_any_order() {
        let with = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            Image::with_packages(&names, DEFAULT_SUITE)
        };
        let other = Image::with_packages(&["php-cli".to_owned()], Suite::find("bookworm").unwrap());
        assert_ne!(other.hash(), with(&["php-cli"]).hash());
        let image = with(&["python3-venv", "php-cli", "php-cli"]);
        assert_eq!(image.title(), "with php-cli, python3-venv");
        assert_eq!(image.hash(), with(&["php-cli", "python3-venv"]).hash());
        assert_ne!(image.hash(), with(&["php-cli"]).hash());
        assert!(image.package_names().any(|name| name == "iptables"));
        assert_eq!((with(&[]).title(), with(&[]).hash()), ("client".to_owned(), CLIENT.hash()));
    }

    #[test]
    fn an_unknown_image_is_refused_with_the_known_ones() {
        let refused = find("rediss").unwrap_err().0;
        assert!(refused.contains("there is no image rediss; there are redis, "), "{refused}");
        assert_eq!(find("postgres-18").unwrap().package_names().next(), Some("postgresql-18"));
    }

    #[test]
    fn every_folder_of_packages_is_of_an_image() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docker");
        let entries = std::fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_dir());
        let folders: BTreeSet<String> = entries.map(|it| it.file_name().into_string().unwrap()).collect();
        let servers = SERVERS.iter().map(|server| server.name).chain(["client"]);
        assert_eq!(folders, servers.map(str::to_owned).collect());
    }
}
