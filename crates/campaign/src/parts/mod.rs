//! Campaigns in parts: which runs each part was assigned and what it has done, as files, and how parts become
//! one again.
//!
//! A part keeps its runs in lines of their own, so that what a killed part had done is there, and a merge
//! reads neither the folders of runs nor their settings. A merge is written in the same form, so that it can
//! be merged again.

mod assignment;
mod durations;
mod merged_parts;
mod part_file;
mod part_folder;
mod part_writer;
mod records;
mod sources;
#[cfg(test)]
mod tests;

pub use assignment::{Assignment, assign};
pub use durations::{DURATIONS, Durations};
pub use merged_parts::{MergeRefusal, MergedParts, Missing};
pub use part_file::{CampaignKind, MERGE_JSON, PART_JSON, PartFile, PartState};
pub use part_folder::{PartFolder, find_parts};
pub use part_writer::{PartWriter, RunKey, records_before};
pub use records::{RECORDS, Record, RecordHead};
pub use sources::Sources;
