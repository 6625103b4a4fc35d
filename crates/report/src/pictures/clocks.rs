//! How far clocks were off over time: a lane for each node, with the faults of that node as bands.

use super::canvas::{self, Anchor, Canvas, LEFT, RIGHT, SMALL, TimeAxis, WIDTH, text_width};
use super::faults::Strip;
use super::palette::{self, Colour};
use fencepost_checker::RunIndex;
use fencepost_history::run::ClockSample;
use fencepost_history::sorted_once;

const LEGEND: i32 = 24;
const LANE: i32 = 58;
const GAP: i32 = 8;

/// A clock is drawn as off from here on; less is how well it can be read.
const LEAST_MS: f64 = 5.0;

/// What the picture shows, for the page.
pub const NOTE: &str = "How far the clocks of each process under a clock fault were ahead of the true ones, as the \
    process itself read them. Each lane has a scale of its own. Bands: the faults of that node.";

const CLOCKS: [(Colour, &str); 2] =
    [(palette::PARTICIPANTS[1], "monotonic clock"), (palette::HOLD, "wall clock")];

struct Lane<'a> {
    node: &'a str,
    samples: Vec<&'a ClockSample>,
    least_ms: f64,
    most_ms: f64,
}

/// The offsets of clocks over a run; none where none was looked at.
pub fn clocks(run: &RunIndex, samples: &[ClockSample]) -> Option<String> {
    let lanes = lanes(samples);
    if lanes.is_empty() {
        return None;
    }
    let axis = TimeAxis { left: LEFT, right: WIDTH - RIGHT, from_ns: 0, to_ns: run.end_ns.max(1) };
    let strip = Strip::new(run, axis);
    let top = LEGEND + strip.height() + 8;
    let bottom = top + lanes.len() as i32 * (LANE + GAP) - GAP;
    Some(canvas::picture(WIDTH, bottom + 26, "How far clocks were off over time", |canvas| {
        legend(canvas);
        strip.draw(canvas, LEGEND);
        for (at, lane) in lanes.iter().enumerate() {
            let top = top + at as i32 * (LANE + GAP);
            canvas.rect((axis.left, top), (axis.right, top + LANE), palette::STRIPE, 1.0);
            let own = run.faults.iter().filter(|fault| fault.targets.contains(&lane.node));
            Strip::of(run, own, axis).bands(canvas, top, top + LANE);
        }
        axis.draw(canvas, top, bottom);
        for (at, lane) in lanes.iter().enumerate() {
            draw(canvas, lane, axis, top + at as i32 * (LANE + GAP));
        }
    }))
}

fn lanes(samples: &[ClockSample]) -> Vec<Lane<'_>> {
    let nodes = sorted_once(samples.iter().map(|sample| sample.node.as_str()));
    let lane = |node| {
        let mut samples: Vec<&ClockSample> = samples.iter().filter(|sample| sample.node == node).collect();
        samples.sort_by_key(|sample| sample.time);
        let shown = samples.iter().flat_map(|sample| offsets(sample)).flatten();
        let (least_ms, most_ms) =
            shown.fold((0.0, 0.0), |(least, most): (f64, f64), ms| (least.min(ms), most.max(ms)));
        // A clock that was never off is a line in the middle.
        let still = most_ms < LEAST_MS && least_ms > -LEAST_MS;
        let (least_ms, most_ms) = if still { (-LEAST_MS, LEAST_MS) } else { (least_ms, most_ms) };
        Lane { node, samples, least_ms, most_ms }
    };
    nodes.into_iter().map(lane).collect()
}

fn offsets(sample: &ClockSample) -> [Option<f64>; 2] {
    [sample.monotonic_ms, sample.wall_ms]
}

fn legend(canvas: &Canvas) {
    let y = LEGEND / 2 - 1;
    let mut x = LEFT;
    for (colour, text) in CLOCKS.iter().rev() {
        canvas.rect((x, y - 2), (x + 18, y + 2), *colour, 1.0);
        canvas.text((x + 24, y), text, SMALL, palette::MUTED, Anchor::Start);
        x += 24 + text_width(text, SMALL) + 20;
    }
    let text = "a gap: the process was down";
    canvas.text((WIDTH - RIGHT, y), text, SMALL, palette::MUTED, Anchor::End);
}

fn draw(canvas: &Canvas, lane: &Lane, axis: TimeAxis, top: i32) {
    let inner = f64::from(LANE - 8);
    let y = |ms: f64| top + 4 + ((lane.most_ms - ms) / (lane.most_ms - lane.least_ms) * inner).round() as i32;
    canvas.line(&[(axis.left, y(0.0)), (axis.right, y(0.0))], palette::GRID, 1);
    canvas.bold((12, top + LANE / 2), lane.node, SMALL, palette::INK, Anchor::Start);
    for ms in [lane.most_ms, lane.least_ms].into_iter().filter(|ms| ms.abs() >= LEAST_MS) {
        canvas.text((axis.left - 8, y(ms)), &offset(ms), SMALL, palette::MUTED, Anchor::End);
    }
    for (which, (colour, _)) in CLOCKS.iter().enumerate() {
        let looks: Vec<(u64, Option<f64>)> =
            lane.samples.iter().map(|sample| (sample.time, offsets(sample)[which])).collect();
        for stretch in looks.split(|(_, ms)| ms.is_none()).filter(|stretch| !stretch.is_empty()) {
            let mut points: Vec<(i32, i32)> =
                stretch.iter().filter_map(|(time, ms)| Some((axis.x(*time), y((*ms)?)))).collect();
            points.dedup();
            match points[..] {
                [alone] => canvas.dot(alone, 2, *colour),
                _ => canvas.line(&points, *colour, 2),
            }
        }
    }
}

/// `+60 s`, `−250 ms`.
fn offset(ms: f64) -> String {
    let sign = if ms < 0.0 { '−' } else { '+' };
    let size = ms.abs();
    match size {
        10_000.0.. => format!("{sign}{:.0} s", size / 1e3),
        1_000.0.. => format!("{sign}{:.1} s", size / 1e3),
        _ => format!("{sign}{size:.0} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::redlock_clock_jump;

    fn sample(time: u64, node: &str, wall_ms: Option<f64>) -> ClockSample {
        let other = wall_ms.map(|_| 0.0);
        ClockSample {
            time,
            node: node.to_owned(),
            wall_ms,
            monotonic_ms: other,
            error_ms: other,
            time_error_ms: 0.5,
        }
    }

    #[test]
    fn each_node_has_a_lane_with_its_own_scale() {
        let fixture = redlock_clock_jump();
        let run = RunIndex::new(&fixture.events).unwrap();
        assert_eq!(clocks(&run, &[]), None);
        let samples = [
            sample(100_000_000, "n3", Some(0.0)),
            sample(200_000_000, "n3", Some(60_000.0)),
            sample(100_000_000, "n1", Some(0.2)),
            sample(200_000_000, "n3", None),
            sample(700_000_000, "n3", Some(-1500.0)),
        ];
        let svg = clocks(&run, &samples).unwrap();
        for text in ["n1", "n3", "+60 s", "−1.5 s", "n3 clock +60.0 s", "wall clock"] {
            assert!(svg.contains(&format!("\n{text}\n")), "{text} is missing in {svg}");
        }
    }

    #[test]
    fn offsets_are_written_in_a_few_characters() {
        assert_eq!([25.4, -999.0, 1500.0, -600_000.0].map(offset), ["+25 ms", "−999 ms", "+1.5 s", "−600 s"]);
    }
}
