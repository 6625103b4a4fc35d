//! Which motions a process's clocks are in, and where that puts them. Pure: the time is an argument.
//!
//! Motions add up, and each can be taken out by itself, so two faults on one node need not know of each
//! other. The exception is a frozen clock: nothing else drifts, but it can still leap.

use crate::clocks::motion::Motion;
use crate::tools::clock::Skew;

#[derive(Debug, Default)]
pub(crate) struct ClockSchedule {
    wall: MotionTrack,
    monotonic: MotionTrack,
}

#[derive(Debug, Default)]
struct MotionTrack {
    parts: Vec<Part>,
    /// Up to when the parts are counted, in nanoseconds.
    at_ns: u64,
}

#[derive(Debug)]
struct Part {
    id: u64,
    motion: Motion,
    /// How many of its moves were made.
    moves: u64,
    due_ns: Option<u64>,
    /// By how much it alone has put the clock ahead.
    ahead_ns: i64,
    drift_ppm: i64,
}

impl ClockSchedule {
    /// Adds a fault's motions, one for each clock that it moves. `now_ns` never goes back between calls.
    pub fn begin(&mut self, id: u64, wall: Option<Motion>, monotonic: Option<Motion>, now_ns: u64) {
        self.advance(now_ns);
        for (track, motion) in [(&mut self.wall, wall), (&mut self.monotonic, monotonic)] {
            let part =
                |motion| Part { id, motion, moves: 0, due_ns: Some(now_ns), ahead_ns: 0, drift_ppm: 0 };
            track.parts.extend(motion.map(part));
        }
        self.advance(now_ns);
    }

    /// Takes out what a fault added, and all that it did. One that is not there is none.
    pub fn end(&mut self, id: u64, now_ns: u64) {
        self.advance(now_ns);
        for track in [&mut self.wall, &mut self.monotonic] {
            track.parts.retain(|part| part.id != id);
        }
    }

    pub fn advance(&mut self, now_ns: u64) {
        self.wall.advance(now_ns);
        self.monotonic.advance(now_ns);
    }

    /// Where the clocks stand at the time of the last call, and how they go on.
    pub fn skew(&self) -> Skew {
        Skew {
            wall_ns: self.wall.ahead_ns(),
            monotonic_ns: self.monotonic.ahead_ns(),
            wall_drift_ppm: self.wall.drift_ppm(),
            monotonic_drift_ppm: self.monotonic.drift_ppm(),
        }
    }

    pub fn due_ns(&self) -> Option<u64> {
        [self.wall.due_ns(), self.monotonic.due_ns()].into_iter().flatten().min()
    }

    pub fn is_empty(&self) -> bool {
        self.wall.parts.is_empty() && self.monotonic.parts.is_empty()
    }
}

impl MotionTrack {
    fn advance(&mut self, now_ns: u64) {
        while let Some(due_ns) = self.due_ns().filter(|due_ns| *due_ns <= now_ns) {
            self.drift_to(due_ns);
            for part in self.parts.iter_mut().filter(|part| part.due_ns == Some(due_ns)) {
                let next = part.motion.step(part.moves);
                part.moves += 1;
                part.ahead_ns = part.ahead_ns.saturating_add(next.leap_ns);
                part.drift_ppm = next.drift_ppm;
                part.due_ns = next.lasts_ns.map(|lasts_ns| due_ns + lasts_ns);
            }
        }
        self.drift_to(now_ns);
    }

    fn drift_to(&mut self, at_ns: u64) {
        let passed_ns = i128::from(at_ns.saturating_sub(self.at_ns));
        let rates = self.rates();
        for (part, rate) in self.parts.iter_mut().zip(rates) {
            part.ahead_ns += (passed_ns * i128::from(rate) / 1_000_000) as i64;
        }
        self.at_ns = self.at_ns.max(at_ns);
    }

    /// What each part adds to the clock's rate. No clock runs backwards: slow ones share the rate of zero.
    fn rates(&self) -> Vec<i64> {
        let rates = self.parts.iter().map(|part| part.drift_ppm);
        if let Some(frozen) = rates.clone().position(|rate| rate == Skew::FROZEN_PPM) {
            return (0..self.parts.len()).map(|at| if at == frozen { Skew::FROZEN_PPM } else { 0 }).collect();
        }
        let sum: i64 = rates.clone().sum();
        let (least, most) = (Skew::FROZEN_PPM, Skew::DRIFT_PPM_MAX);
        match sum.clamp(least, most) {
            possible if possible == sum => rates.collect(),
            possible => rates.map(|rate| rate * possible / sum).collect(),
        }
    }

