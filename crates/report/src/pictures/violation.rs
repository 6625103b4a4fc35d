//! The drawing of one violation: the holding processes, the granting servers, the fault, the writes.

use super::canvas::{
    self, Anchor, Canvas, LEFT, RIGHT, Rows, SMALL, TEXT, TimeAxis, WIDTH, span, text_width,
};
use super::excerpt::{Excerpt, Participant};
use super::faults::{self, Strip};
use super::palette::{self, Colour};
use crate::shown_findings::ShownFinding;
use fencepost_checker::{Claim, RunIndex, lock, seconds};
use fencepost_history::{Kind, LockKind, OperationError, f};

const TOP: i32 = 8;
const CAPTION: i32 = 24;
const BAR: i32 = 20;
const ROW: i32 = 15;
const PROCESS: i32 = 20 + BAR + 8 + 2 * ROW + 8;
/// A node has half a lane for each of the participants.
const HALF: i32 = 9;
const STORAGE: i32 = 26 + 2 * ROW;

/// The drawing of a violation. None where there are no holds to draw.
pub fn violation(run: &RunIndex, shown: &ShownFinding) -> Option<String> {
    let excerpt = Excerpt::of(run, shown)?;
    let axis = TimeAxis { left: LEFT, right: WIDTH - RIGHT, from_ns: excerpt.from_ns, to_ns: excerpt.to_ns };
    let strip = Strip::of(run, excerpt.faults.iter().copied(), axis);
    let places = DrawnPlaces::of(&excerpt, TOP + strip.height());
    let about = shown.finding.sentence.as_str();
    Some(canvas::picture(WIDTH, places.bottom + 28, about, |canvas| {
        strip.draw(canvas, TOP);
        places.ground(canvas, &excerpt);
        strip.bands(canvas, places.processes, places.bottom);
        axis.draw(canvas, places.processes, places.bottom);
        both(canvas, &excerpt, axis, &places);
        for (at, participant) in excerpt.participants.iter().enumerate() {
            process(canvas, &excerpt, participant, axis, places.processes + at as i32 * PROCESS);
        }
        for (at, node) in excerpt.nodes.iter().enumerate() {
            let top = places.nodes + at as i32 * places.node;
            faults_of(canvas, run, &excerpt, node, axis, (top, top + places.node));
            grants(canvas, &excerpt, node, axis, top + 3);
        }
        storage(canvas, &excerpt, axis, places.storage);
    }))
}

struct DrawnPlaces {
    processes: i32,
    nodes: i32,
    node: i32,
    storage: i32,
    bottom: i32,
}

impl DrawnPlaces {
    fn of(excerpt: &Excerpt, top: i32) -> DrawnPlaces {
        let processes = top + CAPTION;
        let nodes = processes + excerpt.participants.len() as i32 * PROCESS + 6;
        let node = 6 + HALF * excerpt.participants.len().max(2) as i32;
        let storage = nodes + excerpt.nodes.len() as i32 * node + 6;
        let bottom = storage + if excerpt.writes.is_empty() { 0 } else { STORAGE };
        DrawnPlaces { processes, nodes, node, storage, bottom }
    }

    fn ground(&self, canvas: &Canvas, excerpt: &Excerpt) {
        let lane = |top: i32, height: i32| {
            canvas.rect((LEFT, top), (WIDTH - RIGHT, top + height - 2), palette::STRIPE, 1.0);
        };
        for (at, participant) in excerpt.participants.iter().enumerate() {
            let top = self.processes + at as i32 * PROCESS;
            lane(top, PROCESS);
            let label = format!("process {}", participant.hold.process);
            canvas.bold((LEFT - 8, top + 20 + BAR / 2), &label, TEXT, palette::INK, Anchor::End);
        }
        for (at, node) in excerpt.nodes.iter().enumerate() {
            let top = self.nodes + at as i32 * self.node;
            lane(top, self.node);
            canvas.text((LEFT - 8, top + self.node / 2), node, TEXT, palette::INK, Anchor::End);
        }
        if !excerpt.writes.is_empty() {
            lane(self.storage, STORAGE);
            canvas.text((LEFT - 8, self.storage + 14), "storage", TEXT, palette::INK, Anchor::End);
        }
    }
}

fn both(canvas: &Canvas, excerpt: &Excerpt, axis: TimeAxis, places: &DrawnPlaces) {
    let Some((from_ns, until_ns)) = excerpt.both else { return };
    let (from, to) = (axis.x(from_ns), axis.x(until_ns).max(axis.x(from_ns) + 3));
    canvas.rect((from, places.processes - 4), (to, places.nodes - 8), palette::CLASH, 0.16);
    canvas.rect((from, places.processes - 6), (to, places.processes - 2), palette::CLASH, 1.0);
    let what = excerpt.too_many.clone().unwrap_or_else(|| format!("both hold {}", lock(excerpt.key)));
    let text = match until_ns - from_ns {
        0 => format!("{what} at {}", seconds(from_ns)),
        length => format!("{what} for {}", span(length)),
    };
    // A text that is too long for the picture begins in it.
    let half = text_width(&text, TEXT) / 2;
    let middle = ((from + to) / 2).min(axis.right - half).max(axis.left + half);
    canvas.bold((middle, places.processes - 14), &text, TEXT, palette::CLASH, Anchor::Middle);
}

