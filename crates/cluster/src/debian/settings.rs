//! Where packages are downloaded from: what the user sets, and else what this machine knows.

use super::suite::Archive;
use crate::ClusterError;
use fencepost_history::{Refusal, without_secrets};
use std::path::Path;
use std::sync::OnceLock;

pub const MIRROR: &str = "FENCEPOST_MIRROR";
pub const SECURITY_MIRROR: &str = "FENCEPOST_SECURITY_MIRROR";

/// The variable by which old lists of packages are accepted.
pub(super) const OLD_LISTS: &str = "FENCEPOST_OLD_LISTS";

/// In an address: the place of the archive's name, `debian` or `debian-security`.
const ARCHIVE: &str = "{archive}";

static OF_THE_FILE: OnceLock<DownloadSettings> = OnceLock::new();

/// What a user can set about downloads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DownloadSettings {
    /// The address of a mirror of Debian, which ends in `/debian` or has `{archive}` in it.
    pub mirror: Option<String>,
    /// The address of a mirror of Debian's security updates, where it does not follow from the other.
    pub security_mirror: Option<String>,
    /// The address of an HTTP proxy; without one, the usual variables (`http_proxy` and so on) count.
    pub proxy: Option<String>,
    pub old_lists: bool,
}

impl DownloadSettings {
    /// What the environment says, and else the file of options.
    pub fn current() -> DownloadSettings {
        let set = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        let file = OF_THE_FILE.get().cloned().unwrap_or_default();
        let mirror = set(MIRROR);
        // A security mirror belongs to the mirror that stands beside it.
        let security = if mirror.is_some() { None } else { file.security_mirror };
        DownloadSettings {
            mirror: mirror.or(file.mirror),
            security_mirror: set(SECURITY_MIRROR).or(security),
            proxy: file.proxy,
            old_lists: file.old_lists || set(OLD_LISTS).is_some(),
        }
    }

    /// Remembers the settings of the file of options, for the whole program.
    pub fn set_defaults(settings: DownloadSettings) {
        // The file is read once.
        let _ = OF_THE_FILE.set(settings);
    }

    pub(crate) fn knows_a_mirror(&self) -> bool {
        self.mirror.is_some() || Mirror::of_this_machine(Path::new("/etc/apt")).is_some()
    }

    pub(crate) fn with_sources(&self, sources: &str) -> DownloadSettings {
        let found = Mirror::of_addresses(&addresses(sources));
        let both = found.map(|found| (found.real(Archive::Main), found.real(Archive::Security)));
        let (mirror, security_mirror) = both.unzip();
        DownloadSettings { mirror, security_mirror, ..self.clone() }
    }

    /// Refuses addresses that cannot be used. The error is about the first of them.
    pub fn check(&self) -> Result<(), Refusal> {
        for address in [&self.mirror, &self.security_mirror, &self.proxy].into_iter().flatten() {
            let (scheme, rest) = address.split_once("://").unwrap_or_default();
            if !["http", "https"].contains(&scheme) || rest.is_empty() || rest.contains(char::is_whitespace) {
                return Err(Refusal::new(format!(
                    "invalid address {:?}: expected one that begins with http:// or https://",
                    without_secrets(address)
                )));
            }
        }
        match &self.mirror {
            Some(mirror) => Mirror::of(mirror, self.security_mirror.as_deref()).map(drop),
            None => Ok(()),
        }
    }
}

/// A mirror of Debian's two archives. Its addresses bear no user and password: messages and files show them.
#[derive(Clone, PartialEq, Eq)]
pub struct Mirror {
    main: String,
    security: String,
    logins: [String; 2],
}

impl Mirror {
    /// The one of the settings, else the one that this machine's own packages come from.
    pub fn find(settings: &DownloadSettings) -> Result<Mirror, ClusterError> {
        settings.check()?;
        match &settings.mirror {
            Some(mirror) => Ok(Mirror::of(mirror, settings.security_mirror.as_deref())?),
            None => Mirror::of_this_machine(Path::new("/etc/apt")).ok_or_else(|| {
                ClusterError::new(format!(
                    "no mirror of Debian is known, from which the packages of nodes could be downloaded: this machine's own \
                     packages are not Debian's. Set {MIRROR} to the address of a mirror, such as http://HOST/debian \
                     (docs/installing.md)"
                ))
            }),
        }
    }

