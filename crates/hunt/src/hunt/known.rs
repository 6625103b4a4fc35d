use crate::finding::{KeptFinding, kept_findings};
use crate::player::Player;
use crate::replay::replay;
use crate::schedule::Schedule;
use anyhow::{Result, bail};
use fencepost_checker::Violation;
use fencepost_engine::{Stop, refuse};
use fencepost_report::findings::{FINDING, FindingFile};
use std::path::Path;

/// How often a known finding is played before it counts as gone.
const PLAYS: usize = 10;

/// The findings of earlier hunts in a folder, by name, to be replayed first. Errors: unreadable, or none.
pub fn known_findings(folder: &Path) -> Result<Vec<KeptFinding>> {
    let known = kept_findings(folder)?;
    if known.is_empty() {
        refuse!(
            "{} has no known finding: each is a folder with a {FINDING}, as in findings/ of a hunt",
            folder.display()
        );
    }
    Ok(known)
}

/// Plays a finding until it shows; gives the plays that showed it, and all. An error where all failed.
pub(super) async fn again(
    file: &FindingFile,
    schedule: &Schedule,
    player: &dyn Player,
    jobs: usize,
    stop: &Stop,
) -> Result<(usize, usize)> {
    let violation =
        Violation { checker: file.signature.checker.clone(), class: file.signature.class.clone() };
    let mut plays = 0;
    while plays < PLAYS && stop.reason().is_none() {
        let times = jobs.min(PLAYS - plays);
        let replays = replay(schedule, times, jobs, player, stop, |_, played| {
            if let Ok(played) = played {
                let _ = std::fs::remove_dir_all(&played.folder);
            }
        })
        .await;
        if let (0, Some(why)) = (replays.rate.plays, replays.failed.first()) {
            bail!("{why}");
        }
        plays += replays.rate.plays;
        let seen = replays.violations.get(&violation).copied().unwrap_or(0);
        if seen > 0 {
            return Ok((seen, plays));
        }
    }
    Ok((0, plays))
}
