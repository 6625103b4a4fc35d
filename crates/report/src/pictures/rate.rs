//! How many operations a second ended, and how.

use super::canvas::{self, Anchor, Canvas, LEFT, RIGHT, SMALL, TimeAxis, WIDTH, text_width};
use super::faults::Strip;
use super::palette::{self, Colour};
use crate::measures::{End, end};
use fencepost_checker::RunIndex;
use plotters::coord::ranged1d::{BoldPoints, Ranged};
use plotters::coord::types::RangedCoordf64;

const LEGEND: i32 = 24;
const HEIGHT: i32 = 190;
/// About how many bins the run is cut into.
const BINS: f64 = 100.0;

struct Rates {
    bin_s: f64,
    series: [Vec<f64>; 3],
}

const SERIES: [(Colour, &str); 3] =
    [(palette::OK, "ok: it happened"), (palette::FAIL, "fail: it did not"), (palette::INFO, "info: unknown")];

pub fn rate(run: &RunIndex) -> String {
    let axis = TimeAxis { left: LEFT, right: WIDTH - RIGHT, from_ns: 0, to_ns: run.end_ns.max(1) };
    let strip = Strip::new(run, axis);
    let rates = rates(run);
    let top = LEGEND + strip.height() + 8;
    let bottom = top + HEIGHT;
    canvas::picture(WIDTH, bottom + 26, "Operations a second over time", |canvas| {
        legend(canvas, rates.bin_s);
        strip.draw(canvas, LEGEND);
        canvas.rect((axis.left, top), (axis.right, bottom), palette::STRIPE, 1.0);
        strip.bands(canvas, top, bottom);
        axis.draw(canvas, top, bottom);
        draw(canvas, &rates, axis, top, bottom);
    })
}

fn rates(run: &RunIndex) -> Rates {
    let end_s = (run.end_ns as f64 / 1e9).max(1e-3);
    let bin_s = round_up(end_s / BINS);
    let bins = (end_s / bin_s).ceil().max(1.0) as usize;
    let mut series: [Vec<f64>; 3] = std::array::from_fn(|_| vec![0.0; bins]);
    for operation in &run.operations {
        let Some(completion) = operation.completion else { continue };
        let bin = ((completion.time as f64 / 1e9 / bin_s) as usize).min(bins - 1);
        let which = match end(operation) {
            End::Ok => 0,
            End::Fail => 1,
            End::Info | End::Never => 2,
        };
        series[which][bin] += 1.0 / bin_s;
    }
    Rates { bin_s, series }
}

/// The next of 1, 2, 5, 10, 20, … of any power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0];
    power * steps.into_iter().find(|step| *step * power >= value * 0.999).unwrap_or(10.0)
}

fn legend(canvas: &Canvas, bin_s: f64) {
    let y = LEGEND / 2 - 1;
    let mut x = LEFT;
    for (colour, text) in SERIES {
        canvas.rect((x, y - 2), (x + 18, y + 2), colour, 1.0);
        canvas.text((x + 24, y), text, SMALL, palette::MUTED, Anchor::Start);
        x += 24 + text_width(text, SMALL) + 20;
    }
    let bins = if bin_s < 1.0 { format!("{:.0} ms", bin_s * 1e3) } else { format!("{bin_s:.0} s") };
    let text = format!("each step: {bins}");
    canvas.text((WIDTH - RIGHT, y), &text, SMALL, palette::MUTED, Anchor::End);
}

fn draw(canvas: &Canvas, rates: &Rates, axis: TimeAxis, top: i32, bottom: i32) {
    let most = rates.series.iter().flatten().copied().fold(1.0, f64::max) * 1.05;
    let y = |rate: f64| bottom - (rate / most * f64::from(bottom - top)).round() as i32;
    for tick in RangedCoordf64::from(0.0..most).key_points(BoldPoints(5)) {
        canvas.line(&[(axis.left, y(tick)), (axis.right, y(tick))], palette::GRID, 1);
        canvas.text((axis.left - 8, y(tick)), &format!("{tick}"), SMALL, palette::MUTED, Anchor::End);
    }
    canvas.text((12, top - 8), "operations a second", SMALL, palette::MUTED, Anchor::Start);
    for (at, series) in rates.series.iter().enumerate() {
        if series.iter().all(|rate| *rate == 0.0) {
            continue;
        }
        let x = |bin: usize| axis.x((bin as f64 * rates.bin_s * 1e9) as u64);
        let steps =
            series.iter().enumerate().flat_map(|(bin, rate)| [(x(bin), y(*rate)), (x(bin + 1), y(*rate))]);
        let steps: Vec<_> = steps.collect();
        if at == 0 {
            let mut under = steps.clone();
            under.extend([(axis.right, bottom), (axis.left, bottom)]);
            canvas.area(&under, palette::OK, 0.12);
        }
        canvas.line(&steps, SERIES[at].0, 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_round() {
        assert_eq!([0.2, 0.21, 0.6, 7.0].map(round_up), [0.2, 0.5, 1.0, 10.0]);
    }
}