    fn of(main: &str, security: Option<&str>) -> Result<Mirror, Refusal> {
        let main = main.trim_end_matches('/');
        let own = |archive: Archive| main.replace(ARCHIVE, archive.folder());
        let security = match security {
            Some(security) => security.trim_end_matches('/').replace(ARCHIVE, Archive::Security.folder()),
            None if main.contains(ARCHIVE) => own(Archive::Security),
            None => match main.strip_suffix("/debian") {
                Some(host) => format!("{host}/debian-security"),
                None => {
                    return Err(Refusal::new(format!(
                        "invalid mirror {:?}: expected an address that ends in /debian or has {ARCHIVE} in the place of \
                         that name; or set {SECURITY_MIRROR}, too",
                        without_secrets(main)
                    )));
                }
            },
        };
        let ((main, login), (security, of_security)) = (apart(&own(Archive::Main)), apart(&security));
        Ok(Mirror { main, security, logins: [login, of_security] })
    }

    /// The address by which the archive is reached, with the user and password that were given.
    fn real(&self, archive: Archive) -> String {
        let (base, login) = (self.name(archive), &self.logins[archive as usize]);
        match base.split_once("://") {
            Some((scheme, rest)) if !login.is_empty() => format!("{scheme}://{login}@{rest}"),
            _ => base.to_owned(),
        }
    }

    /// By which address a file of this mirror is reached, where that takes a user and a password.
    pub(super) fn with_login(&self, address: &str) -> Option<String> {
        [Archive::Main, Archive::Security].into_iter().find_map(|archive| {
            let path = address.strip_prefix(self.name(archive)).filter(|path| path.starts_with('/'))?;
            (!self.logins[archive as usize].is_empty()).then(|| self.real(archive) + path)
        })
    }

    /// The mirror in the sources of an apt, where it is one of Debian. It counts where no apt is, too.
    pub(super) fn of_this_machine(etc_apt: &Path) -> Option<Mirror> {
        let mut files: Vec<_> = std::fs::read_dir(etc_apt.join("sources.list.d"))
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        files.sort();
        files.push(etc_apt.join("sources.list"));
        let texts = files.iter().filter_map(|file| std::fs::read_to_string(file).ok());
        Mirror::of_addresses(&texts.flat_map(|text| addresses(&text)).collect::<Vec<_>>())
    }

    fn of_addresses(addresses: &[String]) -> Option<Mirror> {
        let of = |archive: Archive| {
            let mut all = addresses.iter().map(|address| address.trim_end_matches('/'));
            all.find(|address| address.rsplit('/').next() == Some(archive.folder())).map(str::to_owned)
        };
        let main = of(Archive::Main)?;
        let security = of(Archive::Security);
        Mirror::of(&main, security.as_deref()).ok()
    }

    /// The whole address of a file.
    pub fn address(&self, archive: Archive, path: &str) -> String {
        format!("{}/{path}", self.name(archive))
    }

    pub(super) fn name(&self, archive: Archive) -> &str {
        match archive {
            Archive::Main => &self.main,
            Archive::Security => &self.security,
        }
    }

    /// Whether it shows the archive as it was on some day (`…/20261125T000000Z/…`): its lists may be old.
    pub(super) fn is_snapshot(&self) -> bool {
        let is_time = |part: &str| {
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let inner = part.strip_suffix('Z').and_then(|part| part.split_once('T'));
            inner.is_some_and(|(day, time)| day.len() == 8 && time.len() == 6 && digits(day) && digits(time))
        };
        self.main.split('/').any(is_time)
    }
}

/// An address without what stands before its `@`, and that.
fn apart(address: &str) -> (String, String) {
    let parts = address.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?)));
    match parts {
        Some((scheme, (login, rest))) => (format!("{scheme}://{rest}"), login.to_owned()),
        None => (address.to_owned(), String::new()),
    }
}

/// The addresses in a file of apt's sources, in either of its two forms.
fn addresses(text: &str) -> Vec<String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let words =
        lines.filter(|line| line.starts_with("deb ") || line.to_ascii_lowercase().starts_with("uris:"));
    words.flat_map(str::split_whitespace).flat_map(of_word).collect()
}

