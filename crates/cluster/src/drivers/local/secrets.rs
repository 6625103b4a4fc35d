//! What nodes on this machine's root do not see: files kept from its other users, which root could read.

use super::mounts::mask;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Hidden whatever their permissions say: passwords, keys, and who may become root.
const ALWAYS: [&str; 10] = [
    "etc/shadow",
    "etc/gshadow",
    "etc/security/opasswd",
    "etc/ssh",
    "etc/ssl/private",
    "etc/sudoers",
    "etc/sudoers.d",
    "etc/krb5.keytab",
    "var/backups",
    "var/spool/cron",
];

/// Below these, whatever other users of this machine cannot read is hidden: backups of the files above, keys
/// of services, passwords in settings. Programs lie elsewhere, and the data of a node is its own.
const SETTINGS: [&str; 2] = ["etc", "var/lib"];

/// The depth of settings. A service's data is in a folder that its users cannot enter, or further down.
const DEPTH: usize = 4;

/// More folders than that are not looked through: a node would start too late.
const FOLDERS_MAX: usize = 2000;

pub(super) fn hide(root: &Path) -> io::Result<()> {
    secrets(root).iter().try_for_each(|path| mask(path))
}

fn secrets(root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ALWAYS.iter().map(|name| root.join(name)).filter(|path| is_file_or_folder(path)).collect();
    for name in SETTINGS {
        let mut level = vec![root.join(name)];
        let mut left = FOLDERS_MAX;
        for _ in 0..DEPTH {
            level = level.iter().take(left).flat_map(|folder| look_through(folder, &mut found)).collect();
            left = left.saturating_sub(level.len());
        }
    }
    found
}

/// Adds what lies in this folder and is secret to `found`, and gives the other folders in it.
fn look_through(folder: &Path, found: &mut Vec<PathBuf>) -> Vec<PathBuf> {
    let mut others = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        // Links are left alone: what they lead to has permissions of its own.
        let (path, Ok(metadata)) = (entry.path(), entry.metadata()) else { continue };
        if metadata.is_symlink() || found.contains(&path) {
            continue;
        }
        match is_secret(&metadata) {
            true if metadata.is_file() || metadata.is_dir() => found.push(path),
            false if metadata.is_dir() => others.push(path),
            _ => {}
        }
    }
    others
}

fn is_secret(metadata: &Metadata) -> bool {
    let needed = if metadata.is_dir() { 0o001 } else { 0o004 };
    metadata.permissions().mode() & needed == 0
}

fn is_file_or_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file() || found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn what_other_users_cannot_read_is_secret_with_its_backups() {
        let root = tempfile::tempdir().unwrap();
        let put = |name: &str, mode: u32| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        for secret in ["etc/shadow", "etc/shadow-", "etc/gshadow-", "etc/docker/key.json", "etc/a/b/c/key"] {
            put(secret, 0o640);
        }
        for open in ["etc/passwd", "etc/passwd-", "etc/ssh/moduli", "etc/hosts", "var/lib/dpkg/status"] {
            put(open, 0o644);
        }
        put("var/lib/private/state", 0o644);
        fs::set_permissions(root.path().join("var/lib/private"), Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink("shadow", root.path().join("etc/link")).unwrap();
        let mut found: Vec<String> = secrets(root.path())
            .iter()
            .map(|path| path.strip_prefix(root.path()).unwrap().display().to_string())
            .collect();
        found.sort();
        let expected = [
            "etc/a/b/c/key",
            "etc/docker/key.json",
            "etc/gshadow-",
            "etc/shadow",
            "etc/shadow-",
            "etc/ssh",
            "var/lib/private",
        ];
        assert_eq!(found, expected);
    }
}
