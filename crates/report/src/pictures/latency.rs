//! How long operations took: each as a mark, and quantiles over time; a panel for each kind, on a log scale.

use super::canvas::{self, Anchor, Canvas, LEFT, RIGHT, SMALL, TEXT, TimeAxis, WIDTH, text_width};
use super::faults::Strip;
use super::palette::{self, Colour};
use crate::measures::{End, end, latency_ns, names};
use fencepost_checker::{RunIndex, quantile};
use std::collections::{BTreeMap, BTreeSet};

const LEGEND: i32 = 24;
const PANEL: i32 = 120;
const GAP: i32 = 24;
/// Marks that fall into one cell of this many pixels are drawn once.
const CELL: i32 = 2;
const MARK: i32 = 4;
/// Quantiles are of the successes that ended within this many pixels.
const SLICE: i32 = 40;
/// Fewer of them have no quantiles worth a line.
const SLICE_LEAST: usize = 5;
const QUANTILES: [(f64, &str, Colour, u32); 2] =
    [(0.5, "median", palette::INK, 2), (0.99, "99 % within (of 5 or more)", palette::PARTICIPANTS[2], 2)];

struct Panel {
    axis: TimeAxis,
    top: i32,
    bottom: i32,
    decades: (i32, i32),
}

impl Panel {
    fn y(&self, ns: f64) -> i32 {
        let (low, high) = (f64::from(self.decades.0), f64::from(self.decades.1));
        let share = ((ns.max(1.0).log10() - low) / (high - low)).clamp(0.0, 1.0);
        self.bottom - (share * f64::from(self.bottom - self.top)).round() as i32
    }
}

pub fn latency(run: &RunIndex) -> String {
    let names = names(run);
    let axis = TimeAxis { left: LEFT, right: WIDTH - RIGHT, from_ns: 0, to_ns: run.end_ns.max(1) };
    let strip = Strip::new(run, axis);
    let decades = decades(run);
    let top = LEGEND + strip.height() + GAP;
    let bottom = top + names.len().max(1) as i32 * (PANEL + GAP) - GAP;
    canvas::picture(WIDTH, bottom + 26, "Latency of operations over time", |canvas| {
        legend(canvas);
        strip.draw(canvas, LEGEND);
        for (at, name) in names.iter().enumerate() {
            let top = top + at as i32 * (PANEL + GAP);
            let panel = Panel { axis, top, bottom: top + PANEL, decades };
            ground(canvas, &panel, name);
            strip.bands(canvas, panel.top, panel.bottom);
            marks(canvas, &panel, run, name);
            quantiles(canvas, &panel, run, name);
        }
        axis.draw(canvas, bottom, bottom);
    })
}

/// The powers of ten around all latencies.
fn decades(run: &RunIndex) -> (i32, i32) {
    let logs = || run.operations.iter().filter_map(latency_ns).map(|ns| (ns.max(1) as f64).log10());
    let low = logs().fold(f64::INFINITY, f64::min).floor();
    let high = logs().fold(0.0, f64::max).ceil();
    // From a tenth of a millisecond to a second if there is nothing to go by.
    if low.is_finite() { (low as i32, (high as i32).max(low as i32 + 1)) } else { (5, 9) }
}

fn legend(canvas: &Canvas) {
    let y = LEGEND / 2 - 1;
    let mut x = LEFT;
    let ends = [(End::Ok, "ok: it happened"), (End::Fail, "fail: it did not"), (End::Info, "info: unknown")];
    for (end, text) in ends {
        mark(canvas, end, (x + 4, y));
        canvas.text((x + 14, y), text, SMALL, palette::MUTED, Anchor::Start);
        x += 14 + text_width(text, SMALL) + 20;
    }
    for (_, text, colour, width) in QUANTILES {
        canvas.line(&[(x, y), (x + 18, y)], colour, width);
        canvas.text((x + 24, y), text, SMALL, palette::MUTED, Anchor::Start);
        x += 24 + text_width(text, SMALL) + 20;
    }
}