/// Images for clouds name a file with addresses.
fn of_word(word: &str) -> Vec<String> {
    if word.starts_with("http://") || word.starts_with("https://") {
        return vec![word.to_owned()];
    }
    let Some(file) = word.strip_prefix("mirror+file:") else { return Vec::new() };
    let text = std::fs::read_to_string(format!("/{}", file.trim_start_matches('/'))).unwrap_or_default();
    text.split_whitespace().filter(|word| word.starts_with("http")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn security_updates_lie_beside_the_archive_by_default() {
        let of =
            |main: &str, security| Mirror::of(main, security).map(|mirror| (mirror.main, mirror.security));
        let pair = |main: &str, security: &str| Ok((main.to_owned(), security.to_owned()));
        assert_eq!(of("http://a/debian/", None), pair("http://a/debian", "http://a/debian-security"));
        assert_eq!(
            of("http://a/{archive}/day", None),
            pair("http://a/debian/day", "http://a/debian-security/day")
        );
        assert_eq!(of("http://a/x", Some("http://b/y/")), pair("http://a/x", "http://b/y"));
        let refused = of("http://a/x", None).unwrap_err();
        assert!(refused.sentence.contains("ends in /debian"), "{refused}");
    }

    #[test]
    fn an_address_that_cannot_be_used_is_refused() {
        for bad in ["ftp://a/debian", "debian", "http://", "http://a b/debian"] {
            let settings = DownloadSettings { mirror: Some(bad.to_owned()), ..Default::default() };
            assert!(settings.check().unwrap_err().sentence.contains("invalid address"), "{bad}");
        }
    }

    #[test]
    fn a_password_is_in_no_address_that_is_shown() {
        let mirror = Mirror::of("http://ann:hunter2@a/debian", None).unwrap();
        let file = mirror.address(Archive::Security, "dists/x");
        assert_eq!(file, "http://a/debian-security/dists/x");
        assert_eq!(mirror.with_login(&file).as_deref(), Some("http://ann:hunter2@a/debian-security/dists/x"));
        assert_eq!(mirror.with_login("http://b/debian/x"), None, "another server does not get it");
        let two = Mirror::of("http://a/debian", Some("http://bob:hunter2@b/s")).unwrap();
        assert_eq!(two.with_login("http://a/debian/x"), None);
        assert_eq!(two.with_login("http://b/s/x").as_deref(), Some("http://bob:hunter2@b/s/x"));
        for wrong in ["ftp://ann:hunter2@a/debian", "http://ann:hunter2@a/x", "http://ann:hunt er2@a/debian"]
        {
            let settings = DownloadSettings { mirror: Some(wrong.to_owned()), ..Default::default() };
            let refused = settings.check().unwrap_err().sentence;
            assert!(!refused.contains("hunt") && refused.contains("a/"), "{refused}");
        }
    }

    #[test]
    fn the_day_of_a_snapshot_is_seen() {
        let is = |main: &str| Mirror::of(main, None).unwrap().is_snapshot();
        assert!(is("http://a/archive/{archive}/20261125T000000Z"));
        assert!(!is("http://a/debian") && !is("http://a/20261125/debian"));
    }

    #[test]
    fn only_debians_archives_count_among_the_sources_of_this_machine() {
        let apt = tempfile::tempdir().unwrap();
        let found = |name: &str, text: &str| {
            let parts = apt.path().join("sources.list.d");
            let _ = std::fs::remove_dir_all(&parts);
            std::fs::create_dir(&parts).unwrap();
            std::fs::write(parts.join(name), text).unwrap();
            Mirror::of_this_machine(apt.path()).map(|mirror| (mirror.main, mirror.security))
        };
        let both = |main: &str, security: &str| Some((main.to_owned(), security.to_owned()));
        let sources = "Types: deb\nURIs: http://a/debian\nSuites: trixie\n\nTypes: deb\nURIs: http://b/debian-security/\n";
        assert_eq!(found("debian.sources", sources), both("http://a/debian", "http://b/debian-security"));
        let lines = "# deb http://x/debian sid main\ndeb [arch=amd64] https://c/debian bookworm main\n";
        assert_eq!(found("a.list", lines), both("https://c/debian", "https://c/debian-security"));
        assert_eq!(found("ubuntu.sources", "URIs: http://d/ubuntu\n"), None);
        let list = apt.path().join("list");
        std::fs::write(&list, "http://e/debian\n").unwrap();
        let cloud = format!("URIs: mirror+file://{}\n", list.display());
        assert_eq!(found("cloud.sources", &cloud), both("http://e/debian", "http://e/debian-security"));
    }
}
