//! A player that plays so many schedules at a time, in the order in which they are asked for. The hunt and
//! the work on its findings share one, so that findings get their share and neither waits for the other.
//!
//! It begins with what any machine carries, and adds plays while processors and memory are free. A machine
//! may be too busy for so many: a schedule that fails halves their number, as a lost packet halves what a
//! sender has under way, and gives clients more time to start; then each ten in a row that succeed add one.

use super::room::RoomMeter;
use crate::player::Player;
use crate::schedule::Schedule;
use anyhow::Result;
use async_trait::async_trait;
use fencepost_campaign::Played;
use fencepost_engine::RunOptions;
use fencepost_history::TimeSpan;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

pub struct Limited {
    player: Arc<dyn Player>,
    permits: Semaphore,
    pace: Mutex<JobsPace>,
    begin: usize,
    room: Mutex<RoomMeter>,
}

struct JobsPace {
    usual_time: Duration,
    most: usize,
    now: usize,
    /// Permits that are still to be taken back, once their plays are over.
    owed: usize,
    /// When the number was lowered last: a play that began before says nothing of the lower one.
    lowered: Option<Instant>,
    in_a_row: usize,
    slower: usize,
    /// A change that was not reported yet, in a sentence.
    change: Option<String>,
}

const OF_LAST: f64 = 0.2;

/// Plays are added while this share of the machine is free, as many as leave this rest; one is taken away
/// while no more than this share is.
const FREE: f64 = 0.25;
const REST: f64 = 0.15;
const FULL: f64 = 0.05;

/// So many plays in a row that do not fail add one to those side by side.
const RECOVERS: usize = 10;

/// The least start times of clients after the first failure, and after the next.
pub(super) const START_TIMES: [TimeSpan; 2] = [TimeSpan::from_secs(40), TimeSpan::from_secs(80)];

impl Limited {
    /// `begin` plays at a time, and up to `most` while the machine has room.
    pub fn new(player: Arc<dyn Player>, begin: usize, most: usize) -> Limited {
        let begin = begin.clamp(1, most.max(1));
        let pace = JobsPace {
            usual_time: Duration::ZERO,
            most: most.max(1),
            now: begin,
            owed: 0,
            lowered: None,
            in_a_row: 0,
            slower: 0,
            change: None,
        };
        let (permits, room) = (Semaphore::new(begin), Mutex::default());
        Limited { player, permits, pace: Mutex::new(pace), begin, room }
    }

    /// How many plays go on side by side by now.
    pub fn jobs(&self) -> usize {
        self.pace.lock().now
    }

    /// What has changed since this was asked last, in a sentence.
    pub fn change(&self) -> Option<String> {
        self.pace.lock().change.take()
    }
}

impl JobsPace {
    fn note_time(&mut self, took: Duration) {
        self.usual_time = match self.usual_time.is_zero() {
            true => took,
            false => self.usual_time.mul_f64(1.0 - OF_LAST) + took.mul_f64(OF_LAST),
        };
    }

    fn start_time(&self) -> Option<TimeSpan> {
        self.slower.checked_sub(1).map(|place| START_TIMES[place.min(START_TIMES.len() - 1)])
    }

    /// Gives the permits to add: by what is free of the machine before any failure, afterwards by patience.
    fn note_success(&mut self, free: Option<f64>, begin: usize) -> usize {
        self.in_a_row += 1;
        let wanted = match (self.slower, free) {
            (0, Some(free)) if free >= FREE => self.now + self.that_fit(free),
            (0, Some(free)) if free <= FULL => begin.max(self.now - 1),
            (1.., _) if self.in_a_row >= RECOVERS => self.now + 1,
            _ => self.now,
        };
        let wanted = wanted.min(self.most);
        self.in_a_row = if wanted > self.now { 0 } else { self.in_a_row };
        let (before, added) = (self.owed, wanted.saturating_sub(self.now));
        self.owed = (before + self.now.saturating_sub(wanted)).saturating_sub(added);
        self.now = wanted;
        added.saturating_sub(before)
    }

    /// How many more as costly as those that are played fit into what is free, with a rest; one at least.
    fn that_fit(&self, free: f64) -> usize {
        let all = self.now as f64 * (1.0 - REST) / (1.0 - free).max(REST);
        (all as usize).saturating_sub(self.now).clamp(1, self.now)
    }

    fn note_failure(&mut self, begun: Instant) {
        self.in_a_row = 0;
        if self.lowered.is_some_and(|lowered| begun <= lowered) {
            return;
        }
        self.lowered = Some(Instant::now());
        self.slower = (self.slower + 1).min(START_TIMES.len());
        let fewer = (self.now / 2).max(1);
        self.owed += self.now - fewer;
        self.now = fewer;
        let start_time = START_TIMES[self.slower - 1];
        self.change = Some(format!(
            "a schedule failed, so from here on {fewer} of {} are played side by side, and clients have {start_time} to start",
            self.most
        ));
    }
}

