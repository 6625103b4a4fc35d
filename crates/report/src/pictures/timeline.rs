//! The timeline of all holds: a lane for each process, holds as bars, two at once in red, faults as bands.

use super::canvas::{self, Anchor, Canvas, LEFT, RIGHT, Rows, SMALL, TEXT, TimeAxis, WIDTH, text_width};
use super::faults::Strip;
use super::lanes::Lanes;
use super::palette::{self, Colour};
use fencepost_checker::run_index::{Hold, HoldEnd, Operation};
use fencepost_checker::{Class, Overlap, RunIndex};
use fencepost_history::{Kind, RunPhase, f};

/// What lanes may take of the height; many lanes become thin.
const LANES_HEIGHT: i32 = 900;
const LEGEND: i32 = 26;

struct Frame {
    axis: TimeAxis,
    top: i32,
    lane: i32,
    bottom: i32,
}

impl Frame {
    fn bar(&self, lane: usize) -> (i32, i32) {
        let (top, gap) = (self.top + lane as i32 * self.lane, (self.lane / 6).max(1));
        (top + gap, top + self.lane - gap)
    }
}

pub fn timeline(run: &RunIndex, overlaps: &[Overlap]) -> String {
    let lanes = Lanes::of(run);
    let axis = TimeAxis { left: LEFT, right: WIDTH - RIGHT, from_ns: 0, to_ns: run.end_ns.max(1) };
    let strip = Strip::new(run, axis);
    let count = lanes.lanes.len().max(1) as i32;
    let lane = (LANES_HEIGHT / count).clamp(4, 26);
    let top = LEGEND + strip.height() + 32;
    let frame = Frame { axis, top, lane, bottom: top + count * lane };
    let about = format!("Timeline of {} holds by {count} processes", run.holds.len());
    canvas::picture(WIDTH, frame.bottom + 26, &about, |canvas| {
        legend(canvas, run, overlaps);
        strip.draw(canvas, LEGEND);
        ground(canvas, &frame, &lanes);
        strip.bands(canvas, frame.top, frame.bottom);
        axis.draw(canvas, frame.top, frame.bottom);
        phases(canvas, run, &frame);
        unsure(canvas, run, &frame, &lanes);
        holds(canvas, run, &frame, &lanes);
        clashes(canvas, run, &frame, &lanes, overlaps);
        successors(canvas, &frame, &lanes);
    })
}

fn legend(canvas: &Canvas, run: &RunIndex, overlaps: &[Overlap]) {
    let mut x = LEFT;
    let y = LEGEND / 2 - 1;
    let mut entry = |text: &str, swatch: &dyn Fn(i32)| {
        swatch(x);
        canvas.text((x + 28, y), text, SMALL, palette::MUTED, Anchor::Start);
        x += 28 + text_width(text, SMALL) + 18;
    };
    let bar =
        |colour: Colour, half: i32| move |x: i32| canvas.rect((x, y - half), (x + 22, y + half), colour, 1.0);
    entry("holds the lock", &bar(palette::HOLD, 6));
    entry("perhaps still", &bar(palette::CLAIM, 6));
    let some = |class| overlaps.iter().any(|overlap| overlap.class == class);
    if some(Class::GrantedTwice) {
        entry("two at once, granted twice", &bar(palette::CLASH, 6));
    }
    for class in [Class::Overstayed, Class::CutOff].into_iter().filter(|class| some(*class)) {
        entry(&format!("two at once, {}", class.in_words()), &bar(palette::CLASH, 3));
    }
    if run.operations.iter().any(is_unsure) {
        entry("unknown", &bar(palette::UNSURE, 1));
    }
    if run.faults.iter().any(|fault| fault.effective) {
        entry("fault", &|x| canvas.rect((x, y - 6), (x + 22, y + 6), palette::FAULTS[0], 0.45));
    }
    if run.faults.iter().any(|fault| !fault.effective) {
        entry("fault without effect", &|x| canvas.frame((x, y - 6), (x + 22, y + 6), palette::FAULTS[0]));
    }
}

