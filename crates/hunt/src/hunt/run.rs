//! The loop: a first check, schedules side by side, and the end.

use super::first_check::{FirstCheck, FirstChecked, WithoutFaults};
use super::folder::{FOUND, HuntFolder};
use super::known::{again, known_findings};
use super::limited::Limited;
use super::progress::Progress;
use super::request::HuntRequest;
use super::seen_violation::{SeenViolation, seen_violations};
use super::state::{Found, Hunt, HuntParts};
use crate::AnyNemesis;
use crate::player::Player;
use crate::schedule::Schedule;
use crate::search::{Proposal, ScheduleArchive, ScheduleCoverage, Search, Space, with_ttl};
use anyhow::{Context, Result};
use fencepost_campaign::Played;
use fencepost_checker::Whose;
use fencepost_engine::{BadUsage, NoTimeToStart, StopReason, pick};
use fencepost_history::run::{RunFolder, now};
use fencepost_history::{TimeSpan, shell_path};
use fencepost_nemesis::registry;
use fencepost_report::findings::Signature;
use fencepost_report::hunt::{HuntFile, HuntReference};
use futures_util::future::join_all;
use parking_lot::Mutex;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often those that have no room look whether they have some.
const NO_ROOM: Duration = Duration::from_millis(200);

/// Most of a schedule is waiting, so any processor carries several.
fn jobs_to_begin_with() -> usize {
    3 * std::thread::available_parallelism().map_or(1, usize::from)
}

#[derive(Debug)]
pub struct HuntEnd {
    pub file: HuntFile,
    /// Whether the folder has all of it.
    pub written: Result<()>,
}

pub fn new_file(request: &HuntRequest, driver: &str) -> HuntFile {
    HuntFile {
        fencepost: env!("CARGO_PKG_VERSION").to_owned(),
        command: request.command.clone(),
        started: now(),
        seed: request.seed,
        lock: request.options.lock.clone(),
        driver: driver.to_owned(),
        options: request.options.distinguishing_arguments(),
        nemeses: request.nemeses.clone(),
        jobs: request.jobs,
        spent_ms: 0,
        schedules: 0,
        failed: 0,
        situations: Default::default(),
        nearest_miss: None,
        curve: Vec::new(),
        findings: Vec::new(),
        against: request.against.clone().map(HuntReference::new),
        remarks: Vec::new(),
        missing: Vec::new(),
        ended: None,
    }
}

impl Hunt {
    /// A hunt that begins (with the first number of its numbering, and an archive that is empty or of earlier
    /// hunts), or goes on with what it had kept. The error is one sentence: the request cannot work.
    pub fn new(
        request: HuntRequest,
        (file, archive, next): (HuntFile, ScheduleArchive, u64),
        folder: HuntFolder,
        around: HuntParts,
    ) -> Result<Hunt, BadUsage> {
        let named = |name: &String| pick("nemesis", name, registry(), |nemesis| nemesis.name());
        let nemeses: Vec<AnyNemesis> = request.nemeses.iter().map(named).collect::<Result<_, _>>()?;
        let space = Space::new(request.options.clone(), request.drawn, nemeses)?;
        let (_, step) = request.numbering();
        let mut search = Search::new(space, request.seed);
        search.resume(archive, next, step);
        let begins = file.schedules == 0;
        let short = search.watch_without_faults(request.budget.0);
        if request.renews {
            search.note_renewals();
        }
        let mut progress = Progress::new(search, HuntFile { ended: None, ..file }, request.clone());
        if let Some(sentence) = short.filter(|_| begins) {
            progress.remark(format!("this hunt was {sentence}"));
        }
        let progress = Mutex::new(progress);
        let HuntParts { player, program, stop, observer } = around;
        let player = Limited::new(player, jobs_to_begin_with(), request.jobs);
        let (found, ended) = Default::default();
        Ok(Hunt { folder, request, progress, player, program, stop, observer, found, ended })
    }

    /// Hunts to the end of its time. Errors: the folder is unwritable, or the first check failed.
    pub async fn hunt(&mut self) -> Result<HuntEnd> {
        let deadline = Instant::now() + self.left();
        let begins = self.progress.lock().file.schedules == 0;
        self.folder.write(&self.progress.lock().state())?;
        if begins {
            self.replay_known().await?;
        }
        let goes_on = if begins { self.passes_first_check().await? } else { true };
        if goes_on {
            let schedules = join_all((0..self.request.jobs).map(|worker| self.work(worker, deadline)));
            let hunted = AtomicBool::new(false);
            let hunting = async {
                schedules.await;
                self.progress.lock().note_end();
                hunted.store(true, Ordering::Relaxed);
            };
            tokio::join!(hunting, self.run_shrinkers(&hunted, deadline));
        }
        Ok(self.end())
    }

