//! Which lane a process has: its later numbers, which do not overlap in time, share it.

use fencepost_checker::RunIndex;
use fencepost_history::Process;
use std::collections::HashMap;

pub struct Lanes {
    /// Of each lane its processes, with the time of the first event of each.
    pub lanes: Vec<Vec<(u64, u64)>>,
    /// Of each process its lane and the time of its last event.
    of: HashMap<u64, (usize, u64)>,
}

impl Lanes {
    pub fn of(run: &RunIndex) -> Lanes {
        let mut spans: HashMap<u64, (u64, u64)> = HashMap::new();
        for event in run.events {
            if let Process::Client(process) = event.process {
                spans.entry(process).or_insert((event.time, event.time)).1 = event.time;
            }
        }
        let mut spans: Vec<(u64, u64, u64)> =
            spans.into_iter().map(|(p, (from, to))| (from, p, to)).collect();
        spans.sort_unstable();
        let mut lanes: Vec<Vec<(u64, u64)>> = Vec::new();
        let mut ends: Vec<u64> = Vec::new();
        let mut last: HashMap<u64, u64> = HashMap::new();
        for (from, process, to) in spans {
            // The lane that fell free last: most likely that of the process whose place this one takes.
            let free = (0..ends.len()).filter(|&lane| ends[lane] < from).max_by_key(|&lane| ends[lane]);
            let lane = free.unwrap_or(lanes.len());
            if lane == lanes.len() {
                lanes.push(Vec::new());
                ends.push(0);
            }
            lanes[lane].push((process, from));
            ends[lane] = to;
            last.insert(process, to);
        }
        lanes.sort_unstable_by_key(|lane| lane[0].0);
        let numbered = lanes.iter().enumerate();
        let of = numbered.flat_map(|(at, lane)| lane.iter().map(move |(process, _)| (*process, at)));
        let of = of.map(|(process, at)| (process, (at, last[&process]))).collect();
        Lanes { lanes, of }
    }

    pub fn lane(&self, process: u64) -> usize {
        self.of[&process].0
    }

    pub fn last_ns(&self, process: u64) -> u64 {
        self.of[&process].1
    }

    /// "3", "3, 13" or "3 … 43".
    pub fn label(&self, lane: usize) -> String {
        match &self.lanes[lane][..] {
            [] => String::new(),
            [(one, _)] => one.to_string(),
            [(one, _), (two, _)] => format!("{one}, {two}"),
            [(first, _), .., (last, _)] => format!("{first} … {last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fencepost_history::{Event, Kind};
    use serde_json::Value;

    #[test]
    fn a_successor_takes_the_lane_of_the_one_that_is_gone() {
        let event = |(index, process): (usize, &u64)| Event {
            index: index as u64,
            time: index as u64,
            process: Process::Client(*process),
            kind: if index.is_multiple_of(2) { Kind::Invoke } else { Kind::Info },
            f: "read".into(),
            key: None,
            value: Value::Null.into(),
            error: None,
        };
        // 1 is gone when 4 begins; 0 is still there, and so has a lane of its own.
        let events: Vec<Event> = [0, 0, 1, 1, 4, 4, 0, 0].iter().enumerate().map(event).collect();
        let lanes = Lanes::of(&RunIndex::new(&events).unwrap());
        assert_eq!([0, 1, 4].map(|process| lanes.lane(process)), [0, 1, 1]);
        assert_eq!([0, 1].map(|lane| lanes.label(lane)), ["0", "1, 4"]);
    }
}
