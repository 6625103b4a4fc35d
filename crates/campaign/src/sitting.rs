//! Plays the runs of a campaign that are not done, several at a time; each is recorded, then shown.

use crate::context::CampaignContext;
use crate::lines::ProgressLine;
use crate::parts::{PartWriter, RunKey, RunRecord};
use anyhow::{Error, Result};
use futures_util::StreamExt;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// A run that is to be played here.
#[derive(Clone, Debug)]
pub struct PlannedRun<R> {
    pub key: RunKey,
    /// About how long it takes, where that can be known.
    pub expected: Option<Duration>,
    /// Whether nothing may run beside it.
    pub undisturbed: bool,
    pub run: R,
}

/// What a campaign consists of, and what comes of its runs.
pub trait Campaign {
    type Run;
    type Outcome: Serialize;

    /// Plays a run. None where Ctrl-C came before anything could be known of it.
    fn play(&self, run: &PlannedRun<Self::Run>) -> impl Future<Output = Option<Self::Outcome>>;

    /// Whether the run need not be played again.
    fn is_done(outcome: &Self::Outcome) -> bool;

    /// What is said of a run that has ended, if anything.
    fn line(&self, run: &RunKey, outcome: &Self::Outcome, count: &Count) -> Option<String>;
}

/// How far the runs are that are played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    pub ended: usize,
    pub all: usize,
    /// ` · about 3 min left`; empty where that is not known, or nothing is left.
    pub left: String,
}

/// A campaign, or its part, from what was done before to its end or an interruption.
pub struct Sitting<C: Campaign> {
    pub campaign: C,
    /// All runs that belong to it, whether they are done or not.
    pub runs: Vec<PlannedRun<C::Run>>,
    /// What came of each run so far, by its number.
    pub outcomes: BTreeMap<u64, C::Outcome>,
    /// None where nothing is kept for a merge.
    part: Option<PartWriter>,
}

impl<C: Campaign> Sitting<C> {
    /// Of these runs, with what is known of those that were played before.
    pub fn new(
        campaign: C,
        runs: Vec<PlannedRun<C::Run>>,
        outcomes: BTreeMap<u64, C::Outcome>,
        part: Option<PartWriter>,
    ) -> Sitting<C> {
        Sitting { campaign, runs, outcomes, part }
    }

    fn is_done(&self, run: &PlannedRun<C::Run>) -> bool {
        self.outcomes.get(&run.key.number).is_some_and(C::is_done)
    }

    pub fn left(&self) -> impl Iterator<Item = &PlannedRun<C::Run>> {
        self.runs.iter().filter(|run| !self.is_done(run))
    }

    /// How many runs need not be played again.
    pub fn done(&self) -> usize {
        self.runs.iter().filter(|run| self.is_done(run)).count()
    }

    /// Plays what is left, `jobs` at a time, until Ctrl-C. Gives the runs that could not be recorded.
    pub async fn play(
        &mut self,
        jobs: usize,
        context: &CampaignContext,
        progress: &ProgressLine,
    ) -> Vec<(u64, Error)> {
        let counter = RunCounter::new(self.left(), jobs);
        counter.count(0).show(progress);
        let places = Semaphore::new(jobs);
        let played =
            self.left().map(|run| self.play_in_turn(run, (&places, jobs), context, &counter, progress));
        let played: Vec<_> = futures_util::stream::iter(played).buffer_unordered(jobs).collect().await;
        progress.clear();
        let mut unrecorded = Vec::new();
        for (number, outcome, recorded) in played.into_iter().flatten() {
            self.outcomes.insert(number, outcome);
            unrecorded.extend(recorded.err().map(|error| (number, error)));
        }
        unrecorded
    }

