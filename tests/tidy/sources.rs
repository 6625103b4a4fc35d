//! The files of the project that are kept in git.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The project's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Paths of all files with one of these extensions, relative to the project's folder: those that git knows,
/// and new ones that it would not ignore.
pub fn files(extensions: &[&str]) -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).expect("names in UTF-8");
    let mut files: Vec<PathBuf> = listed.lines().map(PathBuf::from).collect();
    files.retain(|file| {
        let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        extensions.contains(&extension) && root().join(file).is_file()
    });
    assert!(!files.is_empty(), "no file ends in {extensions:?}");
    files
}

/// The text of a file.
pub fn text(file: &Path) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}