    fn ahead_ns(&self) -> i64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.ahead_ns))
    }

    fn drift_ppm(&self) -> i64 {
        self.rates().iter().sum()
    }

    fn due_ns(&self) -> Option<u64> {
        self.parts.iter().filter_map(|part| part.due_ns).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::motion::DriftModel;
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn linear(drift_ppm: i64) -> Motion {
        Motion::Drift { model: DriftModel::Linear, drift_ppm, period_ms: 0, seed: 0 }
    }

    fn wall_ms(schedule: &mut ClockSchedule, at_ns: u64) -> i64 {
        schedule.advance(at_ns);
        schedule.skew().wall_ns / 1_000_000
    }

    #[test]
    fn a_jump_and_a_drift_add_up_and_end_apart() {
        let mut schedule = ClockSchedule::default();
        schedule.begin(1, Some(Motion::Jump { by_ms: 60_000 }), None, SECOND);
        schedule.begin(2, Some(linear(100_000)), None, 2 * SECOND);
        assert_eq!(wall_ms(&mut schedule, 4 * SECOND), 60_200);
        assert_eq!(schedule.skew().wall_drift_ppm, 100_000);
        schedule.end(1, 5 * SECOND);
        assert_eq!(wall_ms(&mut schedule, 5 * SECOND), 300);
        schedule.end(2, 6 * SECOND);
        assert_eq!(schedule.skew(), Skew::default());
        assert!(schedule.is_empty());
    }

    #[test]
    fn nothing_drifts_on_a_frozen_clock_but_it_can_leap() {
        let mut schedule = ClockSchedule::default();
        schedule.begin(1, Some(linear(500_000)), None, 0);
        schedule.begin(2, Some(Motion::Freeze), None, 2 * SECOND);
        schedule.begin(3, Some(Motion::Freeze), None, 3 * SECOND);
        schedule.begin(4, Some(Motion::Jump { by_ms: 10_000 }), None, 4 * SECOND);
        assert_eq!(schedule.skew().wall_drift_ppm, Skew::FROZEN_PPM);
        // One second ahead when it froze, two seconds ago; then a leap.
        assert_eq!(wall_ms(&mut schedule, 4 * SECOND), 1000 - 2000 + 10_000);
        schedule.end(2, 4 * SECOND);
        // The second one holds it still, from here on.
        assert_eq!(wall_ms(&mut schedule, 6 * SECOND), 1000 - 2000 + 10_000);
        schedule.end(3, 6 * SECOND);
        assert_eq!(wall_ms(&mut schedule, 6 * SECOND), 11_000);
        assert_eq!(wall_ms(&mut schedule, 8 * SECOND), 12_000);
    }

    #[test]
    fn a_strobe_goes_there_and_back() {
        let mut schedule = ClockSchedule::default();
        schedule.begin(1, None, Some(Motion::Strobe { size_ms: 500, period_ms: 200 }), 0);
        let at = |schedule: &mut ClockSchedule, ms: u64| {
            schedule.advance(ms * 1_000_000);
            (schedule.skew().wall_ns, schedule.skew().monotonic_ns / 1_000_000)
        };
        assert_eq!([50, 150, 250, 350].map(|ms| at(&mut schedule, ms)), [(0, 500), (0, 0), (0, 500), (0, 0)]);
        // Moves that were slept through are made up for.
        assert_eq!(at(&mut schedule, 12_050), (0, 500));
        assert_eq!(schedule.due_ns(), Some(12_100_000_000));
    }

    fn motion() -> impl Strategy<Value = Motion> {
        let model = prop_oneof![
            Just(DriftModel::Linear),
            Just(DriftModel::Periodic),
            Just(DriftModel::Step),
            Just(DriftModel::NonIdeal)
        ];
        prop_oneof![
            (-600_000..600_000_i64).prop_map(|by_ms| Motion::Jump { by_ms }),
            (-600_000..600_000_i64, 10..500_u64)
                .prop_map(|(size_ms, period_ms)| Motion::Strobe { size_ms, period_ms }),
            Just(Motion::Freeze),
            (model, -999_999..999_999_i64, 10..500_u64, any::<u32>()).prop_map(
                |(model, drift_ppm, period_ms, seed)| Motion::Drift { model, drift_ppm, period_ms, seed }
            ),
        ]
    }

    proptest! {
        #[test]
        fn whatever_was_added_is_gone_when_all_is_taken_out(
            motions in prop::collection::vec((motion(), any::<bool>()), 1..6), order in any::<u64>(),
        ) {
            let mut schedule = ClockSchedule::default();
            let mut now_ns = 0;
            for (id, (motion, on_wall)) in (0..).zip(&motions) {
                now_ns += 37_000_000;
                let (wall, monotonic) = if *on_wall { (Some(*motion), None) } else { (None, Some(*motion)) };
                schedule.begin(id, wall, monotonic, now_ns);
                let skew = schedule.skew();
                for rate in [skew.wall_drift_ppm, skew.monotonic_drift_ppm] {
                    prop_assert!((Skew::FROZEN_PPM..=Skew::DRIFT_PPM_MAX).contains(&rate));
                }
            }
            let count = motions.len() as u64;
            for at in 0..count {
                now_ns += 91_000_000;
                schedule.end((at + order) % count, now_ns);
            }
            prop_assert!(schedule.is_empty());
            prop_assert_eq!(schedule.skew(), Skew::default());
        }

        #[test]
        fn how_often_one_looks_changes_nothing(motion in motion(), looks in prop::collection::vec(0..2_000_000_000_u64, 0..20)) {
            let (mut looked, mut left) = (ClockSchedule::default(), ClockSchedule::default());
            for schedule in [&mut looked, &mut left] {
                schedule.begin(1, Some(motion), None, 0);
            }
            let mut looks = looks;
            looks.sort_unstable();
            looks.iter().for_each(|at_ns| looked.advance(*at_ns));
            looked.advance(2_000_000_000);
            left.advance(2_000_000_000);
            // Each look rounds once.
            prop_assert!((looked.skew().wall_ns - left.skew().wall_ns).abs() < 100_000);
        }
    }
}
