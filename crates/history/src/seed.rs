use chacha20::ChaCha8Rng;
use rand::SeedableRng;
use std::fmt;
use std::str::FromStr;

/// A random stream that a [`Seed`] gives one consumer.
pub type Stream = ChaCha8Rng;

/// The number from which every random choice of a run follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "u64")]
pub struct Seed(pub u64);

#[derive(Debug, thiserror::Error)]
#[error("expected a whole number from 0 to {}", Seed::MAX)]
pub struct NoSeed;

impl Seed {
    /// Every JSON reader keeps numbers up to this one whole.
    pub const MAX: u64 = (1 << 53) - 1;

    pub fn fresh() -> Seed {
        Seed(rand::random::<u64>() >> 11)
    }

    /// The stream of one consumer (`"nemesis"`, `"process-3"`): adding a consumer shifts no other's draws.
    pub fn stream(self, name: &str) -> Stream {
        // FNV-1a: stable across versions of Rust, which the hasher of the standard library is not.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut key = [0; 32];
        key[..8].copy_from_slice(&self.0.to_le_bytes());
        key[8..16].copy_from_slice(&hash.to_le_bytes());
        ChaCha8Rng::from_seed(key)
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

impl TryFrom<u64> for Seed {
    type Error = NoSeed;
    fn try_from(number: u64) -> Result<Seed, NoSeed> {
        if number <= Seed::MAX { Ok(Seed(number)) } else { Err(NoSeed) }
    }
}

impl FromStr for Seed {
    type Err = NoSeed;
    fn from_str(text: &str) -> Result<Seed, NoSeed> {
        text.parse::<u64>().map_err(|_| NoSeed)?.try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn seeds_are_numbers_that_every_reader_keeps_whole() {
        assert_eq!("9007199254740991".parse::<Seed>().unwrap(), Seed(Seed::MAX));
        for text in ["9007199254740992", "18446744073709551615", "-1", "1.5", ""] {
            let error = text.parse::<Seed>().unwrap_err().to_string();
            assert_eq!(error, "expected a whole number from 0 to 9007199254740991", "{text}");
        }
        assert!(serde_json::from_str::<Seed>("18446744073709551615").is_err());
    }

    #[test]
    fn streams_are_repeatable_and_independent() {
        let draw = |seed, name| Seed(seed).stream(name).random::<u64>();
        assert_eq!(draw(7, "nemesis"), draw(7, "nemesis"));
        assert_ne!(draw(7, "nemesis"), draw(7, "process-1"));
        assert_ne!(draw(7, "nemesis"), draw(8, "nemesis"));
    }
}