    /// Plays one when its turn comes; one that must not be disturbed takes all places.
    async fn play_in_turn(
        &self,
        run: &PlannedRun<C::Run>,
        (places, jobs): (&Semaphore, usize),
        context: &CampaignContext,
        counter: &RunCounter,
        progress: &ProgressLine,
    ) -> Option<(u64, C::Outcome, Result<()>)> {
        let needed = if run.undisturbed { jobs } else { 1 };
        let _places = places.acquire_many(u32::try_from(needed).ok()?).await.ok()?;
        if context.stop.reason().is_some() {
            return None;
        }
        let begun = Instant::now();
        let outcome = self.campaign.play(run).await?;
        // Recorded before it is shown: a campaign that is killed afterwards has shown nothing that is lost.
        let recorded = self.record(run.key.number, &outcome, begun.elapsed());
        let count = counter.note_end();
        if let Some(line) = self.campaign.line(&run.key, &outcome, &count) {
            progress.say(&line);
        }
        count.show(progress);
        Some((run.key.number, outcome, recorded))
    }

    fn record(&self, number: u64, outcome: &C::Outcome, took: Duration) -> Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        let is_done = C::is_done(outcome);
        let took_ms = u64::try_from(took.as_millis()).ok().filter(|_| is_done);
        part.add(&RunRecord::new(number, is_done, took_ms, outcome)?)
    }

    /// Notes for a merge that nothing more will be played. Errors: a file of the part cannot be written.
    pub fn end(&mut self) -> Result<()> {
        let is_finished = self.left().next().is_none();
        self.part.take().map_or(Ok(()), |part| part.end(is_finished))
    }
}

/// Counts the runs that end, and estimates how long the others take.
struct RunCounter {
    begun: Instant,
    /// How long all of them take, by what was asked for.
    expected: Option<Duration>,
    all: usize,
    jobs: usize,
    ended: Mutex<usize>,
}

impl RunCounter {
    fn new<'a, R: 'a>(runs: impl Iterator<Item = &'a PlannedRun<R>>, jobs: usize) -> RunCounter {
        let expected: Vec<Option<Duration>> = runs.map(|run| run.expected).collect();
        let (all, sum) = (expected.len(), expected.into_iter().sum::<Option<Duration>>());
        let expected = sum.map(|sum| sum / u32::try_from(jobs).unwrap_or(1).max(1));
        RunCounter { begun: Instant::now(), expected, all, jobs, ended: Mutex::new(0) }
    }

    fn note_end(&self) -> Count {
        let mut ended = self.ended.lock();
        *ended += 1;
        self.count(*ended)
    }

    /// By what was asked for, and once each job has ended some runs by how long they took.
    fn count(&self, ended: usize) -> Count {
        let so_far = self.begun.elapsed();
        let whole = match ended >= 2 * self.jobs {
            true => Some(so_far.mul_f64(self.all as f64 / ended as f64)),
            false => self.expected,
        };
        let seconds = whole.map(|whole| whole.saturating_sub(so_far).as_secs());
        let left = match seconds.filter(|_| ended < self.all) {
            None => String::new(),
            Some(seconds @ 0..90) => format!(" · about {seconds} s left"),
            Some(seconds) => format!(" · about {} min left", seconds.div_ceil(60)),
        };
        Count { ended, all: self.all, left }
    }
}