/// The lane of a process: it waits, it holds, and what it does under the hold.
fn process(canvas: &Canvas, excerpt: &Excerpt, participant: &Participant, axis: TimeAxis, top: i32) {
    let hold = participant.hold;
    let (bar, bottom) = (top + 20, top + 20 + BAR);
    let middle = (bar + bottom) / 2;
    let (asked, from) = (axis.x(hold.invoke_ns), axis.x(hold.from_ns));
    canvas.line(&[(asked, middle), (from, middle)], participant.colour, 1);
    canvas.line(&[(asked, middle - 4), (asked, middle + 4)], participant.colour, 1);
    let (until, end) = (axis.x(hold.until_ns).max(from + 2), axis.x(hold.ends.let_go_ns).max(from + 2));
    canvas.rect((from, bar), (end, bottom), participant.colour, 0.35);
    canvas.rect((from, bar), (until, bottom), participant.colour, 1.0);
    if let Some((clash, over)) = excerpt.both {
        canvas.rect((axis.x(clash), bar), (axis.x(over).max(axis.x(clash) + 3), bottom), palette::CLASH, 1.0);
    }
    let title = title(participant, excerpt.kind);
    let width = text_width(&title, TEXT);
    let left = from.min(axis.right - width).max(axis.left);
    canvas.bold((left, top + 10), &title, TEXT, palette::INK, Anchor::Start);
    let later = participant.promised_until().filter(|expires| *expires > axis.to_ns);
    let note = later.map_or(String::new(), |expires| format!("promised until {} →", seconds(expires)));
    if left + width + 12 < axis.right - text_width(&note, SMALL) {
        canvas.text((axis.right - 6, top + 10), &note, SMALL, palette::MUTED, Anchor::End);
    }
    lease(canvas, participant, axis, bottom + 3);
    acts(canvas, participant, axis, bottom + 8);
}

/// "holds k0 from 0.110 s, token 33".
fn title(participant: &Participant, kind: LockKind) -> String {
    let hold = participant.hold;
    let mut title = format!("got {} at {}", hold.claim.of_lock(hold.key, kind), seconds(hold.from_ns));
    if !hold.granted_by.is_empty() {
        title += &format!(" from {}", hold.granted_by.join(", "));
    }
    if let Some(token) = hold.token {
        title += &format!(", token {token}");
    }
    title
}

/// A thin line under the hold: how long it was promised.
fn lease(canvas: &Canvas, participant: &Participant, axis: TimeAxis, y: i32) {
    let Some(expires) = participant.promised_until() else { return };
    let end = axis.x(expires);
    canvas.rect((axis.x(participant.hold.from_ns), y), (end, y + 2), participant.colour, 0.7);
    if expires <= axis.to_ns {
        canvas.rect((end - 1, y - 4), (end + 1, y + 6), participant.colour, 1.0);
    }
}

/// What a process did: a tick where it began, and the words under it.
fn acts(canvas: &Canvas, participant: &Participant, axis: TimeAxis, top: i32) {
    let mut labels: Vec<(i32, String, Colour)> = Vec::new();
    for operation in &participant.operations {
        let at = axis.x(operation.completion.map_or(operation.invoke.time, |event| event.time));
        let begun = axis.x(operation.invoke.time);
        let kind = operation.completion.map(|event| event.kind);
        let written = &operation.invoke.value;
        let label = match (operation.f(), kind, operation.completion) {
            (f::READ, Some(Kind::Ok), Some(event)) => (at, format!("read {}", event.value), palette::INK),
            (f::WRITE, Some(Kind::Ok), _) => (at, format!("wrote {written}"), palette::INK),
            (f::WRITE, Some(Kind::Fail), Some(event)) => {
                (at, refusal(written, event.error.as_ref()), palette::INK)
            }
            (f::WRITE, ..) => (at, format!("write of {written}: outcome unknown"), palette::MUTED),
            (f::RELEASE, ..) => (begun, "releases".to_owned(), palette::MUTED),
            (f::HOLDS, _, Some(event)) if *event.value == true => {
                (begun, "believes".to_owned(), palette::MUTED)
            }
            _ => continue,
        };
        labels.push(label);
    }
    if let Some(expires) = participant.promised_until().filter(|expires| *expires <= axis.to_ns) {
        labels.push((axis.x(expires), format!("promised until {}", seconds(expires)), palette::MUTED));
    }
    place(canvas, axis, labels, top);
}

