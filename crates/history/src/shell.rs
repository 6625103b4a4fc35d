use std::path::Path;

/// A text as one word of a shell, for a command to be repeated: `plain`, `'c1|n4'`, `'it'\''s'`.
pub fn shell_word(text: &str) -> String {
    let is_plain = |sign: char| sign.is_alphanumeric() || "-_./,:=+@".contains(sign);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

pub fn shell_path(path: &Path) -> String {
    shell_word(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_word_back() {
        for text in [
            "plain",
            "a b",
            "$(touch x)",
            "it's",
            "`id`",
            "a;b",
            "c1|n4,n5",
            "x=$HOME",
            "",
            "--",
            "*",
            "a\nb",
        ] {
            let words = format!("printf %s {}", shell_word(text));
            let read = std::process::Command::new("sh").args(["-c", &words]).output().expect("a shell");
            assert_eq!(String::from_utf8_lossy(&read.stdout), text, "{words}");
        }
        assert_eq!(shell_word("results/etcd@x-1,2:3"), "results/etcd@x-1,2:3");
        assert_eq!(shell_path(Path::new("my runs/a")), "'my runs/a'");
    }
}
