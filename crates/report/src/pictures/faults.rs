//! How faults are drawn: a strip of labelled bars on top, and faint bands through the picture below.

use super::canvas::{Anchor, Canvas, Rows, SMALL, TimeAxis, text_width};
use super::palette::{self, Colour};
use fencepost_checker::RunIndex;
use fencepost_checker::run_index::Fault;
use fencepost_history::once;

/// The most rows of labelled faults. If they are not enough, one row has no labels: the table has all.
const ROWS_MAX: usize = 6;
/// More bands than this are drawn without a line at their beginning.
const LINES_MAX: usize = 100;
const ROW: i32 = 17;

pub struct Strip<'a> {
    bars: Vec<Bar<'a>>,
    stalls: Vec<(i32, i32)>,
    rows: usize,
    axis: TimeAxis,
}

struct Bar<'a> {
    fault: &'a Fault<'a>,
    colour: Colour,
    label: String,
    label_x: i32,
    /// None: there is no room for it. Only while bars are placed.
    row: Option<usize>,
    from: i32,
    to: i32,
}

impl<'a> Strip<'a> {
    pub fn new(run: &'a RunIndex, axis: TimeAxis) -> Strip<'a> {
        Strip::of(run, run.faults.iter(), axis)
    }

    /// Some of them, in order of injection.
    pub fn of(run: &'a RunIndex, faults: impl Iterator<Item = &'a Fault<'a>>, axis: TimeAxis) -> Strip<'a> {
        let mut rows = Rows::new(ROWS_MAX);
        let place = |fault: &'a Fault<'a>| {
            let (from, to) = (axis.x(fault.inject_ns), axis.x(fault.healed_ns.unwrap_or(run.end_ns)));
            let to = to.max(from + 3);
            let label = fault.description.label.clone();
            let room = text_width(&label, SMALL) + 8;
            // Inside if it fits, else to the right, else (at the edge of the picture) to the left.
            let (left, right, label_x) = if to - from >= room {
                (from, to, from + 4)
            } else if to + room <= axis.right {
                (from, to + room, to + 4)
            } else {
                (from - room, to, from + 4 - room)
            };
            let row = rows.place(left, right + 4);
            Bar { label_x, fault, colour: colour(run, fault), label, row, from, to }
        };
        let mut bars: Vec<_> = faults.map(place).collect();
        let mut rows = rows.count();
        if bars.iter().any(|bar| bar.row.is_none()) {
            rows = 1;
            bars.iter_mut().for_each(|bar| (bar.row, bar.label) = (Some(0), String::new()));
        }
        let stalls = run.stalls.any.iter().map(|(from, to)| (axis.x(*from), axis.x(*to)));
        let stalls = stalls.filter(|(from, to)| from < to).collect();
        Strip { bars, stalls, rows, axis }
    }

    pub fn height(&self) -> i32 {
        if self.rows == 0 { 0 } else { self.rows as i32 * ROW + 6 }
    }

    /// The labelled bars, from `top` down, with `title` left of them.
    pub fn draw(&self, canvas: &Canvas, top: i32) {
        if self.rows == 0 {
            return;
        }
        canvas.text((self.axis.left - 8, top + ROW / 2), "faults", SMALL, palette::MUTED, Anchor::End);
        for bar in &self.bars {
            let Some(row) = bar.row else { continue };
            let y = top + row as i32 * ROW;
            let (from, to) = ((bar.from, y + 1), (bar.to, y + ROW - 2));
            if bar.fault.effective {
                canvas.rect(from, to, bar.colour, 0.45);
            } else {
                canvas.frame(from, to, bar.colour);
            }
            if bar.label.is_empty() {
                continue;
            }
            canvas.text((bar.label_x, y + ROW / 2), &bar.label, SMALL, palette::INK, Anchor::Start);
        }
    }

    /// Faint bands over a height, for the faults that took effect, and grey ones where the machine stalled.
    pub fn bands(&self, canvas: &Canvas, top: i32, bottom: i32) {
        for (from, to) in &self.stalls {
            canvas.rect((*from, top), (*to, bottom), palette::UNSURE, 0.18);
        }
        if let Some((from, _)) = self.stalls.first() {
            canvas.text((from + 3, top + 7), "machine stalled", SMALL, palette::INK, Anchor::Start);
        }
        for bar in self.bars.iter().filter(|bar| bar.fault.effective) {
            canvas.rect((bar.from, top), (bar.to, bottom), bar.colour, 0.15);
            if self.bars.len() <= LINES_MAX {
                canvas.rect((bar.from, top), (bar.from + 1, bottom), bar.colour, 0.7);
            }
        }
    }
}

pub fn colour(run: &RunIndex, fault: &Fault) -> Colour {
    let kinds = once(run.faults.iter().map(|other| other.name));
    let kind = kinds.iter().position(|kind| *kind == fault.name).unwrap_or(0);
    palette::FAULTS[kind % palette::FAULTS.len()]
}
