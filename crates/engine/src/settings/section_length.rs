use fencepost_history::TimeSpan;
use fencepost_workloads::Length;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How long critical sections last, if given: one length (`2s`), or a range (`50ms..4s`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "String")]
pub struct SectionLength {
    pub shortest: TimeSpan,
    pub longest: TimeSpan,
}

#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a length of time, such as \"500ms\", or a range, such as \"50ms..4s\""
)]
enum Written {
    One(TimeSpan),
    Range(String),
}

impl From<TimeSpan> for SectionLength {
    fn from(length: TimeSpan) -> SectionLength {
        SectionLength { shortest: length, longest: length }
    }
}

impl From<SectionLength> for Length {
    fn from(given: SectionLength) -> Length {
        match given {
            SectionLength { shortest, longest } if shortest == longest => Length::Fixed(longest.0),
            SectionLength { shortest, longest } => Length::Between(shortest.0, longest.0),
        }
    }
}

impl FromStr for SectionLength {
    type Err = String;

    fn from_str(text: &str) -> Result<SectionLength, String> {
        let span = |text: &str| text.parse::<TimeSpan>().map_err(|refused| refused.to_string());
        let Some((shortest, longest)) = text.split_once("..") else { return Ok(span(text)?.into()) };
        let (shortest, longest) = (span(shortest)?, span(longest)?);
        match shortest <= longest {
            true => Ok(SectionLength { shortest, longest }),
            false => Err(format!("{text}: the shortest comes first: {longest}..{shortest}")),
        }
    }
}

impl TryFrom<Written> for SectionLength {
    type Error = String;

    fn try_from(written: Written) -> Result<SectionLength, String> {
        match written {
            Written::One(length) => Ok(length.into()),
            Written::Range(text) => text.parse(),
        }
    }
}

impl From<SectionLength> for String {
    fn from(length: SectionLength) -> String {
        length.to_string()
    }
}

impl fmt::Display for SectionLength {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shortest == self.longest {
            true => write!(out, "{}", self.longest),
            false => write!(out, "{}..{}", self.shortest, self.longest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn is_written_as_it_is_read() {
        for (text, written) in [("2s", "2s"), ("50ms..4s", "50ms..4s"), ("0..1500ms", "0s..1500ms")] {
            let length: SectionLength = text.parse().unwrap();
            assert_eq!(length.to_string(), written);
            assert_eq!(serde_json::from_value::<SectionLength>(json!(length)).unwrap(), length);
        }
        assert_eq!(serde_json::from_value::<SectionLength>(json!(2)).unwrap(), TimeSpan::from_secs(2).into());
    }

    #[test]
    fn a_range_begins_with_the_shortest() {
        assert_eq!(
            "4s..50ms".parse::<SectionLength>().unwrap_err(),
            "4s..50ms: the shortest comes first: 50ms..4s"
        );
        assert!("50ms..soon".parse::<SectionLength>().is_err());
    }
}
