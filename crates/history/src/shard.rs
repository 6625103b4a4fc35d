use crate::Refusal;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Part `number` of `of` of a campaign, which is divided among machines: `2/4`. The number is 1 to `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    number: NonZeroU32,
    of: NonZeroU32,
}

impl Shard {
    /// A campaign that is not divided.
    pub const WHOLE: Shard = Shard { number: NonZeroU32::MIN, of: NonZeroU32::MIN };

    /// More parts than any engine runs: Kubernetes stops at as many.
    pub const PARTS_MAX: u32 = 100_000;

    /// Part `number` of `of`; an error where there is no such part.
    pub fn new(number: u32, of: u32) -> Result<Shard, Refusal> {
        let refused = |why: &str| Refusal::new(format!("{why}; parts are numbered from 1/{of} to {of}/{of}"));
        let Some(parts) = NonZeroU32::new(of) else {
            return Err(Refusal::new("nothing can be divided into 0 parts; write K/N, such as 1/4"));
        };
        if of > Shard::PARTS_MAX {
            return Err(Refusal::new(format!(
                "{of} parts are too many: there are at most {}",
                Shard::PARTS_MAX
            )));
        }
        match NonZeroU32::new(number) {
            None => Err(refused("there is no part 0")),
            Some(_) if number > of => Err(refused(&format!("there is no part {number} of {of}"))),
            Some(number) => Ok(Shard { number, of: parts }),
        }
    }

    /// All parts of so many.
    pub fn all(of: NonZeroU32) -> impl Iterator<Item = Shard> {
        (1..=of.get()).filter_map(NonZeroU32::new).map(move |number| Shard { number, of })
    }

    pub fn number(self) -> u32 {
        self.number.get()
    }

    /// As names of files and folders have it: `1-of-4`.
    pub fn in_file_names(self) -> String {
        format!("{}-of-{}", self.number, self.of)
    }

    /// How many parts there are.
    pub fn of(self) -> NonZeroU32 {
        self.of
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Shard, Refusal> {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let numbers = text.split_once('/').filter(|(number, of)| digits(number) && digits(of));
        let numbers = numbers.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        let Some((number, of)) = numbers else {
            return Err(Refusal::new(format!(
                "invalid part \"{text}\": expected K/N, such as 1/4 for the first of four parts"
            )));
        };
        Shard::new(number, of)
    }
}

impl TryFrom<String> for Shard {
    type Error = Refusal;

    fn try_from(text: String) -> Result<Shard, Refusal> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        shard.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbered_from_one() {
        let shard: Shard = "2/4".parse().unwrap();
        assert_eq!((shard.number(), shard.of().get(), shard.to_string().as_str()), (2, 4, "2/4"));
        let all: Vec<String> = Shard::all(shard.of()).map(|shard| shard.to_string()).collect();
        assert_eq!(all, ["1/4", "2/4", "3/4", "4/4"]);
        assert_eq!(serde_json::from_str::<Shard>("\"2/4\"").unwrap(), shard);
    }

    #[test]
    fn what_names_no_part_is_refused_with_what_would() {
        let said = |text: &str| text.parse::<Shard>().unwrap_err().to_string();
        assert_eq!(said("5/4"), "there is no part 5 of 4; parts are numbered from 1/4 to 4/4");
        assert_eq!(said("0/4"), "there is no part 0; parts are numbered from 1/4 to 4/4");
        assert_eq!(said("1/0"), "nothing can be divided into 0 parts; write K/N, such as 1/4");
        assert_eq!(said("1/100001"), "100001 parts are too many: there are at most 100000");
        for garbage in ["", "4", "1/", "/4", "1/4/5", "-1/4", "+1/4", "1.5/4", "a/b", " 1/4", "99999999999/4"]
        {
            assert!(said(garbage).contains("expected K/N"), "{garbage}: {}", said(garbage));
        }
        assert!(serde_json::from_str::<Shard>("\"5/4\"").is_err());
    }
}
