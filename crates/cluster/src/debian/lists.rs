//! The lists of a suite's packages: downloaded as they are, for apt to check and to read.

use super::download::{Downloader, Failure, RemoteFile, cannot_store, hash_of};
use super::settings::Mirror;
use super::store::Store;
use super::suite::{Archive, Suite, architecture};
use crate::{ClusterError, Progress};
use std::path::{Path, PathBuf};

/// A signed list of lists has 150 kB.
const BYTES_MAX: usize = 8 << 20;

/// With less room than this, in bytes, whatever apt could not do may have failed for that reason.
const ROOM_MIN: u64 = 1 << 20;

const SIGNED: &str = "-----BEGIN PGP SIGNED MESSAGE-----";
const END: &str = "-----END PGP SIGNATURE-----";

/// The longest list of packages: those of today have a twentieth of it.
const LIST_BYTES_MAX: u64 = 256 << 20;

pub(super) struct ReleaseFile {
    archive: Archive,
    dist: String,
    text: String,
    packages: RemoteFile,
    /// The list of packages, for a mirror that does not keep lists under their hashes.
    plain: RemoteFile,
}

impl ReleaseFile {
    pub(super) fn store(&self, folder: &Path) -> Result<(), Failure> {
        let to = at(folder, self.archive, &self.dist);
        let cannot = cannot_store(&to);
        std::fs::create_dir_all(&to).map_err(&cannot)?;
        std::fs::write(to.join("InRelease"), &self.text).map_err(cannot)
    }
}

/// The lists of lists of a suite, not checked yet: apt does that. Nothing is stored.
pub(super) async fn releases(
    suite: Suite,
    mirror: &Mirror,
    downloader: &Downloader,
) -> Result<Vec<ReleaseFile>, Failure> {
    let mut releases = Vec::new();
    for (archive, dist) in suite.parts() {
        releases.push(release(archive, dist, mirror, downloader).await?);
    }
    Ok(releases)
}

/// Downloads what is new of the lists that these checked ones name, in the mirror's layout.
pub(super) async fn download(
    releases: &[ReleaseFile],
    downloader: &Downloader,
    folder: &Path,
    progress: &Progress,
) -> Result<(), Failure> {
    for release in releases {
        let packages = at(folder, release.archive, &release.dist).join(packages_path());
        let store = Store::open(packages.parent().unwrap_or(folder).join("new"))?;
        // What an earlier list began.
        store.keep_only(&release.packages.hash);
        if hash_of(&packages).await.ok().as_ref() != Some(&release.packages.hash) {
            let list = std::slice::from_ref(&release.packages);
            let got = match store.fetch(downloader, list, progress).await {
                Err(Failure::Missing(_)) => {
                    store.fetch(downloader, std::slice::from_ref(&release.plain), progress).await?
                }
                got => got?,
            };
            std::fs::rename(&got[0], &packages).map_err(cannot_store(&packages))?;
        }
        release.store(folder)?;
    }
    Ok(())
}

pub(super) fn at(folder: &Path, archive: Archive, dist: &str) -> PathBuf {
    folder.join(archive.folder()).join("dists").join(dist)
}

fn packages_path() -> String {
    format!("main/binary-{}/Packages.xz", architecture())
}

async fn release(
    archive: Archive,
    dist: String,
    mirror: &Mirror,
    downloader: &Downloader,
) -> Result<ReleaseFile, Failure> {
    let address = mirror.address(archive, &format!("dists/{dist}/InRelease"));
    let text = downloader.text(&address, BYTES_MAX).await.map_err(|failure| match failure {
        Failure::Missing(_) => Failure::Missing(format!(
            "the mirror {} has no suite {dist} (asked for {address}): old suites move to another archive, whose address can be set as \
             the mirror ({})",
            mirror.name(archive),
            super::settings::MIRROR
        )),
        other => other,
    })?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let address_of = |path: &str| mirror.address(archive, &format!("dists/{dist}/{path}"));
    let (packages, plain) = read(&text, &dist, &address, address_of)?;
    Ok(ReleaseFile { archive, dist, text, packages, plain })
}