fn ground(canvas: &Canvas, frame: &Frame, lanes: &Lanes) {
    let size = f64::from(frame.lane).clamp(9.0, TEXT);
    // Thin lanes: a label for every few of them.
    let every = ((size + 3.0) / f64::from(frame.lane)).ceil() as usize;
    canvas.text((LEFT - 8, frame.top - 9), "process", SMALL, palette::MUTED, Anchor::End);
    for lane in 0..lanes.lanes.len() {
        let top = frame.top + lane as i32 * frame.lane;
        if lane % 2 == 0 {
            canvas.rect((LEFT, top), (frame.axis.right, top + frame.lane), palette::STRIPE, 1.0);
        }
        if lane % every == 0 {
            let at = (LEFT - 8, top + frame.lane / 2);
            canvas.text(at, &lanes.label(lane), size, palette::INK, Anchor::End);
        }
    }
}

fn phases(canvas: &Canvas, run: &RunIndex, frame: &Frame) {
    let mut rows = Rows::new(2);
    for phase in run.phases.iter().filter(|phase| RunPhase::named(phase.name) != Some(RunPhase::Main)) {
        let x = frame.axis.x(phase.from_ns);
        canvas.dashes(x, frame.top - 28, frame.bottom, palette::MUTED);
        let text = match RunPhase::named(phase.name) {
            Some(RunPhase::Heal) => "all healed",
            Some(RunPhase::Closing) => "closing reads",
            _ => phase.name,
        };
        let width = text_width(text, SMALL);
        // Near the right edge the label stands left of its line, if the one before leaves room.
        let right = x + 4 + width <= frame.axis.right;
        let left = if right { x + 4 } else { x - 4 - width };
        if let Some(row) = rows.place(left, left + width + 8) {
            let (start, anchor) = if right { (x + 4, Anchor::Start) } else { (x - 4, Anchor::End) };
            canvas.text((start, frame.top - 9 - 13 * row as i32), text, SMALL, palette::MUTED, anchor);
        }
    }
}

fn is_unsure(operation: &Operation) -> bool {
    let changes = [f::ACQUIRE, f::WRITE, f::RELEASE].contains(&operation.f());
    changes && operation.completion.is_none_or(|event| event.kind == Kind::Info)
}

fn unsure(canvas: &Canvas, run: &RunIndex, frame: &Frame, lanes: &Lanes) {
    let mut bars = Bars::default();
    for operation in run.operations.iter().filter(|operation| is_unsure(operation)) {
        let to = operation.completion.map_or(run.end_ns, |event| event.time);
        bars.add(frame, lanes.lane(operation.process), operation.invoke.time, to, 2);
    }
    for (lane, from, to) in bars.merged() {
        let (top, bottom) = frame.bar(lane);
        let middle = (top + bottom) / 2;
        canvas.rect((from, middle - 1), (to, middle + 1), palette::UNSURE, 1.0);
    }
}

fn holds(canvas: &Canvas, run: &RunIndex, frame: &Frame, lanes: &Lanes) {
    let (mut claims, mut beliefs) = (Bars::default(), Bars::default());
    for hold in &run.holds {
        let lane = lanes.lane(hold.process);
        claims.add(frame, lane, hold.from_ns, claimed_until(run, hold, lanes), 1);
        beliefs.add(frame, lane, hold.from_ns, hold.until_ns, 1);
    }
    for (bars, colour) in [(claims, palette::CLAIM), (beliefs, palette::HOLD)] {
        for (lane, from, to) in bars.merged() {
            let (top, bottom) = frame.bar(lane);
            canvas.rect((from, top), (to, bottom), colour, 1.0);
        }
    }
}