    async fn replay_known(&self) -> Result<()> {
        let Some(folder) = &self.request.known else { return Ok(()) };
        for known in known_findings(folder)? {
            let schedule = known.schedule(&self.request.options.driver)?;
            let (seen, plays) =
                match again(&known.file, &schedule, &self.player, self.request.jobs, &self.stop).await {
                    _ if self.is_interrupted() => return Ok(()),
                    replayed => replayed.with_context(|| format!("cannot replay {}", known.file.name))?,
                };
            let sentence = match seen {
                0 => format!("known finding {}: no longer reproduces (0 of {plays} plays)", known.file.name),
                _ => format!("known finding {}: still reproduces ({seen} of {plays} plays)", known.file.name),
            };
            self.observer.message(&sentence);
            self.progress.lock().note_known(&known.file, (seen, plays));
        }
        Ok(())
    }

    fn left(&self) -> Duration {
        let spent = Duration::from_millis(self.progress.lock().file.spent_ms);
        self.request.budget.0.saturating_sub(spent)
    }

    async fn passes_first_check(&mut self) -> Result<bool> {
        let checked = match self.first_check().await {
            Err(_) if self.is_interrupted() => return Ok(false),
            checked => checked.context("the first check, without faults, failed")?,
        };
        if checked.renews {
            self.note_renewals();
        }
        if let Some((ttl, why)) = checked.other_ttl {
            self.use_ttl(ttl)?;
            self.observer.message(&why);
            self.progress.lock().remark(why);
        }
        match checked.check {
            FirstCheck::Works => Ok(true),
            FirstCheck::BusyMachine => {
                self.progress.lock().note_busy_machine();
                Ok(true)
            }
            FirstCheck::Silent(why) => {
                let HuntRequest { options, drawn, .. } = &self.request;
                let also = if drawn.ttl { ", nor with a longer one" } else { "" };
                let sentence = format!(
                    "nothing was tested: with a TTL of {}{also} the lock {} granted nothing {why}",
                    options.ttl, options.lock
                );
                self.end_for(sentence.clone());
                self.progress.lock().remark(sentence);
                Ok(false)
            }
            FirstCheck::Broken(broken) => {
                let (schedule, played, seen) = *broken;
                let found = seen.iter().map(|seen| self.progress.lock().note_violation(0, seen)).collect();
                self.take(found, seen, &schedule, played);
                self.work_out_findings(Instant::now() + Duration::from_secs(60)).await;
                self.end_for("the lock is broken without any fault, so no fault was tried".to_owned());
                Ok(false)
            }
        }
    }

    /// Plays the first check; where clients had no time to start, again with more.
    async fn first_check(&self) -> Result<FirstChecked> {
        let HuntRequest { options, drawn, seed, .. } = &self.request;
        let check = WithoutFaults { drawn: *drawn, seed: *seed, player: &self.player };
        let is_slow = |error: &anyhow::Error| error.chain().any(|cause| cause.is::<NoTimeToStart>());
        match check.check(options).await {
            Err(error) if is_slow(&error) && !self.is_interrupted() => {
                self.observer.message(&format!("the first check failed: {error:#}"));
                self.note_pace();
                check.check(options).await
            }
            checked => checked,
        }
    }

    fn note_renewals(&mut self) {
        self.request.renews = true;
        let mut progress = self.progress.lock();
        progress.change_request(self.request.clone());
        progress.search.note_renewals();
    }

    fn note_pace(&self) {
        if let Some(sentence) = self.player.change() {
            self.observer.message(&sentence);
            self.progress.lock().remark(sentence);
        }
    }

    fn use_ttl(&mut self, ttl: TimeSpan) -> Result<(), BadUsage> {
        self.request.options = with_ttl(self.request.options.clone(), ttl);
        // The schedules keep to it: others may not work.
        self.request.drawn.ttl = false;
        let HuntRequest { options, drawn, .. } = &self.request;
        let mut progress = self.progress.lock();
        let nemeses = progress.search.space.nemeses.clone();
        let space = Space::new(options.clone(), *drawn, nemeses)?;
        progress.search.change_space(space);
        progress.change_request(self.request.clone());
        Ok(())
    }

    pub(super) fn ends_by(&self, until: Instant) -> bool {
        Instant::now() + self.player.usual_time() < until
    }

    fn is_interrupted(&self) -> bool {
        self.stop.reason() == Some(&StopReason::Interrupted)
    }

    fn end_for(&self, reason: String) {
        self.ended.lock().get_or_insert(reason);
    }

    /// Plays schedules one after the other; at least one, even where the first check took all the time.
    async fn work(&self, worker: usize, deadline: Instant) {
        let mut is_first = worker == 0 && self.progress.lock().file.schedules == 0;
        while self.stop.reason().is_none() && self.ended.lock().is_none() {
            if !std::mem::take(&mut is_first) && !self.ends_by(deadline) {
                return;
            }
            if worker >= self.player.jobs() {
                tokio::time::sleep(NO_ROOM).await;
                continue;
            }
            let Some(proposal) = self.progress.lock().search.propose() else {
                self.end_for("no nemesis has a target here".to_owned());
                return;
            };
            let played = self.player.play(&proposal.schedule).await;
            match played {
                Err(_) if self.is_interrupted() => return,
                Err(error) => self.fail(proposal.number, &format!("{error:#}")),
                Ok(played) => {
                    if let Err(error) = self.learn(&proposal, played) {
                        self.end_for(format!("what was learned cannot be written: {error:#}"));
                    }
                }
            }
            let status = self.progress.lock().status();
            self.observer.progress(&status);
        }
    }

