//! What processes keep under other locks than mutexes: lists that begin with a word; other lists are sets.

use serde_json::{Value, json};

const PAIR: &str = "pair";
const ENTER: &str = "enter";
const LEAVE: &str = "leave";
const USERS: &str = "users";
const ENTRY: &str = "entry";
const TICK: &str = "tick";
const BALANCE: &str = "balance";

/// A pair whose halves a writer changes one after the other, to a value that no other write has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair(pub u64, pub u64);

impl Pair {
    /// What was never written reads as 0, and is no pair.
    pub fn of(value: &Value) -> Option<Pair> {
        match words(value)? {
            (PAIR, [one, other]) => Some(Pair(one.as_u64()?, other.as_u64()?)),
            _ => None,
        }
    }

    pub fn is_whole(self) -> bool {
        self.0 == self.1
    }
}

impl From<Pair> for Value {
    fn from(Pair(one, other): Pair) -> Value {
        json!([PAIR, one, other])
    }
}

/// A write to a resource that counts its users, which the storage carries out in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceUse {
    Enter(u64),
    Leave(u64),
}

impl ResourceUse {
    pub fn of(value: &Value) -> Option<ResourceUse> {
        match words(value)? {
            (ENTER, [process]) => process.as_u64().map(ResourceUse::Enter),
            (LEAVE, [process]) => process.as_u64().map(ResourceUse::Leave),
            _ => None,
        }
    }

    pub fn apply(self, resource: &Value) -> Value {
        let mut users = users(resource).unwrap_or_default();
        let (ResourceUse::Enter(process) | ResourceUse::Leave(process)) = self;
        users.retain(|user| *user != process);
        if matches!(self, ResourceUse::Enter(_)) {
            users.push(process);
        }
        Value::Array([json!(USERS)].into_iter().chain(users.into_iter().map(Value::from)).collect())
    }
}

impl From<ResourceUse> for Value {
    fn from(used: ResourceUse) -> Value {
        match used {
            ResourceUse::Enter(process) => json!([ENTER, process]),
            ResourceUse::Leave(process) => json!([LEAVE, process]),
        }
    }
}

/// The last entry of the log that leaders write. No other entry has its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogEntry {
    pub number: u64,
    pub process: u64,
    /// The token of its leadership; none where the election gives none.
    pub term: Option<i64>,
}

impl LogEntry {
    /// What was never written reads as 0, and is no entry.
    pub fn of(value: &Value) -> Option<LogEntry> {
        match words(value)? {
            (ENTRY, [process, term, number]) => {
                Some(LogEntry { number: number.as_u64()?, process: process.as_u64()?, term: term.as_i64() })
            }
            _ => None,
        }
    }
}

impl From<LogEntry> for Value {
    fn from(LogEntry { number, process, term }: LogEntry) -> Value {
        json!([ENTRY, process, term, number])
    }
}

/// What is on an account, from which processes move money to others: no transfer changes the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Balance(pub i64);

impl Balance {
    /// What was never written reads as 0: an account without money.
    pub fn of(value: &Value) -> Option<Balance> {
        match words(value) {
            Some((BALANCE, [balance])) => balance.as_i64().map(Balance),
            _ => (*value == 0).then_some(Balance(0)),
        }
    }
}

impl From<Balance> for Value {
    fn from(Balance(balance): Balance) -> Value {
        json!([BALANCE, balance])
    }
}

/// A run of a job: the tick for which it ran, and the process that ran it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tick {
    pub number: u64,
    pub process: u64,
}

impl Tick {
    pub fn of(value: &Value) -> Option<Tick> {
        match words(value)? {
            (TICK, [number, process]) => Some(Tick { number: number.as_u64()?, process: process.as_u64()? }),
            _ => None,
        }
    }
}

impl From<Tick> for Value {
    fn from(Tick { number, process }: Tick) -> Value {
        json!([TICK, number, process])
    }
}

/// The processes in a resource, in the order in which they came; none where the value is no resource.
pub fn users(resource: &Value) -> Option<Vec<u64>> {
    match words(resource)? {
        (USERS, users) => users.iter().map(Value::as_u64).collect(),
        _ => None,
    }
}

/// Whether a value is a set, whose last value was added last.
pub fn is_set(value: &Value) -> bool {
    value.is_array() && words(value).is_none()
}

fn words(value: &Value) -> Option<(&str, &[Value])> {
    let (word, rest) = value.as_array()?.split_first()?;
    Some((word.as_str()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_what_its_first_word_says() {
        assert_eq!(Pair::of(&Pair(7, 3).into()), Some(Pair(7, 3)));
        assert!(Pair(7, 7).is_whole() && !Pair(7, 3).is_whole());
        for used in [ResourceUse::Enter(7), ResourceUse::Leave(7)] {
            assert_eq!(ResourceUse::of(&used.into()), Some(used));
        }
        for term in [None, Some(31)] {
            let entry = LogEntry { number: 7_000_001, process: 7, term };
            assert_eq!(LogEntry::of(&entry.into()), Some(entry));
        }
        let tick = Tick { number: 17, process: 7 };
        assert_eq!(Tick::of(&tick.into()), Some(tick));
        for (value, set) in [
            (json!([]), true),
            (json!([3, 5]), true),
            (json!(["pair", 1, 2]), false),
            (json!(["entry", 1, 2, null]), false),
            (json!(0), false),
        ] {
            assert_eq!(is_set(&value), set, "{value}");
        }
        for value in [json!(0), json!(["pair", 1]), json!(["enter", -1]), json!([1, 2, 3]), json!([])] {
            assert_eq!((Pair::of(&value), ResourceUse::of(&value)), (None, None), "{value}");
        }
    }

    #[test]
    fn a_resource_knows_its_users() {
        let mut resource = json!(0);
        for (used, there) in [
            (ResourceUse::Enter(7), vec![7]),
            (ResourceUse::Enter(3), vec![7, 3]),
            (ResourceUse::Enter(7), vec![3, 7]),
            (ResourceUse::Leave(3), vec![7]),
            (ResourceUse::Leave(9), vec![7]),
        ] {
            resource = used.apply(&resource);
            assert_eq!(users(&resource), Some(there));
        }
    }
}