/// How far a hold is drawn. One that nothing ended is not drawn beyond its lease once its process is gone.
pub fn claimed_until(run: &RunIndex, hold: &Hold, lanes: &Lanes) -> u64 {
    if hold.ends.how != HoldEnd::Open {
        return hold.ends.let_go_ns;
    }
    let lease = hold.ends.lease.map_or(run.end_ns, |lease| lease.earliest.ns);
    lease.clamp(hold.until_ns, hold.ends.let_go_ns).max(lanes.last_ns(hold.process))
}

/// Two at once, in both lanes, joined by a line where there are few enough of them to follow.
fn clashes(canvas: &Canvas, run: &RunIndex, frame: &Frame, lanes: &Lanes, overlaps: &[Overlap]) {
    let thin = frame.lane / 4;
    for (class, inset) in [(Class::CutOff, thin), (Class::Overstayed, thin), (Class::GrantedTwice, 0)] {
        let mut bars = Bars::default();
        for overlap in overlaps.iter().filter(|overlap| overlap.class == class) {
            for hold in [overlap.first, overlap.second] {
                let lane = lanes.lane(run.holds[hold].process);
                bars.add(frame, lane, overlap.from_ns, overlap.until_ns, 3);
            }
        }
        for (lane, from, to) in bars.merged() {
            let (top, bottom) = frame.bar(lane);
            canvas.rect((from, top + inset), (to, bottom - inset), palette::CLASH, 1.0);
        }
    }
    if overlaps.len() > 100 {
        return;
    }
    for overlap in overlaps {
        let [a, b] = [overlap.first, overlap.second].map(|hold| lanes.lane(run.holds[hold].process));
        let x = frame.axis.x(overlap.from_ns);
        canvas.rect((x, frame.bar(a.min(b)).1), (x + 1, frame.bar(a.max(b)).0), palette::CLASH, 0.6);
    }
}

/// Where another process takes over a lane, its number.
fn successors(canvas: &Canvas, frame: &Frame, lanes: &Lanes) {
    if frame.lane < 16 {
        return;
    }
    for (lane, processes) in lanes.lanes.iter().enumerate() {
        let y = frame.top + lane as i32 * frame.lane;
        let mut room = LEFT;
        for (process, from_ns) in processes.iter().skip(1) {
            let (x, label) = (frame.axis.x(*from_ns), process.to_string());
            let width = text_width(&label, 9.0);
            if x >= room && x + width < frame.axis.right {
                canvas.line(&[(x, y), (x, y + frame.lane)], palette::MUTED, 1);
                canvas.rect((x + 1, y), (x + 4 + width, y + 9), palette::GROUND, 0.85);
                canvas.text((x + 3, y + 5), &label, 9.0, palette::MUTED, Anchor::Start);
                room = x + 6 + width;
            }
        }
    }
}

/// Bars in pixels. A million holds have no more pixels than a thousand: what touches is drawn as one.
#[derive(Default)]
struct Bars {
    bars: Vec<(usize, i32, i32)>,
}

impl Bars {
    fn add(&mut self, frame: &Frame, lane: usize, from_ns: u64, to_ns: u64, least: i32) {
        let (from, to) = (frame.axis.x(from_ns), frame.axis.x(to_ns));
        self.bars.push((lane, from, to.max(from + least)));
    }

    fn merged(mut self) -> Vec<(usize, i32, i32)> {
        self.bars.sort_unstable();
        let mut merged: Vec<(usize, i32, i32)> = Vec::new();
        for (lane, from, to) in self.bars {
            match merged.last_mut() {
                Some((last, _, end)) if *last == lane && from < *end => *end = to.max(*end),
                _ => merged.push((lane, from, to)),
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_that_overlap_are_drawn_as_one() {
        let bars = Bars { bars: vec![(1, 0, 5), (0, 3, 9), (0, 0, 4), (0, 9, 10)] };
        assert_eq!(bars.merged(), [(0, 0, 9), (0, 9, 10), (1, 0, 5)]);
    }
}
