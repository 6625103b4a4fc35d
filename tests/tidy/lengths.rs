//! Files that are too long to be read at a stretch, and comments that are too wide.

use crate::sources::{files, text};

const MOST_LINES: usize = 450;
/// A kit is one file, so that it can be copied: it cannot be divided.
const MOST_LINES_OF_A_KIT: usize = 1200;

pub fn too_long() -> Vec<String> {
    let long = files(&["rs", "py", "js", "go", "java", "php", "sh", "css"]).into_iter().filter_map(|file| {
        let lines = text(&file).lines().count();
        let place = file.display().to_string();
        let most = if place.starts_with("kits/") { MOST_LINES_OF_A_KIT } else { MOST_LINES };
        (lines > most).then(|| format!("{place} has {lines} lines, more than {most}: divide it by subject"))
    });
    long.collect()
}

const MOST_COLUMNS: usize = 110;

/// Comments that are wider than they need be. Tables, and what stands in a fence, keep their lines.
pub fn too_wide() -> Vec<String> {
    let wide = files(&["rs"]).into_iter().flat_map(|file| {
        let mut is_fenced = false;
        let lines = text(&file);
        let wide = lines.lines().enumerate().filter_map(|(at, line)| {
            let comment = line.trim_start().strip_prefix("//")?.trim_start_matches(['/', '!']).trim_start();
            is_fenced ^= comment.starts_with("```");
            let keeps_its_line = is_fenced || comment.starts_with('|') || has_long_code(comment);
            let is_wide = line.chars().count() > MOST_COLUMNS && !keeps_its_line;
            is_wide.then(|| {
                format!("{}:{}: wrap this comment at {MOST_COLUMNS} columns", file.display(), at + 1)
            })
        });
        wide.collect::<Vec<_>>()
    });
    wide.collect()
}

/// Whether a piece of code in it takes most of the line.
fn has_long_code(comment: &str) -> bool {
    comment.split('`').skip(1).step_by(2).any(|code| code.chars().count() > MOST_COLUMNS / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_cannot_be_wrapped_is_known() {
        assert!(has_long_code(&format!("see `{}`", "x ".repeat(40))));
        assert!(!has_long_code(&format!("see {} `x`", "x ".repeat(40))));
    }
}
