//! A hunt, read from its `hunt.json`: as a page, and as Markdown.

mod curve;
mod file;
mod markdown;
mod merged;
mod page;
#[cfg(test)]
mod tests;
mod worth;

pub use crate::confidence::SITUATION;
pub use file::{
    Compared, CurvePoint, FindingGroup, FindingState, HUNT_JSON, HuntFile, HuntFinding, HuntReference,
    NearestMiss, REMARKS_MAX, SituationCount,
};
pub use markdown::markdown;
pub use merged::merged;
pub use page::html;
pub use worth::{HuntWorth, SCHEDULES_MIN, SITUATIONS_MIN_PERCENT};
