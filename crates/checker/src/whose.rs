use serde::{Deserialize, Serialize};
use std::fmt;

fencepost_history::worded! {
    /// Whose failure a finding shows, the one that says most about a lock first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Whose {
        Service = "the service",
        /// The client's side: its library, its use of it, or what stands between it and the servers.
        Library = "the library",
        /// A client that overstayed, or a write that arrived late: no lock prevents that.
        NoFence = "no fence",
        Machine = "the machine",
    }
    /// As reports say it.
    pub fn in_words;
}

impl Whose {
    /// What a violation means for a user, where `own` is what it means if it is the lock's own.
    pub fn harm(self, own: Harm) -> Harm {
        match self {
            Whose::Service | Whose::Library => own,
            Whose::NoFence => Harm::Unfenced,
            Whose::Machine => Harm::BusyMachine,
        }
    }

    /// What that means, in a clause.
    pub fn meaning(self) -> &'static str {
        match self {
            Whose::Service => {
                "its servers, or the protocol by which they grant, went against the lock's claim; no other cause remains"
            }
            Whose::Library => {
                "the client's side: its library, how that is used, or what stands between it and the servers (a pooler, a setting that evicts \
                 keys); no fault of servers or network that was in force explains or excuses this"
            }
            Whose::NoFence => {
                "a client overstayed, or its write arrived late; a lock cannot prevent that, but a storage that checks fencing tokens or transactions can"
            }
            Whose::Machine => "a client overstayed without any fault: the machine was too busy for the TTL",
        }
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.in_words())
    }
}

/// Whose failure a finding shows: one cause, or two of which its run leaves open which it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attribution {
    /// Of two causes the one that a fault explains.
    pub whose: Whose,
    pub or: Option<OtherCause>,
}

/// A cause that a run leaves open beside the one that it names first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct OtherCause {
    pub whose: Whose,
    /// What shows which of the two it was: the subject of a sentence whose verb is "decides".
    pub decides: String,
}

impl Attribution {
    /// What that means, in a clause.
    pub fn meaning(&self) -> String {
        match &self.or {
            None => self.whose.meaning().to_owned(),
            Some(OtherCause { decides, .. }) => format!(
                "two causes remain, since a fault that was in force may explain this, and so may a mistake of the client's side; {decides}, decides"
            ),
        }
    }
}

impl From<Whose> for Attribution {
    fn from(whose: Whose) -> Attribution {
        Attribution { whose, or: None }
    }
}

impl fmt::Display for Attribution {
    /// `the service`, `the service or the library`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.or {
            None => self.whose.fmt(out),
            Some(or) => write!(out, "{} or {}", self.whose, or.whose),
        }
    }
}

/// What a violation means for who would use the lock, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Harm {
    /// Two processes had the lock, by no fault of theirs, or its data shows that they had.
    GrantedTwice,
    /// Another broken promise: a lock removed by a process that did not hold it, tokens that go backwards.
    PromiseBroken,
    /// A lock that could be had by no process, or by hardly any.
    Stuck,
    /// The lock held, and a client that overstayed did harm that only a fence prevents.
    Unfenced,
    BusyMachine,
}

impl Harm {
    pub const ALL: [Harm; 5] =
        [Harm::GrantedTwice, Harm::PromiseBroken, Harm::Stuck, Harm::Unfenced, Harm::BusyMachine];

    /// Its class, its words and its sign.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Harm::GrantedTwice => ("granted-twice", "granted twice", "✗"),
            Harm::PromiseBroken => ("promise-broken", "promise broken", "◆"),
            Harm::Stuck => ("stuck", "stuck", "■"),
            Harm::Unfenced => ("unfenced", "no fence", "△"),
            Harm::BusyMachine => ("busy-machine", "busy machine", "~"),
        }
    }

    /// In a word or two, for a cell of a table.
    pub fn in_words(self) -> &'static str {
        self.names().1
    }

    /// What it means, in a clause.
    pub fn meaning(self) -> &'static str {
        match self {
            Harm::GrantedTwice => "two processes had the lock at once, and neither overstayed",
            Harm::PromiseBroken => {
                "another property was violated: a lock removed by a process that did not hold it, tokens that go backwards, …"
            }
            Harm::Stuck => "no process could get the lock although it had to be free, or hardly any",
            Harm::Unfenced => {
                "a client overstayed, or its write arrived late: its lease or session was over, and the next process rightly had the \
                 lock; a lock cannot prevent that, but a storage that checks fencing tokens can"
            }
            Harm::BusyMachine => "a client overstayed without any fault",
        }
    }

    /// Its name in `verdict.json`, and in style sheets.
    pub fn class(self) -> &'static str {
        self.names().0
    }

    /// A sign that tells it from the others without colour.
    pub fn sign(self) -> &'static str {
        self.names().2
    }
}

impl fmt::Display for Harm {
    /// `✗ granted twice`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.sign(), self.in_words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_harm_has_a_class_words_and_a_sign_of_its_own() {
        let names = Harm::ALL.map(Harm::names);
        let all = [
            ("granted-twice", "granted twice", "✗"),
            ("promise-broken", "promise broken", "◆"),
            ("stuck", "stuck", "■"),
            ("unfenced", "no fence", "△"),
            ("busy-machine", "busy machine", "~"),
        ];
        assert_eq!(names, all);
    }

    #[test]
    fn one_cause_is_said_in_its_own_words_and_two_with_what_decides() {
        let alone = Attribution::from(Whose::Library);
        assert_eq!(alone.meaning(), Whose::Library.meaning());
        let or = Some(OtherCause { whose: Whose::Library, decides: "a run without faults".to_owned() });
        let two = Attribution { whose: Whose::Service, or };
        assert!(two.meaning().starts_with("two causes remain"), "{}", two.meaning());
        assert!(two.meaning().ends_with("a run without faults, decides"), "{}", two.meaning());
    }
}
