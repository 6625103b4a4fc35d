//! The files by which programs find the network: for commands that download something.

use crate::environment::certificates;
use std::fs;
use std::io;
use std::path::Path;

/// Puts this machine's files into the root of an image, whose /etc can be written to.
pub(super) fn bring(root: &Path) -> io::Result<()> {
    for name in ["etc/resolv.conf", "etc/hosts"] {
        if let Ok(text) = fs::read(Path::new("/").join(name)) {
            // In the image it can be a link to a file that is not there.
            let _ = fs::remove_file(root.join(name));
            fs::write(root.join(name), text)?;
        }
    }
    let Some(certificates) = certificates() else { return Ok(()) };
    fs::create_dir_all(root.join("etc/ssl/certs"))?;
    for name in ["certs/ca-certificates.crt", "cert.pem"] {
        fs::write(root.join("etc/ssl").join(name), &certificates)?;
    }
    Ok(())
}

/// In this machine's own root name resolution can lie in /run, which is not taken over.
pub(super) fn keep_name_resolution(root: &Path, not_taken_over: &[&str]) -> io::Result<()> {
    let Ok(path) = Path::new("/etc/resolv.conf").canonicalize() else { return Ok(()) };
    let Ok(path) = path.strip_prefix("/") else { return Ok(()) };
    if !not_taken_over.iter().any(|folder| path.starts_with(folder)) {
        return Ok(());
    }
    let copy = root.join(path);
    fs::create_dir_all(copy.parent().unwrap_or(root))?;
    fs::copy(Path::new("/").join(path), copy).map(drop)
}

pub(super) fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
