//! Operations that fit into no order: a lane for each process, a bar from each invocation to its completion.

use super::canvas::{self, Anchor, Canvas, LEFT, SMALL, TEXT, WIDTH, text_width};
use super::palette::{self, Colour};
use fencepost_checker::{Evidence, ShownOperation};
use std::collections::BTreeMap;

const LANE: i32 = 46;
const BAR: i32 = 30;
const LINE: i32 = 18;
const TOP: i32 = 24;
const COLUMN: i32 = 26;
const MARGIN: i32 = 16;
const DRAWN_MAX: usize = 200;

/// The picture as SVG: lanes, bars, the longest order that succeeds, and the stuck operation in red.
pub fn conflict(evidence: &Evidence) -> String {
    let drawn = &evidence.operations[..evidence.operations.len().min(DRAWN_MAX)];
    let columns = columns(evidence);
    // The bar of an indeterminate operation reaches to the right edge, and its label must fit in.
    let ends = drawn.iter().map(|shown| {
        columns[shown.begin as usize] + text_width(&shown.text, TEXT) + 3 * text_width("0", TEXT) + MARGIN
    });
    let right = ends.chain(columns.last().copied()).max().unwrap_or(LEFT).max(WIDTH - 3 * MARGIN);
    let width = right + 2 * MARGIN;
    let sentence = wrapped(&format!("{}.", evidence.sentence), TEXT, width);
    let notes = wrapped(&notes(evidence), SMALL, width);
    let mut lanes: BTreeMap<u64, i32> = drawn.iter().map(|shown| (shown.process, 0)).collect();
    lanes.values_mut().zip(0..).for_each(|(lane, at)| *lane = at);
    let top = TOP + LINE * sentence.len() as i32;
    let bottom = top + LANE * lanes.len() as i32;
    let height = bottom + LINE * notes.len() as i32 + MARGIN;
    canvas::picture(width, height, &evidence.sentence, |canvas| {
        for (y, line) in (TOP..).step_by(LINE as usize).zip(&sentence) {
            canvas.text((MARGIN, y), line, TEXT, palette::INK, Anchor::Start);
        }
        for (process, lane) in &lanes {
            let y = top + LANE * lane;
            let name = format!("process {process}");
            canvas.text((MARGIN, y + BAR / 2), &name, TEXT, palette::MUTED, Anchor::Start);
            canvas.line(&[(LEFT, y + BAR + 8), (right, y + BAR + 8)], palette::GRID, 1);
        }
        for (at, shown) in drawn.iter().enumerate() {
            let y = top + LANE * lanes[&shown.process];
            let begin = columns[shown.begin as usize];
            let end = shown.end.map(|end| columns[end as usize]);
            bar(canvas, begin, end, right, y, colour(evidence, at));
            label(canvas, (begin + 8, y + BAR / 2), &evidence.mark(at), shown);
        }
        for (y, line) in (bottom + LINE / 2..).step_by(LINE as usize).zip(&notes) {
            canvas.text((MARGIN, y), line, SMALL, palette::MUTED, Anchor::Start);
        }
    })
}

fn bar(canvas: &Canvas, begin: i32, end: Option<i32>, right: i32, y: i32, colour: Colour) {
    canvas.rect((begin, y), (end.unwrap_or(right), y + BAR), colour, 0.25);
    match end {
        Some(end) => canvas.frame((begin, y), (end, y + BAR), colour),
        None => {
            canvas.line(&[(right, y), (begin, y), (begin, y + BAR), (right, y + BAR)], colour, 1);
            canvas.dashes(right, y, y + BAR, colour);
        }
    }
}

fn label(canvas: &Canvas, at: (i32, i32), mark: &str, shown: &ShownOperation) {
    let room = if mark.is_empty() { 0 } else { text_width(mark, TEXT) + 8 };
    canvas.bold(at, mark, TEXT, palette::INK, Anchor::Start);
    canvas.text((at.0 + room, at.1), &shown.text, TEXT, palette::INK, Anchor::Start);
}

fn colour(evidence: &Evidence, at: usize) -> Colour {
    match at {
        _ if at == evidence.stuck => palette::CLASH,
        _ if evidence.order.contains(&at) => palette::HOLD,
        _ => palette::UNSURE,
    }
}

fn notes(evidence: &Evidence) -> String {
    let mut notes = String::new();
    if let Some(others) = evidence.left_out() {
        notes += &format!("Not shown one by one: {others}. ");
    }
    if !evidence.order.is_empty() {
        let (start, state) = (&evidence.start, &evidence.state);
        notes += &format!("1, 2, …: the longest order that succeeds, from {start} to {state}. ");
    }
    notes
        + "Red (!): this operation fits into no order. Open to the right: the end was not observed. \
           Events are in order, not to scale."
}

/// The x of each event, with room for labels.
fn columns(evidence: &Evidence) -> Vec<i32> {
    let operations = &evidence.operations;
    let last = operations.iter().map(|shown| shown.end.unwrap_or(shown.begin)).max().unwrap_or(0) as usize;
    let mut columns = vec![LEFT; last + 1];
    // The least x of each event, so that the labels of bars that end there fit into their bars.
    let mut least = vec![0; columns.len()];
    let mut begins: Vec<Option<usize>> = vec![None; columns.len()];
    for (at, shown) in operations.iter().enumerate() {
        begins[shown.begin as usize] = Some(at);
    }
    for place in 0..columns.len() {
        let after = if place == 0 { LEFT } else { columns[place - 1] + COLUMN };
        columns[place] = after.max(least[place]);
        if let Some(at) = begins[place] {
            let text = format!("{}  {}", evidence.mark(at), operations[at].text);
            let end = operations[at].end.map_or(last, |end| end as usize);
            least[end] = least[end].max(columns[place] + text_width(&text, TEXT) + MARGIN);
        }
    }
    columns
}

fn wrapped(text: &str, size: f64, width: i32) -> Vec<String> {
    let characters = (width - 2 * MARGIN) / text_width("0", size);
    textwrap::wrap(text, characters.max(20) as usize).into_iter().map(String::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(process: u64, text: &str, begin: u32, end: Option<u32>) -> ShownOperation {
        ShownOperation {
            process,
            text: text.to_owned(),
            invoke_index: u64::from(begin),
            complete_index: end.map(u64::from),
            invoke_ns: u64::from(begin),
            complete_ns: end.map(u64::from),
            begin,
            end,
        }
    }

    #[test]
    fn two_acquires_without_a_release_between_them() {
        let evidence = Evidence {
            sentence: "process 7 acquired <the lock> that process 3 held".to_owned(),
            operations: vec![
                shown(3, "acquire", 0, Some(2)),
                shown(7, "acquire", 1, Some(3)),
                shown(9, "release", 4, None),
            ],
            left_out: Vec::new(),
            start: "free".to_owned(),
            order: vec![0],
            state: "held by process 3".to_owned(),
            stuck: 1,
            timed: false,
        };
        insta::assert_snapshot!(conflict(&evidence));
    }
}
