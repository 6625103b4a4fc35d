//! Findings, worked out beside the hunt: each is replayed, made small, and written as a scenario.

use super::state::{Found, Hunt};
use crate::finding::keep;
use crate::shrink::{ShrinkBudget, ShrinkOutcome, Shrunk, shrink};
use anyhow::Result;
use fencepost_report::findings::FindingFile;
use fencepost_report::hunt::FindingState;
use futures_util::future::join_all;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How many are worked out at a time: one alone often waits for a single play.
const AT_A_TIME: usize = 2;

/// The share of a hunt's time that one finding may take, with the least and the most.
const OF_ONE: (u32, Duration, Duration) = (3, Duration::from_secs(30), Duration::from_secs(180));
/// The same for all that are left after the hunt's end.
const AFTER_THE_END: (u32, Duration, Duration) = (2, Duration::from_secs(30), Duration::from_secs(600));

const LOOK: Duration = Duration::from_millis(200);

impl Hunt {
    /// Works out findings as they come, until the hunt has ended and none is left, the deadline, or Ctrl-C.
    pub(super) async fn run_shrinkers(&self, hunted: &AtomicBool, deadline: Instant) {
        let until = deadline + self.share(AFTER_THE_END);
        join_all((0..AT_A_TIME).map(|_| self.shrink_until_idle(hunted, until))).await;
    }

    async fn shrink_until_idle(&self, hunted: &AtomicBool, until: Instant) {
        loop {
            // Looked at first: what is found last must not be missed.
            let is_last = hunted.load(Ordering::Relaxed);
            self.work_out_findings(until).await;
            if is_last || self.stop.reason().is_some() {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn share(&self, (share, least, most): (u32, Duration, Duration)) -> Duration {
        (self.request.budget.0 / share).clamp(least, most)
    }

    /// Takes the most telling of the findings out of the line.
    fn next_found(&self) -> Option<Found> {
        let mut progress = self.progress.lock();
        let mut found = self.found.lock();
        found.retain(|found| progress.is_open(&found.name));
        let next = (0..found.len()).min_by_key(|&place| progress.rank(&found[place].name))?;
        let next = found.remove(next)?;
        progress.worked_on.push(next.name.clone());
        Some(next)
    }

    pub(super) async fn work_out_findings(&self, until: Instant) {
        while self.stop.reason().is_none() && Instant::now() < until {
            let Some(found) = self.next_found() else { return };
            let is_to_compare = self.progress.lock().is_to_compare(&found.name);
            let worked_out = match is_to_compare {
                // All are compared before one is made small: that takes two plays, and not thirty.
                true => self.compare_found(&found, until).await,
                false => self.work_out(&found, until).await,
            };
            self.progress.lock().worked_on.retain(|name| *name != found.name);
            if let Err(error) = worked_out
                && self.stop.reason().is_none()
            {
                let sentence = format!("the finding {} cannot be made small: {error:#}", found.name);
                self.observer.message(&sentence);
                self.progress.lock().remark(sentence);
            }
        }
    }

    fn others_wait(&self) -> bool {
        let progress = self.progress.lock();
        self.found.lock().iter().any(|found| progress.is_open(&found.name))
    }

    async fn work_out(&self, found: &Found, until: Instant) -> Result<()> {
        let until = until.min(Instant::now() + self.share(OF_ONE));
        let jobs = self.player.jobs().div_ceil(2);
        let hurries = || self.others_wait();
        let budget = ShrinkBudget { jobs, until: Some(until), stop: &self.stop, hurries: &hurries };
        let Found { name, violation, schedule } = found;
        match shrink(schedule, violation, &self.player, budget, &mut |_| {}).await? {
            ShrinkOutcome::Smaller(shrunk) => {
                let name = self.save_minimized(found, &shrunk)?;
                self.compare_small(&name, &shrunk, until).await?;
            }
            ShrinkOutcome::Rare => self.note_rare(name),
            ShrinkOutcome::OutOfTime(_) => {}
        }
        Ok(())
    }

    /// The violation did not come again: it stays a finding, with the run that shows it.
    fn note_rare(&self, name: &str) {
        let mut progress = self.progress.lock();
        progress.change_finding(name, |finding| finding.state = FindingState::Rare);
        self.observer.message(&format!("{name}: {}", FindingState::Rare.words()));
        let _ = self.folder.write(&progress.state());
    }

    /// Writes the finding with the smallest run; gives its name. Joins it to a finding that shows the same.
    fn save_minimized(&self, found: &Found, shrunk: &Shrunk) -> Result<String> {
        let kept = keep(shrunk, &found.violation, &self.folder.findings(), &self.program)?;
        let file = kept.file;
        let mut progress = self.progress.lock();
        progress.note_small(&found.name, &file);
        self.folder.write(&progress.state())?;
        // The run that was found first is larger, and shows the same.
        self.folder.remove_found_but(&progress.file);
        drop(progress);
        let FindingFile { name, violations, plays, after, .. } = &file;
        self.observer.message(&format!("{name}: in {violations} of {plays} plays, with {after}"));
        Ok(file.name)
    }
}
