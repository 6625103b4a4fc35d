//! `fencepost merge`: makes one result of the parts of a campaign.

mod args;
mod compare;
mod hunt;
mod scenario;

use crate::output::say;
use crate::store;
use anyhow::Result;
pub use args::MergeArgs;
use fencepost_campaign::parts::{CampaignKind, MERGE_JSON, PART_JSON, Sources};
use fencepost_engine::refuse;
use fencepost_report::terminal;

const INCOMPLETE: i32 = 2;

pub fn merge(args: &MergeArgs) -> Result<i32> {
    if args.out.join(PART_JSON).exists() {
        refuse!(
            "{} is the folder of a part, which a merge would overwrite; name another folder with --out",
            args.out.display()
        );
    }
    // Of a store only the parts: the folders of runs beside them can be many.
    let sources = Sources::read(&store::locals_with(&args.parts, &[PART_JSON, MERGE_JSON])?)?;
    // Where there is no room for it, no file in it is written either; the outcome is said all the same.
    let _ = std::fs::create_dir_all(&args.out);
    // A folder that is a link is one that the user named. Nothing in it is written through a link.
    announce(&sources);
    let code = match sources.merged.file.kind {
        CampaignKind::Compare => compare::merge(args, &sources)?,
        CampaignKind::Scenario => scenario::merge(args, &sources)?,
        CampaignKind::Hunt => hunt::merge(args, &sources)?,
    };
    for sentence in sources.missing() {
        say!("{}", terminal::rows(&[("missing", &sentence)]).trim_end());
    }
    Ok(if sources.merged.missing().is_empty() { code } else { INCOMPLETE })
}

fn announce(sources: &Sources) {
    let file = &sources.merged.file;
    let rows = [("merged", file.label()), ("command", file.command.clone()), ("seed", file.seed.to_string())];
    say!("{}", terminal::rows(&rows.each_ref().map(|(name, text)| (*name, text.as_str()))).trim_end());
}