fn read(
    text: &str,
    dist: &str,
    address: &str,
    address_of: impl Fn(&str) -> String,
) -> Result<(RemoteFile, RemoteFile), Failure> {
    if !text.starts_with(SIGNED) {
        let beginning: String = text.chars().take(60).filter(|c| !c.is_control()).collect();
        return Err(Failure::Wrong(format!(
            "{address} is no signed list of Debian's (it begins with {beginning:?}): is a login page or a proxy in between?"
        )));
    }
    if !text.trim_end().ends_with(END) {
        return Err(Failure::Wrong(format!(
            "{address} is cut off: its signature is missing; try again, or set another mirror"
        )));
    }
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let served = field("Codename:").unwrap_or_default();
    if served != dist {
        return Err(Failure::Wrong(format!(
            "{address} is the list of {served:?}, and not of {dist:?}: the mirror serves another suite under this name"
        )));
    }
    let path = packages_path();
    let mut sums =
        text.lines().skip_while(|line| *line != "SHA256:").skip(1).take_while(|line| line.starts_with(' '));
    let found = sums.find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [hash, bytes, name] = words[..] else { return None };
        let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        (name == path && is_hash).then(|| Some((hash.to_owned(), bytes.parse().ok()?))).flatten()
    });
    let Some((hash, bytes)) = found else {
        return Err(Failure::Wrong(format!(
            "{address} names no list of packages for {}: the mirror has none",
            architecture()
        )));
    };
    if bytes > LIST_BYTES_MAX {
        return Err(Failure::Wrong(format!(
            "{address} names a list of packages of {bytes} bytes, and none of Debian's has more than {} MiB: is another server in \
             between?",
            LIST_BYTES_MAX >> 20
        )));
    }
    let by_hash = format!("main/binary-{}/by-hash/SHA256/{hash}", architecture());
    let file = |path: &str| RemoteFile { address: address_of(path), bytes, hash: hash.clone() };
    Ok((file(&by_hash), file(&path)))
}

/// What apt says of lists that it does not accept, in a sentence.
pub(super) fn refused(said: &str, suite: Suite, mirror: &Mirror, folder: &Path) -> ClusterError {
    let from = mirror.name(Archive::Main);
    let line = |part: &str| said.lines().find(|line| line.contains(part));
    // On a full disk apt says that signatures or lists are missing.
    let is_full = nix::sys::statvfs::statvfs(folder)
        .is_ok_and(|it| it.blocks_available().saturating_mul(it.fragment_size()) < ROOM_MIN);
    let sentence = if is_full || line("No space left on device").is_some() {
        format!(
            "apt cannot read the lists of {suite}: the disk is full on which {} lies; make room there, or set FENCEPOST_CACHE to a \
             folder elsewhere",
            folder.display()
        )
    } else if let Some(line) = line("is expired").or(line("is not valid yet")) {
        let what = if line.contains("is expired") { "too old" } else { "from the future" };
        format!(
            "the lists of {suite} from {from} are {what} by this machine's clock: the clock is wrong, or the mirror is not kept up to \
             date; {}=1 accepts old ones (apt says: {})",
            super::settings::OLD_LISTS,
            essence(line)
        )
    } else if let Some(line) =
        ["signature", "signed", "Missing key", "sqv", "gpgv"].iter().find_map(|part| line(part))
    {
        format!(
            "the lists of {suite} from {from} are not signed by Debian: the mirror is damaged, or a server in between changes files; \
             nothing of it is used (apt says: {})",
            essence(line)
        )
    } else {
        let last = said.lines().rfind(|line| line.starts_with("E:")).or(said.lines().last());
        format!(
            "apt does not accept the lists of {suite} from {from}: {}",
            essence(last.unwrap_or("it said nothing"))
        )
    };
    ClusterError::new(sentence)
}

fn essence(line: &str) -> &str {
    line.trim_start_matches("E:").trim_start_matches("W:").trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(codename: &str) -> String {
        let hash = "ab".repeat(32);
        let path = packages_path();
        format!(
            "{SIGNED}\nHash: SHA256\n\nCodename: {codename}\nMD5Sum:\n x 1 {path}\nSHA256:\n {hash} 42 {path}\nSignatures:\n{END}\n"
        )
    }

    fn of(text: &str) -> Result<(RemoteFile, RemoteFile), Failure> {
        read(text, "trixie", "http://m/InRelease", |path| format!("http://m/{path}"))
    }

    #[test]
    fn the_list_of_packages_is_found_by_its_hash() {
        let (by_hash, plain) = of(&text("trixie")).unwrap();
        assert_eq!((by_hash.bytes, by_hash.hash.len()), (42, 64));
        assert!(
            by_hash.address.ends_with(&format!("by-hash/SHA256/{}", by_hash.hash)),
            "{}",
            by_hash.address
        );
        assert!(plain.address.ends_with("/Packages.xz") && plain.hash == by_hash.hash);
    }

    #[test]
    fn what_is_no_signed_list_of_the_suite_is_refused() {
        let whole = text("trixie");
        for (bad, why) in [
            ("<html>Log in".to_owned(), "login page"),
            (String::new(), "login page"),
            (whole[..whole.len() - 10].to_owned(), "cut off"),
            (text("bookworm"), "serves another suite"),
            (whole.replace("Packages.xz", "Packages.gz"), "names no list"),
            (whole.replace("abab", "zzzz"), "names no list"),
            (whole.replace(" 42 ", " 1900000000 "), "more than 256 MiB"),
        ] {
            let refused = of(&bad).unwrap_err();
            assert!(refused.sentence().contains(why), "{}", refused.sentence());
        }
    }
}
