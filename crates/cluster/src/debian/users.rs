//! Users that packages make for their servers, read out of their scripts: a server may refuse root.

use std::collections::BTreeSet;

const FIRST: usize = 100;

/// Users that a package's script makes: the last word of an `adduser` or `useradd` of a system user.
pub(super) fn made_by(script: &str) -> Vec<String> {
    let commands = script.replace("\\\n", " ");
    let made = commands.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().take_while(|word| !is_end(word)).collect();
        let is_it = words.iter().any(|word| matches!(word.rsplit('/').next(), Some("adduser" | "useradd")));
        let is_system = words.iter().any(|word| matches!(*word, "--system" | "-r"));
        let name = words.last()?.trim_end_matches(';').trim_matches('"');
        (is_it && is_system && is_name(name)).then(|| name.to_owned())
    });
    made.collect()
}

/// What ends a command, or begins what is done with its output.
fn is_end(word: &str) -> bool {
    word.starts_with(['|', '&', '>', '#'])
        || ["2>", "1>", "then", "fi"].iter().any(|end| word.starts_with(end))
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c))
        && !matches!(word, "adduser" | "useradd")
}

/// Lines for these users in `/etc/passwd` and `/etc/group`, numbered in the order of their names.
pub(super) fn lines(names: &[String]) -> (String, String) {
    let names: BTreeSet<&String> = names.iter().collect();
    let numbered = || names.iter().enumerate().map(|(at, name)| (FIRST + at, name));
    let passwd = numbered().map(|(id, name)| format!("{name}:x:{id}:{id}:{name}:/nonexistent:/bin/false\n"));
    let group = numbered().map(|(id, name)| format!("{name}:x:{id}:\n"));
    (passwd.collect(), group.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_out_of_scripts() {
        let redis = "if x; then\n  adduser \\\n    --system \\\n    --home /var/lib/redis \\\n    --quiet \\\n    --group \\\n    redis || true\nfi";
        assert_eq!(made_by(redis), ["redis"]);
        assert_eq!(
            made_by("adduser --group --system --gecos \"PostgreSQL administrator\" postgres"),
            ["postgres"]
        );
        assert_eq!(made_by("  /usr/sbin/useradd -r -g mysql mysql >/dev/null 2>&1"), ["mysql"]);
        for none in [
            "adduser --system \"$USER\"",
            "adduser bob",
            "# adduser --system",
            "addgroup --system ssl",
            "echo adduser",
        ] {
            assert_eq!(made_by(none), Vec::<String>::new(), "{none}");
        }
    }

    #[test]
    fn users_are_numbered_in_the_order_of_their_names() {
        let (passwd, group) = lines(&["redis", "mysql", "redis"].map(str::to_owned));
        assert_eq!(
            passwd,
            "mysql:x:100:100:mysql:/nonexistent:/bin/false\nredis:x:101:101:redis:/nonexistent:/bin/false\n"
        );
        assert_eq!(group, "mysql:x:100:\nredis:x:101:\n");
    }
}