fn ground(canvas: &Canvas, panel: &Panel, name: &str) {
    let Panel { axis, top, bottom, decades } = panel;
    canvas.rect((axis.left, *top), (axis.right, *bottom), palette::STRIPE, 1.0);
    for decade in decades.0..=decades.1 {
        let y = panel.y(10f64.powi(decade));
        canvas.line(&[(axis.left, y), (axis.right, y)], palette::GRID, 1);
        canvas.text((axis.left - 8, y), &unit(decade), SMALL, palette::MUTED, Anchor::End);
    }
    canvas.bold((axis.left, top - 10), name, TEXT, palette::INK, Anchor::Start);
}

/// A power of ten of nanoseconds: "10 ms".
fn unit(decade: i32) -> String {
    let (unit, power) = match decade {
        ..=2 => ("ns", decade),
        3..=5 => ("µs", decade - 3),
        6..=8 => ("ms", decade - 6),
        _ => ("s", decade - 9),
    };
    format!("{} {unit}", 10f64.powi(power))
}

/// Successes as grains, of which touching ones become one; the rarer others as marks of another shape.
fn marks(canvas: &Canvas, panel: &Panel, run: &RunIndex, name: &str) {
    let mut grains: BTreeSet<(i32, i32)> = BTreeSet::new();
    let mut others: BTreeSet<(bool, i32, i32)> = BTreeSet::new();
    for operation in run.operations.iter().filter(|operation| operation.f() == name) {
        let (Some(completion), Some(ns)) = (operation.completion, latency_ns(operation)) else { continue };
        let (x, y) = (panel.axis.x(completion.time), panel.y(ns as f64));
        match end(operation) {
            End::Ok => grains.insert((x / CELL, y / CELL)),
            End::Fail => others.insert((false, x / MARK, y / MARK)),
            End::Info | End::Never => others.insert((true, x / MARK, y / MARK)),
        };
    }
    let mut grains = grains.into_iter().peekable();
    while let Some((x, top)) = grains.next() {
        let mut bottom = top + 1;
        while grains.next_if_eq(&(x, bottom)).is_some() {
            bottom += 1;
        }
        let (from, to) = ((x * CELL, top * CELL), ((x + 1) * CELL + 1, bottom * CELL + 1));
        canvas.rect(from, to, palette::OK, 0.75);
    }
    for (info, x, y) in others {
        let end = if info { End::Info } else { End::Fail };
        mark(canvas, end, (x * MARK + MARK / 2, y * MARK + MARK / 2));
    }
}

/// A step for each slice of time in which enough succeeded.
fn quantiles(canvas: &Canvas, panel: &Panel, run: &RunIndex, name: &str) {
    let mut slices: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
    for operation in run.operations.iter().filter(|operation| operation.f() == name) {
        if let (Some(ok), Some(ns)) = (operation.ok(), latency_ns(operation)) {
            slices.entry((panel.axis.x(ok.time) - panel.axis.left) / SLICE).or_default().push(ns);
        }
    }
    slices.retain(|_, slice| slice.len() >= SLICE_LEAST);
    slices.values_mut().for_each(|slice| slice.sort_unstable());
    for (share, _, colour, width) in QUANTILES {
        let mut steps: Vec<(i32, i32)> = Vec::new();
        let mut next = i32::MIN;
        for (at, slice) in &slices {
            // Where too little succeeded, the line is broken.
            if *at != next {
                canvas.line(&std::mem::take(&mut steps), colour, width);
            }
            next = at + 1;
            let ns = quantile(slice, share).expect("a slice has at least one");
            let (left, y) = (panel.axis.left + at * SLICE, panel.y(ns as f64));
            steps.extend([(left, y), ((left + SLICE).min(panel.axis.right), y)]);
        }
        canvas.line(&steps, colour, width);
    }
}

fn mark(canvas: &Canvas, end: End, (x, y): (i32, i32)) {
    match end {
        End::Ok => canvas.rect((x - 1, y - 1), (x + 2, y + 2), palette::OK, 1.0),
        End::Fail => {
            let cross = [(x - 3, y - 3), (x + 3, y + 3), (x, y), (x - 3, y + 3), (x + 3, y - 3)];
            canvas.line(&cross, palette::FAIL, 1);
        }
        End::Info | End::Never => {
            let diamond = [(x - 4, y), (x, y - 4), (x + 4, y), (x, y + 4)];
            canvas.area(&diamond, palette::INFO, 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_have_units() {
        assert_eq!([3, 5, 6, 8, 9, 10].map(unit), ["1 µs", "100 µs", "1 ms", "100 ms", "1 s", "10 s"]);
    }
}
