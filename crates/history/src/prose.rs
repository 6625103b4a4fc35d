//! Names and times in sentences, as events, stories and pages write them.

use std::collections::HashSet;

/// Lists names: "n1, n2 and n4"; "nothing" for none.
pub fn and<N: AsRef<str>>(names: &[N]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => one.as_ref().to_owned(),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", most.join(", "), last.as_ref())
        }
    }
}

/// The verb after such a list: "was" or "were".
pub fn was<N>(names: &[N]) -> &'static str {
    if names.len() == 1 { "was" } else { "were" }
}

/// A number with its noun: "1 run", "3 runs". `one` is the noun for one of them.
pub fn count(number: usize, one: &str) -> String {
    counted(number as u64, one, &format!("{one}s"))
}

/// The same with a plural of its own: "1 process", "3 processes".
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// The place of the first name that the list has before.
pub fn second_of_a_name<N: AsRef<str>>(names: &[N]) -> Option<usize> {
    let mut known = HashSet::new();
    names.iter().position(|name| !known.insert(name.as_ref()))
}

/// Refuses an unknown name: `unknown lock "redlok": did you mean "redlock"?`, or lists all if none is near.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    match &meant(name, known)[..] {
        [] => format!("unknown {what} \"{name}\": expected one of {}", known.join(", ")),
        meant => format!("unknown {what} \"{name}\": did you mean {}?", quoted_or(meant)),
    }
}

/// `"redlock"`; `"clock-jump" or "clock-drift"`.
pub fn quoted_or(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match &names[..] {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        names => names.concat(),
    }
}

/// The names that a wrong one probably meant: all that begin with it, else the nearest, if one is near.
pub fn meant<'a>(name: &str, known: &[&'a str]) -> Vec<&'a str> {
    let begun = known.iter().copied().filter(|known| name.len() > 1 && known.starts_with(name));
    let begun: Vec<&str> = begun.collect();
    if begun.is_empty() { nearest(name, known).into_iter().collect() } else { begun }
}

/// The name that a misspelled one probably meant.
pub fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let distances = names.iter().map(|known| (strsim::damerau_levenshtein(name, known), *known));
    let near = distances.filter(|(distance, known)| *distance <= known.len().div_ceil(3));
    near.min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_finds_its_neighbour() {
        assert_eq!(nearest("stop_m", &["on", "stop_ms", "run_ms"]), Some("stop_ms"));
        assert_eq!(nearest("cosmic-ray", &["on", "pause"]), None);
        assert_eq!(nearest("sigkill", &["disk-full", "pause"]), None);
    }

    #[test]
    fn the_beginning_of_names_means_all_of_them() {
        let names = ["clock-jump", "clock-drift", "pause"];
        assert_eq!(meant("clock", &names), ["clock-jump", "clock-drift"]);
        assert_eq!(meant("pa", &names), ["pause"]);
        assert!(meant("c", &names).is_empty());
        let all = "unknown nemesis \"clock\": did you mean \"clock-jump\" or \"clock-drift\"?";
        assert_eq!(unknown("nemesis", "clock", &names), all);
    }

    #[test]
    fn one_is_singular_and_a_second_one_is_found() {
        assert_eq!([0, 1, 2].map(|number| count(number, "run")), ["0 runs", "1 run", "2 runs"]);
        assert_eq!(
            [1, 2].map(|number| counted(number, "process", "processes")),
            ["1 process", "2 processes"]
        );
        assert_eq!(second_of_a_name(&["n1", "n2", "n1", "n2"]), Some(2));
        assert_eq!(second_of_a_name(&["n1", "n2"]), None);
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!((and(&["n1"]), was(&["n1"])), ("n1".to_owned(), "was"));
        let three = ["n1", "n2", "n4"];
        assert_eq!((and(&three), was(&three)), ("n1, n2 and n4".to_owned(), "were"));
    }

    #[test]
    fn a_mistyped_name_is_answered_with_the_nearest() {
        let names = ["clock-jump", "pause"];
        let suggestion = "unknown nemesis \"clok-jump\": did you mean \"clock-jump\"?";
        assert_eq!(unknown("nemesis", "clok-jump", &names), suggestion);
        let list = "unknown nemesis \"earthquake\": expected one of clock-jump, pause";
        assert_eq!(unknown("nemesis", "earthquake", &names), list);
    }
}
