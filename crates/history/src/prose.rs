//! Names and times in sentences, as events, stories and pages write them.

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

/// The verb after such a list: "was" for one name, "were" for several.
pub fn was<N>(names: &[N]) -> &'static str {
    if names.len() == 1 { "was" } else { "were" }
}

/// Refuses an unknown name: `unknown lock "redlok": did you mean "redlock"?`, or, where no known name is near, with all of
/// them.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(nearest) => format!("unknown {what} \"{name}\": did you mean \"{nearest}\"?"),
        None => format!("unknown {what} \"{name}\": expected one of {}", known.join(", ")),
    }
}

/// The name that was probably meant by a misspelled one.
pub fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let distances = names.iter().map(|known| (strsim::damerau_levenshtein(name, known), *known));
    let near = distances.filter(|(distance, known)| *distance <= known.len().div_ceil(2));
    near.min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_finds_its_neighbour() {
        assert_eq!(nearest("stop", &["on", "stop_ms", "run_ms"]), Some("stop_ms"));
        assert_eq!(nearest("cosmic-ray", &["on", "pause"]), None);
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
