//! Files that are too long to be read at a stretch.

use crate::exceptions::Problem;
use crate::sources::{files, text};

const MOST_LINES: usize = 450;

pub fn too_long() -> Vec<Problem> {
    let long = files(&["rs", "py", "js", "go", "java", "php", "sh", "css"]).into_iter().filter_map(|file| {
        let lines = text(&file).lines().count();
        let place = file.display().to_string();
        (lines > MOST_LINES).then(|| Problem {
            sentence: format!("{place} has {lines} lines, more than {MOST_LINES}: divide it by subject"),
            place,
        })
    });
    long.collect()
}
