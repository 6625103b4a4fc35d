//! Points inside a recipe at which a client can pause, so that a fault is injected between two of its steps.
//!
//! A recipe calls `notices.reached(key, point).await` at such a point, which normally does nothing. In a
//! scenario (`--pause-at between-get-and-del=300ms`) the client sends a notice, which the controller records
//! as an event of the history (`f` is `at`), and waits that long. A fault whose trigger is that event is then
//! injected while the client is there, if the time is long enough for a busy machine: a second, say.

use fencepost_history::{Refusal, TimeSpan};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// After the lock was looked at (GET) and before it is deleted (DEL): `redis-single --release get-del`.
pub const BETWEEN_GET_AND_DEL: &str = "between-get-and-del";
/// After the lock was taken and before it gets its TTL: `redis-single --acquire setnx-expire`.
pub const BETWEEN_SETNX_AND_EXPIRE: &str = "between-setnx-and-expire";
/// After the nodes answered and before the client reads what they said: `redlock`.
pub const BEFORE_REPLIES: &str = "before-replies";
/// After a careful client looked at its validity and before it sends the write: every lock.
pub const BETWEEN_CHECK_AND_WRITE: &str = "between-check-and-write";

const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Every point with its description: one line each. A client can pause at these points only.
pub fn points() -> &'static [(&'static str, &'static str)] {
    &[
        (BETWEEN_GET_AND_DEL, "redis, --release get-del: the value was compared, and is not deleted yet"),
        (BETWEEN_SETNX_AND_EXPIRE, "redis, --acquire setnx-expire: the lock is taken, and has no TTL yet"),
        (BEFORE_REPLIES, "redlock: the nodes have answered, and the client has not read it yet"),
        (
            BETWEEN_CHECK_AND_WRITE,
            "--careful: the client found its lock valid, and has not sent the write yet",
        ),
    ]
}

/// Whether who passes this point is acquiring the lock, and does not hold it yet.
pub fn is_acquiring(point: &str) -> bool {
    [BETWEEN_SETNX_AND_EXPIRE, BEFORE_REPLIES].contains(&point)
}

/// A point, and how long to pause there; written `between-get-and-del=300ms`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PauseAt {
    pub point: String,
    pub time: Duration,
}

impl fmt::Display for PauseAt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}ms", self.point, self.time.as_millis())
    }
}

impl From<PauseAt> for String {
    fn from(pause: PauseAt) -> String {
        pause.to_string()
    }
}

impl TryFrom<String> for PauseAt {
    type Error = Refusal;
    fn try_from(text: String) -> Result<PauseAt, Refusal> {
        text.parse()
    }
}

impl FromStr for PauseAt {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<PauseAt, Refusal> {
        let (point, time) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is no point with a time; write {BETWEEN_GET_AND_DEL}=300ms"))?;
        let TimeSpan(time) = time.parse()?;
        if time > LONGEST {
            let (longest, time) = (TimeSpan(LONGEST), TimeSpan(time));
            return Err(format!("a client pauses for {longest} at most, not {time}").into());
        }
        if !points().iter().any(|(name, _)| *name == point) {
            let names: Vec<&str> = points().iter().map(|(name, _)| *name).collect();
            return Err(Refusal::unknown("point of a recipe", point, &names));
        }
        Ok(PauseAt { point: point.to_owned(), time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_as_it_is_read() {
        let pause: PauseAt = "before-replies=1s".parse().unwrap();
        assert_eq!(pause, PauseAt { point: BEFORE_REPLIES.to_owned(), time: Duration::from_secs(1) });
        assert_eq!(pause.to_string(), "before-replies=1000ms");
        assert_eq!(pause.to_string().parse(), Ok(pause));
    }

    #[test]
    fn mistakes_are_named() {
        let refusal = |text: &str| text.parse::<PauseAt>().unwrap_err().sentence;
        assert!(refusal("before-replies").contains("no point with a time"));
        assert!(refusal("before-replies=soon").contains("invalid duration"));
        assert!(refusal("before-replies=9999999h").contains("86400s at most"));
        assert!(refusal("before-reply=1s").contains("did you mean \"before-replies\"?"));
    }
}
