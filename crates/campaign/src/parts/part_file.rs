//! `part.json`: what a part belongs to, and what it was assigned. `merge.json` is the same of several parts.

use super::assignment::Assignment;
use fencepost_history::{Seed, Shard};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;

pub const PART_JSON: &str = "part.json";
/// The file of parts that were merged.
pub const MERGE_JSON: &str = "merge.json";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CampaignKind {
    Compare,
    Scenario,
    Hunt,
}

impl fmt::Display for CampaignKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            CampaignKind::Compare => "comparison",
            CampaignKind::Scenario => "play of scenarios",
            CampaignKind::Hunt => "hunt",
        })
    }
}

/// A part of a campaign, or several that were merged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PartFile {
    pub fencepost: String,
    pub kind: CampaignKind,
    /// Carries out the whole campaign, undivided.
    pub command: String,
    pub seed: Seed,
    pub of: NonZeroU32,
    /// Tells which runs were assigned to which part: parts fit only if they were assigned alike.
    #[serde(rename = "deal")]
    pub assignment: String,
    /// What all parts have in common, in the form of the command.
    pub campaign: Value,
    pub parts: BTreeMap<u32, PartState>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct PartState {
    /// Whether one sitting after the other, in one folder, has done all that it was assigned.
    pub finished: bool,
    /// The runs that it was assigned, by their numbers in the campaign.
    #[serde(rename = "dealt")]
    pub assigned: Vec<u64>,
    /// Where the folders of its runs lie, from the folder of this file.
    pub runs_in: Vec<PathBuf>,
}

impl PartFile {
    /// Of a part that begins; its runs lie beside its folder.
    pub fn begun(
        kind: CampaignKind,
        command: String,
        seed: Seed,
        shard: Shard,
        assignment: &Assignment,
        campaign: Value,
    ) -> PartFile {
        let assigned = assignment.runs(shard.number());
        let state = PartState { finished: false, assigned, runs_in: vec!["..".into()] };
        PartFile {
            fencepost: env!("CARGO_PKG_VERSION").to_owned(),
            kind,
            command,
            seed,
            of: shard.of(),
            assignment: assignment.digest(),
            campaign,
            parts: BTreeMap::from([(shard.number(), state)]),
        }
    }

    /// `part 2 of 4`, `parts 1, 2 and 4 of 4`.
    pub fn label(&self) -> String {
        let numbers: Vec<u32> = self.parts.keys().copied().collect();
        format!("{} of {}", numbered(&numbers), self.of)
    }
}

/// `part 2`, `parts 1, 2 and 4`, `parts 1 to 3 and 7`. The numbers ascend.
pub(super) fn numbered(numbers: &[u32]) -> String {
    let mut words = Vec::new();
    for range in numbers.chunk_by(|one, next| one + 1 == *next) {
        match range {
            [first, _, .., last] => words.push(format!("{first} to {last}")),
            few => words.extend(few.iter().map(u32::to_string)),
        }
    }
    match &words[..] {
        [] => "no part".to_owned(),
        [one] if numbers.len() == 1 => format!("part {one}"),
        [range] => format!("parts {range}"),
        [most @ .., last] => format!("parts {} and {last}", most.join(", ")),
    }
}