/// Writes labels under their points, in two rows, without touching each other.
fn place(canvas: &Canvas, axis: TimeAxis, mut labels: Vec<(i32, String, Colour)>, top: i32) {
    labels.sort_by_key(|(x, ..)| *x);
    let mut rows = Rows::new(2);
    for (x, text, colour) in labels {
        let width = text_width(&text, SMALL);
        // Right of its tick, or left of it at the edge of the picture.
        let right = x + 4 + width <= axis.right;
        let left = if right { x + 4 } else { x - 4 - width };
        let Some(row) = rows.place(left, left + width + 8) else { continue };
        let y = top + row as i32 * ROW + ROW / 2 + 2;
        canvas.line(&[(x, top - 4), (x, y + 3)], colour, 1);
        let (start, anchor) = if right { (x + 4, Anchor::Start) } else { (x - 4, Anchor::End) };
        canvas.text((start, y), &text, SMALL, colour, anchor);
    }
}

/// What the fault did to a node: a band in its lane, and a bolt where it began.
fn faults_of(
    canvas: &Canvas,
    run: &RunIndex,
    excerpt: &Excerpt,
    node: &str,
    axis: TimeAxis,
    (top, bottom): (i32, i32),
) {
    for fault in excerpt.faults.iter().filter(|fault| fault.targets.contains(&node)) {
        let colour = faults::colour(run, fault);
        let from = axis.x(fault.inject_ns);
        let to = fault.healed_ns.map_or(axis.right, |healed| axis.x(healed)).max(from + 2);
        canvas.rect((from, top), (to, bottom - 2), colour, 0.4);
        if fault.inject_ns >= excerpt.from_ns {
            bolt(canvas, (from, (top + bottom) / 2 - 1));
        }
    }
}

fn bolt(canvas: &Canvas, (x, y): (i32, i32)) {
    let shape = [(2, -10), (-6, 2), (-1, 2), (-3, 10), (6, -3), (1, -3), (4, -10)];
    let points: Vec<_> = shape.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    canvas.area(&points, palette::INK, 1.0);
}

/// To whom a node granted the lock, and until when it had promised it; in red where that is too often.
fn grants(canvas: &Canvas, excerpt: &Excerpt, node: &str, axis: TimeAxis, top: i32) {
    let mut promised: Vec<(Claim, u64)> = Vec::new();
    for (at, participant) in excerpt.participants.iter().enumerate() {
        if !participant.hold.granted_by.iter().any(|server| server == node) {
            continue;
        }
        let y = top + at as i32 * HALF;
        let from = axis.x(participant.hold.from_ns);
        let end = participant.lease_end();
        let to = end.map_or(axis.right, |end| axis.x(end)).max(from + 2);
        canvas.rect((from, y), (to, y + HALF - 2), participant.colour, 0.55);
        canvas.rect((from, y), (from + 3, y + HALF - 2), participant.colour, 1.0);
        let beside = promised.iter().filter(|(_, end)| participant.hold.from_ns < *end);
        let claim = participant.hold.claim;
        if !Claim::fit(beside.map(|(claim, _)| *claim).chain([claim])) {
            let middle = top + at as i32 * HALF - 1;
            canvas.dot((from, middle), 7, palette::CLASH);
            for (dx, dy) in [(3, 3), (3, -3)] {
                canvas.line(&[(from - dx, middle - dy), (from + dx, middle + dy)], palette::GROUND, 2);
            }
        }
        promised.push((claim, end.unwrap_or(u64::MAX)));
    }
}

/// What the storage took; in red what it had already taken from another.
fn storage(canvas: &Canvas, excerpt: &Excerpt, axis: TimeAxis, top: i32) {
    let mut labels = Vec::new();
    for (at, write) in excerpt.writes.iter().enumerate() {
        let Some(ok) = write.ok() else { continue };
        let (x, value) = (axis.x(ok.time), &write.invoke.value);
        // A counter only grows; other data may be what it was before.
        let is_counter = value.is_number();
        let again = is_counter && excerpt.writes[..at].iter().any(|before| before.invoke.value == *value);
        let participant =
            excerpt.participants.iter().find(|participant| participant.hold.process == write.process);
        let colour = participant.map_or(palette::UNSURE, |participant| participant.colour);
        canvas.dot((x, top + 10), 5, if again { palette::CLASH } else { colour });
        let text = match again {
            true => format!("{value} again, from process {}: an update is lost", write.process),
            false => format!("{value} from process {}", write.process),
        };
        labels.push((x, text, if again { palette::CLASH } else { palette::INK }));
    }
    place(canvas, axis, labels, top + 18);
}

/// `write of 8 rejected: stale-token`: why the storage did not take a write, in a word or two.
fn refusal(written: &serde_json::Value, error: Option<&OperationError>) -> String {
    let first = |text: &str| text.split([':', ' ']).next().unwrap_or_default().to_owned();
    match error {
        Some(error) if error.is_rejected() => {
            format!("write of {written} rejected: {}", first(error.detail()))
        }
        Some(error) => format!("write of {written} failed: {}", error.code_name()),
        None => format!("write of {written} failed"),
    }
}
