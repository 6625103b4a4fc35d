//! What the values of events say. Each type is read from a [`Value`] and becomes one. A field that is not
//! there or is of another type (in another program's history) says nothing; an event keeps its value whole.

use crate::name::Name;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// A length of time in milliseconds, which need not be whole.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub f64);

impl Millis {
    /// In nanoseconds; negative values give 0.
    pub fn to_ns(self) -> u64 {
        (self.0 * 1e6) as u64
    }
}

impl From<u64> for Millis {
    fn from(whole: u64) -> Millis {
        Millis(whole as f64)
    }
}

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if self.0.fract() == 0.0 && (0.0..EXACT).contains(&self.0) {
            return serializer.serialize_u64(self.0 as u64);
        }
        serializer.serialize_f64(self.0)
    }
}

/// Whether an acquire asks for the lock alone, or together with others who only read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    #[default]
    Exclusive,
    Shared,
}

macro_rules! values {
    ($($(#[$about:meta])* $name:ident { $($(#[$field_about:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $($(#[$field_about])* pub $field: Option<$type>,)*
        }

        impl $name {
            /// Reads the value of an event.
            pub fn of(value: &Value) -> $name {
                let mut said = $name::default();
                // Most values have fewer fields than there are names.
                for (name, field) in value.as_object().into_iter().flatten() {
                    $(if name == stringify!($field) {
                        said.$field = Deserialize::deserialize(field).ok();
                    })*
                }
                said
            }
        }

        impl From<$name> for Value {
            fn from(said: $name) -> Value {
                let fields = [$((stringify!($field), said.$field.map(serde_json::to_value)),)*];
                let there = |(name, field): (&str, Option<serde_json::Result<Value>>)| {
                    Some((name.to_owned(), field?.ok()?))
                };
                Value::Object(fields.into_iter().filter_map(there).collect())
            }
        }
    )*};
}

values! {
    /// The value of an acquire's invocation, with the plan of its critical section, which no client gets.
    AcquireArguments {
        /// How long the grant is to last by itself.
        ttl_ms: Millis,
        /// How long the process waits for it.
        timeout_ms: Millis,
        mode: Mode,
        /// How many processes may hold the key at once: a semaphore.
        capacity: u32,
        /// The other names of a lock on several: it takes all of them, or none. A release has them, too.
        also: Vec<Name>,
        /// Clients report how often they were woken.
        queue: bool,
        hold_ms: Millis,
        /// When the section writes, after the grant.
        write_at_ms: Millis,
        /// When it reads, after the grant; left out: at once.
        read_at_ms: Millis,
        /// The tick of a scheduler for which the lock is acquired.
        tick: u64,
    }

    /// The value of an acquire's `ok`; a `fail` may say some of it, too.
    Grant {
        token: i64,
        /// How long the grant is valid, as its client could tell; 0 or less: over when it learned of it.
        validity_ms: Millis,
        /// How long the acquire had gone on when the client looked at the validity, by its own clock.
        waited_ms: Millis,
        granted_by: Vec<Name>,
        /// Its place in the queue.
        arrival: serde_json::Number,
        /// How often the waiter was woken.
        wakeups: u64,
        /// How often the client had to ask.
        rounds: u64,
        /// False: it excludes no process.
        exclusive: bool,
        /// How it was granted, where the lock says so.
        mode: Mode,
        /// What shows its holder's right to others: Chubby's sequencer.
        sequencer: String,
        /// The version that was found, which the write compares.
        version: i64,
    }

    /// The value of a release's completion.
    Released {
        /// The process believed, as it began to release, that it still held the lock.
        believed: bool,
        /// The service keeps the lock in one place, and this release removed something there.
        removed: bool,
        /// The process whose lock it removed, as the server's answer shows; null: no process's.
        removed_owner: Option<u64>,
    }

    NoticeValue {
        /// Of `renewed`: the time since the client sent the request for it.
        age_ms: Millis,
        /// Of `at`: the point that its recipe has reached.
        point: Name,
        /// Of `lost`: why.
        reason: String,
    }

    /// What was seen of one target of a fault, as far as others than the fault itself read it.
    ObservedTarget {
        /// Whether it led the other servers when the fault came.
        led: bool,
        leader: Name,
        /// How the clock of the target was moved.
        mechanism: String,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_read_as_it_was_written() {
        let grant = Grant {
            token: Some(33),
            validity_ms: Some(1961.into()),
            granted_by: Some(vec!["n1".into(), "n3".into()]),
            ..Grant::default()
        };
        let value = Value::from(grant.clone());
        assert_eq!(value.to_string(), r#"{"granted_by":["n1","n3"],"token":33,"validity_ms":1961}"#);
        assert_eq!(Grant::of(&value), grant);
        assert_eq!(Value::from(Released::default()), json!({}));
    }

    #[test]
    fn a_field_of_another_type_says_nothing_and_spoils_no_other() {
        let value = json!({"token": "7", "validity_ms": -1.5, "granted_by": [1], "wakeups": -1, "more": [1]});
        assert_eq!(Grant::of(&value), Grant { validity_ms: Some(Millis(-1.5)), ..Grant::default() });
        for value in [json!(null), json!(true), json!([1, 2]), json!("7")] {
            assert_eq!(Grant::of(&value), Grant::default(), "{value}");
        }
        let asked = AcquireArguments::of(&json!({"mode": "shared", "hold_ms": 12}));
        assert_eq!((asked.mode, asked.hold_ms), (Some(Mode::Shared), Some(Millis(12.0))));
        assert_eq!(AcquireArguments::of(&json!({"mode": "other"})).mode, None);
        let owner = |value: Value| Released::of(&value).removed_owner;
        assert_eq!([json!({}), json!({"removed_owner": "x"})].map(owner), [None, None]);
        assert_eq!(
            [json!(null), json!(7)].map(|of| owner(json!({"removed_owner": of}))),
            [Some(None), Some(Some(7))]
        );
        let of_no_process = Released { removed_owner: Some(None), ..Released::default() };
        assert_eq!(Value::from(of_no_process), json!({"removed_owner": null}));
    }

    #[test]
    fn a_notice_says_what_belongs_to_it() {
        let renewed = NoticeValue { age_ms: Some(3.into()), ..NoticeValue::default() };
        assert_eq!(Value::from(renewed.clone()), json!({"age_ms": 3}));
        assert_eq!(NoticeValue::of(&json!({"age_ms": 3, "point": 1})), renewed);
        assert_eq!(NoticeValue::of(&Value::Null), NoticeValue::default());
    }

    #[test]
    fn milliseconds_become_nanoseconds() {
        assert_eq!([Millis(1.5), Millis(-3.0)].map(Millis::to_ns), [1_500_000, 0]);
        assert_eq!(serde_json::to_string(&[Millis(2.0), Millis(2.5)]).unwrap(), "[2,2.5]");
    }
}
