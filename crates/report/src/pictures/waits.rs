//! The drawing of acquires that waited for each other: what each asked for, in this order, and how it ended.

use super::canvas::{self, Anchor, Canvas, LEFT, RIGHT, SMALL, TEXT, TimeAxis, WIDTH, text_width};
use super::palette::{self, Colour};
use fencepost_checker::run_index::Operation;
use fencepost_checker::{Finding, RunIndex, seconds};
use fencepost_history::Kind;
use std::collections::BTreeMap;

const TOP: i32 = 8;
const BAR: i32 = 20;
const LANE: i32 = 20 + BAR + 20;

pub const HOW_TO_READ: &str = "A pale bar: the process waits for all names that it asked for. A full bar: it holds them. A red line: it was refused.";

struct Waiting<'r, 'a> {
    acquire: &'r Operation<'a>,
    names: Vec<&'a str>,
    colour: Colour,
}

/// The drawing. None unless the finding cites two ended acquires of several names, one of them in vain.
pub fn waits(run: &RunIndex, finding: &Finding) -> Option<String> {
    let waiting = waiting(run, finding);
    let ends = || waiting.iter().filter_map(|one| one.acquire.completion);
    if ends().count() < 2 || !ends().any(|end| end.kind == Kind::Fail) {
        return None;
    }
    let from_ns = waiting.iter().map(|one| one.acquire.invoke.time).min()?;
    let to_ns = ends().map(|end| end.time).max()?;
    let margin_ns = (to_ns - from_ns) / 16;
    let axis = TimeAxis {
        left: LEFT,
        right: WIDTH - RIGHT,
        from_ns: from_ns.saturating_sub(margin_ns),
        to_ns: to_ns + 4 * margin_ns,
    };
    let bottom = TOP + waiting.len() as i32 * LANE;
    Some(canvas::picture(WIDTH, bottom + 28, &finding.sentence, |canvas| {
        for at in 0..waiting.len() {
            let top = TOP + at as i32 * LANE;
            canvas.rect((LEFT, top), (WIDTH - RIGHT, top + LANE - 2), palette::STRIPE, 1.0);
        }
        axis.draw(canvas, TOP, bottom);
        for (at, one) in waiting.iter().enumerate() {
            lane(canvas, run, one, axis, TOP + at as i32 * LANE);
        }
    }))
}

fn waiting<'r, 'a>(run: &'r RunIndex<'a>, finding: &Finding) -> Vec<Waiting<'r, 'a>> {
    let is_cited =
        |acquire: &&Operation| acquire.completion.is_some_and(|end| finding.events.contains(&end.index));
    let mut found: BTreeMap<u64, (&Operation, Vec<&str>)> = BTreeMap::new();
    for acquire in run.acquires().filter(is_cited) {
        let (_, names) = found.entry(acquire.invoke.index).or_insert((acquire, Vec::new()));
        names.push(acquire.key);
    }
    let several = found.into_values().filter(|(_, names)| names.len() > 1);
    let coloured = several.zip(palette::PARTICIPANTS);
    coloured.map(|((acquire, names), colour)| Waiting { acquire, names, colour }).collect()
}

/// It asks, it waits, and it is refused, or holds what it asked for.
fn lane(canvas: &Canvas, run: &RunIndex, one: &Waiting, axis: TimeAxis, top: i32) {
    let (acquire, bar) = (one.acquire, top + 20);
    let process = format!("process {}", acquire.process);
    canvas.bold((LEFT - 8, bar + BAR / 2), &process, TEXT, palette::INK, Anchor::End);
    let asked = axis.x(acquire.invoke.time);
    let text = format!("asked for {} at {}", one.names.join(", then "), seconds(acquire.invoke.time));
    canvas.bold((asked, top + 10), &text, TEXT, palette::INK, Anchor::Start);
    let Some(end) = acquire.completion else { return };
    let ended = axis.x(end.time).max(asked + 2);
    canvas.rect((asked, bar), (ended, bar + BAR), one.colour, 0.35);
    let (word, colour) = match (&end.error, end.kind) {
        (_, Kind::Ok) => ("got them all".to_owned(), palette::INK),
        (Some(error), _) => (error.to_string(), palette::CLASH),
        (None, _) => ("refused".to_owned(), palette::CLASH),
    };
    if end.kind == Kind::Ok {
        let hold = run.holds.iter().find(|hold| hold.from == end.index);
        let until = hold.map_or(axis.right, |hold| axis.x(hold.ends.let_go_ns).min(axis.right));
        canvas.rect((ended, bar), (until.max(ended + 2), bar + BAR), one.colour, 1.0);
    } else {
        canvas.rect((ended - 1, bar - 4), (ended + 1, bar + BAR + 4), palette::CLASH, 1.0);
    }
    let left = ended.min(axis.right - text_width(&word, SMALL));
    canvas.text((left, bar + BAR + 10), &word, SMALL, colour, Anchor::Start);
}
