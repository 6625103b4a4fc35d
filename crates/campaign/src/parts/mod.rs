//! Campaigns in parts: which runs each part was assigned and has done, as files, and their merge. A part has
//! a line for each run: a killed part loses nothing, a merge reads no folders. A merge has the same form.

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
pub use records::{RECORDS, RecordHead, RunRecord};
pub use sources::Sources;
