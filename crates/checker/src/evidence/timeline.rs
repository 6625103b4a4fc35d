use super::{Evidence, ShownOperation};
use crate::prose::seconds;
use std::collections::BTreeMap;
use std::fmt;

/// Operations listed at most; the rest is counted.
const LISTED_MAX: usize = 30;
const WIDTH_MAX: usize = 150;

impl fmt::Display for Evidence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}.", self.sentence)?;
        writeln!(out)?;
        if let Some(rows) = self.timeline() {
            for row in rows {
                writeln!(out, "  {row}")?;
            }
            writeln!(out)?;
        }
        for (at, shown) in self.operations.iter().enumerate().take(LISTED_MAX) {
            writeln!(
                out,
                "  {:>3}  process {}: {}, {}",
                self.mark(at),
                shown.process,
                shown.text,
                self.span(shown)
            )?;
        }
        if let Some(more) = self.operations.len().checked_sub(LISTED_MAX + 1) {
            writeln!(out, "       and {} more", more + 1)?;
        }
        if let Some(others) = self.left_out() {
            writeln!(out, "       and, not shown one by one: {others}")?;
        }
        writeln!(out)?;
        if !self.order.is_empty() {
            writeln!(
                out,
                "  1, 2, …: the longest order that goes well, from {} to {}",
                self.start, self.state
            )?;
        }
        writeln!(out, "  !: fits into no order")
    }
}

impl Evidence {
    /// The operation's number in the longest order, `!` for the one that is stuck.
    pub fn mark(&self, at: usize) -> String {
        if at == self.stuck {
            return "!".to_owned();
        }
        let place = self.order.iter().position(|&other| other == at);
        place.map_or(String::new(), |place| (place + 1).to_string())
    }

    fn span(&self, shown: &ShownOperation) -> String {
        let time = |ns: u64, index: u64| if self.timed { seconds(ns) } else { format!("event {index}") };
        let begin = time(shown.invoke_ns, shown.invoke_index);
        match (shown.complete_ns, shown.complete_index) {
            (Some(ns), Some(index)) => format!("{begin} to {}", time(ns, index)),
            _ => format!("from {begin}; its end was not observed"),
        }
    }

    /// A lane a process, a bar an operation, in order of the events but not to scale.
    fn timeline(&self) -> Option<Vec<String>> {
        let labels: Vec<String> = (0..self.operations.len())
            .map(|at| format!("{} {}", self.mark(at), self.operations[at].text))
            .collect();
        let labels: Vec<&str> = labels.iter().map(|label| label.trim()).collect();
        let columns = self.columns(&labels);
        // The bar of an operation of unknown end reaches to the right edge, and its label must fit in.
        let ends = self
            .operations
            .iter()
            .zip(&labels)
            .map(|(shown, label)| columns[shown.begin as usize] + label.chars().count() + 4);
        let width = ends.chain(columns.last().map(|last| last + 6)).max().unwrap_or(0);
        let name = |process: u64| format!("process {process}");
        let names = self.operations.iter().map(|shown| name(shown.process).len()).max().unwrap_or(0);
        if names + width > WIDTH_MAX {
            return None;
        }
        let mut lanes: BTreeMap<u64, Vec<char>> = BTreeMap::new();
        for (shown, label) in self.operations.iter().zip(labels) {
            let lane = lanes.entry(shown.process).or_insert_with(|| vec![' '; width]);
            let begin = columns[shown.begin as usize];
            let end = shown.end.map_or(width, |end| columns[end as usize]);
            let fill = if shown.end.is_some() { '-' } else { '.' };
            lane[begin + 1..end].fill(fill);
            lane[begin] = '|';
            if shown.end.is_some() {
                lane[end] = '|';
            }
            lane.splice(begin + 1..begin + 1 + label.chars().count(), label.chars());
        }
        let row = |(process, lane): (u64, Vec<char>)| {
            let lane: String = lane.into_iter().collect();
            format!("{:names$}  {}", name(process), lane.trim_end())
        };
        Some(lanes.into_iter().map(row).collect())
    }

    fn columns(&self, labels: &[&str]) -> Vec<usize> {
        let events =
            self.operations.iter().map(|shown| shown.end.unwrap_or(shown.begin).max(shown.begin)).max();
        let mut columns = vec![0; events.map_or(0, |last| last as usize + 1)];
        let mut room = vec![0; columns.len()];
        let mut begins_at = vec![None; columns.len()];
        for (at, shown) in self.operations.iter().enumerate() {
            begins_at[shown.begin as usize] = Some(at);
        }
        for place in 0..columns.len() {
            let after = if place == 0 { 0 } else { columns[place - 1] + 2 };
            columns[place] = after.max(room[place]);
            if let Some(at) = begins_at[place] {
                let needed = columns[place] + labels[at].chars().count() + 2;
                match self.operations[at].end {
                    Some(end) => room[end as usize] = needed,
                    None => {
                        if let Some(last) = room.last_mut() {
                            *last = needed.max(*last);
                        }
                    }
                }
            }
        }
        columns
    }
}
