//! Campaigns in parts: what each part was dealt and has done, as files, and how parts become one again.
//!
//! A part keeps its runs in lines of their own, so that what a killed part had done is there, and a merge reads neither the
//! folders of runs nor their settings. A merge is written in the same form, so that it can be merged again.

mod dealing;
mod durations;
mod part_file;
mod part_folder;
mod part_writer;
mod records;
#[cfg(test)]
mod tests;
mod union;

pub use dealing::{Deal, deal};
pub use durations::{DURATIONS, Durations, NoDurations};
pub use part_file::{CampaignKind, MERGE_JSON, PART_JSON, PartFile, PartState};
pub use part_folder::{PartFolder, find_parts};
pub use part_writer::{DealtRun, PartWriter, records_before};
pub use records::{RECORDS, Record, RecordHead};
pub use union::{Missing, Refusal, Union};
