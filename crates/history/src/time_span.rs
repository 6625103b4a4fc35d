use crate::Refusal;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time with its unit: `500ms`, `1m30s`. Without a unit it is seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct TimeSpan(pub Duration);

impl TimeSpan {
    pub const fn from_millis(milliseconds: u64) -> TimeSpan {
        TimeSpan(Duration::from_millis(milliseconds))
    }

    pub const fn from_secs(seconds: u64) -> TimeSpan {
        TimeSpan(Duration::from_secs(seconds))
    }

    pub fn millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl From<Duration> for TimeSpan {
    fn from(duration: Duration) -> TimeSpan {
        TimeSpan(duration)
    }
}

impl fmt::Display for TimeSpan {
    /// One word, in the largest unit of which it is a whole number: `2s`, `1500ms`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
        match units.iter().find(|(unit, _)| nanos.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(out, "{}{name}", nanos / unit),
            None => write!(out, "{nanos}ns"),
        }
    }
}

impl FromStr for TimeSpan {
    type Err = Refusal;

    /// A number without a unit is seconds.
    fn from_str(text: &str) -> Result<TimeSpan, Refusal> {
        let invalid = || {
            Refusal::new(format!(
                "invalid duration \"{text}\": expected a number with a unit, such as 500ms or 2s"
            ))
        };
        let is_bare = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if is_bare {
            let seconds: f64 = text.parse().map_err(|_| invalid())?;
            return Duration::try_from_secs_f64(seconds).map(TimeSpan).map_err(|_| invalid());
        }
        humantime::parse_duration(text).map(TimeSpan).map_err(|_| invalid())
    }
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a length of time, such as \"500ms\" or \"2s\", or a number of seconds"
)]
enum Written {
    Text(String),
    Seconds(f64),
}

impl TryFrom<Written> for TimeSpan {
    type Error = Refusal;

    fn try_from(written: Written) -> Result<TimeSpan, Refusal> {
        match written {
            Written::Text(text) => text.parse(),
            Written::Seconds(seconds) => seconds.to_string().parse(),
        }
    }
}

impl From<TimeSpan> for String {
    fn from(span: TimeSpan) -> String {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_as_it_is_read() {
        for (text, written) in [
            ("2s", "2s"),
            ("1m30s", "90s"),
            ("1500ms", "1500ms"),
            ("0", "0s"),
            ("2", "2s"),
            ("0.5", "500ms"),
            ("3us", "3us"),
            ("7ns", "7ns"),
        ] {
            let span: TimeSpan = text.parse().unwrap();
            assert_eq!(span.to_string(), written);
            assert_eq!(written.parse(), Ok(span));
        }
    }

    #[test]
    fn invalid_text_is_refused_with_an_example() {
        for text in ["5x", "2.5.1", "", "-3s", "soon"] {
            let refused = text.parse::<TimeSpan>().unwrap_err().to_string();
            let expected =
                format!("invalid duration \"{text}\": expected a number with a unit, such as 500ms or 2s");
            assert_eq!(refused, expected);
        }
    }
}