impl Count {
    fn show(&self, progress: &ProgressLine) {
        let Count { ended, all, left } = self;
        progress.show(*ended as u64, *all as u64, format!("{ended}/{all} runs{left}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{LiteralPlayer, context};
    use std::collections::BTreeSet;

    /// Runs that take as many seconds as they say, and come to their number.
    #[derive(Default)]
    struct Sleeps {
        running: Mutex<BTreeSet<u64>>,
        /// What went on beside each run as it began.
        beside: Mutex<BTreeMap<u64, usize>>,
        lines: Mutex<Vec<String>>,
        /// Ctrl-C comes as this run ends.
        last: Option<(u64, CampaignContext)>,
    }

    impl Campaign for &Sleeps {
        type Run = u64;
        type Outcome = u64;

        async fn play(&self, run: &PlannedRun<u64>) -> Option<u64> {
            let number = run.key.number;
            self.beside.lock().insert(number, self.running.lock().len());
            self.running.lock().insert(number);
            tokio::time::sleep(Duration::from_secs(run.run)).await;
            self.running.lock().remove(&number);
            match &self.last {
                Some((last, context)) if number == *last => context.stop.interrupt(),
                _ => {}
            }
            Some(number)
        }

        /// Odd runs fail.
        fn is_done(outcome: &u64) -> bool {
            outcome.is_multiple_of(2)
        }

        fn line(&self, run: &RunKey, _: &u64, count: &Count) -> Option<String> {
            let Count { ended, all, left } = count;
            self.lines.lock().push(format!("{ended}/{all} {}{left}", run.label));
            None
        }
    }

    fn runs(seconds: &[u64]) -> Vec<PlannedRun<u64>> {
        let run = |(number, seconds): (u64, &u64)| PlannedRun {
            key: RunKey { number, label: format!("run {number}"), name: String::new() },
            expected: Some(Duration::from_secs(100)),
            undisturbed: false,
            run: *seconds,
        };
        (0..).zip(seconds).map(run).collect()
    }

    async fn play(campaign: &Sleeps, runs: Vec<PlannedRun<u64>>, jobs: usize) -> Sitting<&Sleeps> {
        let (context, printed) = context(std::path::Path::new("nowhere"), LiteralPlayer::holding());
        let context = campaign.last.as_ref().map_or(context, |(_, context)| context.clone());
        let mut sitting = Sitting::new(campaign, runs, BTreeMap::new(), None);
        assert!(sitting.play(jobs, &context, &ProgressLine::hidden(printed)).await.is_empty());
        sitting
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_must_not_be_disturbed_goes_alone_and_none_overtakes_it() {
        let campaign = Sleeps::default();
        let mut planned = runs(&[5, 2, 1, 1, 1]);
        planned[2].undisturbed = true;
        let begun = Instant::now();
        let sitting = play(&campaign, planned, 2).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(5 + 1 + 1));
        assert_eq!(campaign.beside.lock().values().copied().collect::<Vec<_>>(), [0, 1, 0, 0, 1]);
        assert_eq!(
            (sitting.done(), sitting.left().map(|run| run.key.number).collect::<Vec<_>>()),
            (3, vec![1, 3])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn no_run_begins_after_an_interruption_and_those_that_are_over_count() {
        let (context, _) = context(std::path::Path::new("nowhere"), LiteralPlayer::holding());
        let campaign = Sleeps { last: Some((2, context)), ..Sleeps::default() };
        let sitting = play(&campaign, runs(&[1; 9]), 3).await;
        assert_eq!(sitting.outcomes.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_that_is_left_is_what_was_expected_until_enough_runs_have_ended() {
        let campaign = Sleeps::default();
        play(&campaign, runs(&[10; 6]), 1).await;
        let lines = campaign.lines.lock().clone();
        assert_eq!(lines[0], "1/6 run 0 · about 10 min left", "600 s were expected, and 10 are over");
        assert_eq!(lines[1..3], ["2/6 run 1 · about 40 s left", "3/6 run 2 · about 30 s left"]);
        assert_eq!(lines[5], "6/6 run 5");

        let campaign = Sleeps::default();
        let mut unknown = runs(&[10; 4]);
        unknown[3].expected = None;
        play(&campaign, unknown, 1).await;
        let lines = ["1/4 run 0", "2/4 run 1 · about 20 s left", "3/4 run 2 · about 10 s left", "4/4 run 3"];
        assert_eq!(*campaign.lines.lock(), lines);
    }

    #[tokio::test(start_paused = true)]
    async fn runs_that_are_done_are_not_played_again() {
        let campaign = Sleeps::default();
        let (context, printed) = context(std::path::Path::new("nowhere"), LiteralPlayer::holding());
        let before = BTreeMap::from([(0, 0), (1, 1)]);
        let mut sitting = Sitting::new(&campaign, runs(&[1; 4]), before, None);
        sitting.play(1, &context, &ProgressLine::hidden(printed)).await;
        let played: Vec<u64> = campaign.beside.lock().keys().copied().collect();
        assert_eq!(played, [1, 2, 3], "0 is done, and 1 had failed");
        assert_eq!(sitting.outcomes.len(), 4);
    }
}