    fn fail(&self, number: u64, why: &str) {
        self.observer.message(&format!("schedule {number} failed: {why}"));
        self.note_pace();
        let too_many = self.progress.lock().note_failure(number, why);
        if let Some(sentence) = too_many {
            self.end_for(sentence);
        }
    }

    fn learn(&self, proposal: &Proposal, played: Played) -> Result<()> {
        let (late, seen): (Vec<_>, Vec<_>) =
            seen_violations(&played).into_iter().partition(SeenViolation::is_of_a_busy_machine);
        if !late.is_empty() {
            self.progress.lock().note_busy_machine();
        }
        for sentence in self.progress.lock().note_effects(&played.history) {
            self.observer.message(&sentence);
        }
        let coverage = ScheduleCoverage::of(&played.verdict);
        let found = self.progress.lock().learn(proposal, &coverage, &seen, &self.folder);
        match found {
            Ok(found) => {
                let is_new = found.iter().any(Option::is_some);
                self.take(found, seen, &proposal.schedule, played);
                if is_new && self.request.options.fail_fast {
                    self.end_for("the first violation was found".to_owned());
                }
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&played.folder);
                Err(error)
            }
        }
    }

    pub(super) fn say_found(&self, signature: &Signature, sentence: &str, whose: Option<Whose>) {
        let whose = whose.map_or(String::new(), |whose| format!(" ({whose})"));
        self.observer.message(&format!("finding: {signature}: {sentence}{whose}"));
    }

    /// Keeps the run of a new finding, reports it, and puts it in line; removes the run of a known one.
    fn take(
        &self,
        found: Vec<Option<String>>,
        seen: Vec<SeenViolation>,
        schedule: &Schedule,
        played: Played,
    ) {
        // Several new violations of one run lie in the folder of the first; each is worked out for itself.
        let mut run = None;
        for (name, seen) in found.into_iter().zip(seen) {
            let Some(name) = name else { continue };
            // A finding that is to be compared is reported after that.
            if self.request.against.is_none() {
                self.say_found(&seen.signature, &seen.sentence, seen.whose);
            }
            if run.is_none() {
                match self.keep_run(&name, &played.folder) {
                    Ok(kept) => run = Some(kept),
                    Err(error) => {
                        self.progress.lock().remark(format!("the run of {name} cannot be kept: {error:#}"));
                    }
                }
            }
            self.note_run(&name, run.as_deref());
            let (violation, schedule) = (seen.violation, schedule.clone());
            self.found.lock().push_back(Found { name, violation, schedule });
        }
        if run.is_none() {
            let _ = fs::remove_dir_all(&played.folder);
        }
    }

    /// Moves a run into its finding's folder, and draws its report. Gives the path from the hunt's folder.
    fn keep_run(&self, name: &str, run: &Path) -> Result<String> {
        let kept = self.folder.found(name);
        fs::create_dir_all(kept.parent().unwrap_or(&kept))?;
        fs::rename(run, &kept)?;
        fencepost_report::judge(&RunFolder::open(&kept)?)?;
        Ok(format!("{FOUND}/{name}"))
    }

    fn note_run(&self, name: &str, run: Option<&str>) {
        let mut progress = self.progress.lock();
        // A run may show other violations as well.
        let class = progress.finding(name).map(|finding| finding.signature.class.clone());
        let command = run.zip(class).map(|(run, class)| {
            format!("{} shrink {} --class {class}", self.program, shell_path(&self.folder.path.join(run)))
        });
        progress.change_finding(name, |finding| {
            (finding.run, finding.command) = (run.map(str::to_owned), command);
        });
        if let Err(error) = self.folder.write(&progress.state()) {
            self.end_for(format!("what was found cannot be written: {error:#}"));
        }
    }

    fn end(&self) -> HuntEnd {
        let mut progress = self.progress.lock();
        progress.note_time();
        progress.file.note_coverage();
        let reason = self.ended.lock().take();
        let reason = match (reason, self.is_interrupted()) {
            (Some(reason), _) => reason,
            (None, true) => "it was interrupted".to_owned(),
            (None, false) => "its time was over".to_owned(),
        };
        progress.file.ended = Some(reason);
        self.folder.remove_runs();
        let written =
            self.folder.write(&progress.state()).and_then(|()| self.folder.write_report(&progress.file));
        HuntEnd { file: progress.file.clone(), written }
    }
}