#[async_trait]
impl Player for Limited {
    async fn play(&self, schedule: &Schedule) -> Result<Played> {
        let permit = self.permits.acquire().await?;
        let begun = Instant::now();
        let start_time = self.pace.lock().start_time().or(schedule.options.start_time);
        let options = RunOptions { start_time, ..schedule.options.clone() };
        let played = self.player.play(&Schedule { options, ..schedule.clone() }).await;
        let mut pace = self.pace.lock();
        match &played {
            Ok(_) => {
                // One without faults lasts as long as it was given, and says nothing of the others.
                if !schedule.plan.faults.is_empty() {
                    pace.note_time(begun.elapsed());
                }
                let free = self.room.lock().free();
                self.permits.add_permits(pace.note_success(free, self.begin));
            }
            Err(_) => pace.note_failure(begun),
        }
        if pace.owed > 0 {
            pace.owed -= 1;
            permit.forget();
        }
        played
    }

    fn usual_time(&self) -> Duration {
        self.pace.lock().usual_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use fencepost_checker::RunVerdict;
    use fencepost_nemesis::Plan;
    use futures_util::future::join_all;
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Fails while more than so many play at a time; notes the most that did, and the last time to start.
    struct Busy {
        bears: usize,
        running: AtomicUsize,
        most: AtomicUsize,
        start_time: Mutex<Option<TimeSpan>>,
    }

    #[async_trait]
    impl Player for Busy {
        async fn play(&self, schedule: &Schedule) -> Result<Played> {
            let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
            self.most.fetch_max(running, Ordering::Relaxed);
            *self.start_time.lock() = schedule.options.start_time;
            tokio::time::sleep(Duration::from_millis(5)).await;
            let at_once = self.running.fetch_sub(1, Ordering::Relaxed).max(running);
            if at_once > self.bears {
                return Err(anyhow!("client c1 did not answer the hello"));
            }
            Ok(Played { folder: PathBuf::new(), verdict: RunVerdict::of(Vec::new()), history: Vec::new() })
        }
    }

    fn busy(bears: usize) -> Arc<Busy> {
        let (running, most, start_time) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(None));
        Arc::new(Busy { bears, running, most, start_time })
    }

    fn schedule() -> Schedule {
        Schedule::new(RunOptions::default(), Plan::default())
    }

    #[tokio::test(start_paused = true)]
    async fn schedules_that_fail_make_room_and_give_clients_time() {
        let (player, schedule) = (busy(2), schedule());
        let limited = Limited::new(player.clone(), 6, 6);
        let play = || async { join_all((0..6).map(|_| limited.play(&schedule))).await };
        let failed = play().await.iter().filter(|played| played.is_err()).count();
        assert!(failed > 2, "{failed} of 6");
        let change = limited.change().unwrap();
        assert!(change.contains("3 of 6 are played side by side, and clients have 40s to start"), "{change}");
        assert_eq!((limited.jobs(), limited.change()), (3, None), "six failures at once are one reason");
        play().await;
        assert_eq!(limited.jobs(), 1);
        player.most.store(0, Ordering::Relaxed);
        assert!(play().await.iter().all(Result::is_ok));
        assert_eq!(player.most.load(Ordering::Relaxed), 1);
        assert_eq!(*player.start_time.lock(), Some(TimeSpan::from_secs(80)));
    }

    #[test]
    fn plays_are_added_while_there_is_room_and_taken_while_there_is_none() {
        let limited = Limited::new(busy(9), 2, 8);
        let mut pace = limited.pace.lock();
        let mut note = |free| (pace.note_success(Some(free), 2), pace.now, pace.owed);
        assert_eq!([note(0.3), note(0.7), note(0.5)], [(1, 3, 0), (3, 6, 0), (2, 8, 0)]);
        assert_eq!([note(0.9), note(0.1), note(0.0)], [(0, 8, 0), (0, 8, 0), (0, 7, 1)]);
        assert_eq!(note(0.3), (0, 8, 0), "the permit that was to be taken back stays");
        for _ in 0..8 {
            note(0.0);
        }
        assert_eq!(note(0.0), (0, 2, 6));
    }

    #[tokio::test(start_paused = true)]
    async fn schedules_that_do_not_fail_give_the_room_back() {
        let (player, schedule) = (busy(0), schedule());
        let limited = Limited::new(player.clone(), 2, 2);
        assert!(limited.play(&schedule).await.is_err());
        assert_eq!(limited.jobs(), 1);
        let player = busy(2);
        let limited = Limited { player: player.clone(), ..limited };
        for _ in 0..RECOVERS {
            assert!(limited.play(&schedule).await.is_ok());
        }
        assert_eq!(limited.jobs(), 2);
        join_all((0..4).map(|_| limited.play(&schedule))).await;
        assert_eq!(player.most.load(Ordering::Relaxed), 2);
    }
}
