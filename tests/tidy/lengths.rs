//! Files that are too long to be read at a stretch.

use crate::sources::{files, text};

const MOST_LINES: usize = 450;
/// A kit is one file, so that it can be copied: it cannot be divided.
const MOST_LINES_OF_A_KIT: usize = 1000;

pub fn too_long() -> Vec<String> {
    let long = files(&["rs", "py", "js", "go", "java", "php", "sh", "css"]).into_iter().filter_map(|file| {
        let lines = text(&file).lines().count();
        let place = file.display().to_string();
        let most = if place.starts_with("kits/") { MOST_LINES_OF_A_KIT } else { MOST_LINES };
        (lines > most).then(|| format!("{place} has {lines} lines, more than {most}: divide it by subject"))
    });
    long.collect()
}
