//! The drawing of one violation: the processes that held, the servers that said yes, the fault, what was written.

use super::canvas::{
    self, Anchor, Canvas, LEFT, RIGHT, Rows, SMALL, TEXT, TimeAxis, WIDTH, span, text_width,
};
use super::faults::{self, Strip};
use super::palette::{self, Colour};
use super::scene::{Actor, Scene};
use crate::exhibits::Exhibit;
use fencepost_checker::{RunIndex, seconds};
use fencepost_history::{Kind, OperationError, f};

const TOP: i32 = 8;
/// Room for the words "both hold it".
const CAPTION: i32 = 24;
const BAR: i32 = 20;
const ROW: i32 = 15;
const PROCESS: i32 = 20 + BAR + 8 + 2 * ROW + 8;
/// A node has half a lane for each of the actors.
const HALF: i32 = 9;
const STORAGE: i32 = 26 + 2 * ROW;

/// The drawing of a violation. None where there are no holds to draw.
pub fn violation(run: &RunIndex, exhibit: &Exhibit) -> Option<String> {
    let scene = Scene::of(run, exhibit)?;
    let axis = TimeAxis { left: LEFT, right: WIDTH - RIGHT, from_ns: scene.from_ns, to_ns: scene.to_ns };
    let strip = Strip::of(run, scene.faults.iter().copied(), axis);
    let places = Places::of(&scene, TOP + strip.height());
    let about = exhibit.finding.sentence.as_str();
    Some(canvas::picture(WIDTH, places.bottom + 28, about, |canvas| {
        strip.draw(canvas, TOP);
        places.ground(canvas, &scene);
        strip.bands(canvas, places.processes, places.bottom);
        axis.draw(canvas, places.processes, places.bottom);
        both(canvas, &scene, axis, &places);
        for (at, actor) in scene.actors.iter().enumerate() {
            process(canvas, &scene, actor, axis, places.processes + at as i32 * PROCESS);
        }
        for (at, node) in scene.nodes.iter().enumerate() {
            let top = places.nodes + at as i32 * places.node;
            struck(canvas, run, &scene, node, axis, (top, top + places.node));
            grants(canvas, &scene, node, axis, top + 3);
        }
        storage(canvas, &scene, axis, places.storage);
    }))
}

/// Where the lanes begin.
struct Places {
    processes: i32,
    nodes: i32,
    /// Height of one node's lane.
    node: i32,
    storage: i32,
    bottom: i32,
}

impl Places {
    fn of(scene: &Scene, top: i32) -> Places {
        let processes = top + CAPTION;
        let nodes = processes + scene.actors.len() as i32 * PROCESS + 6;
        let node = 6 + HALF * scene.actors.len().max(2) as i32;
        let storage = nodes + scene.nodes.len() as i32 * node + 6;
        let bottom = storage + if scene.writes.is_empty() { 0 } else { STORAGE };
        Places { processes, nodes, node, storage, bottom }
    }

    fn ground(&self, canvas: &Canvas, scene: &Scene) {
        let lane = |top: i32, height: i32| {
            canvas.rect((LEFT, top), (WIDTH - RIGHT, top + height - 2), palette::STRIPE, 1.0);
        };
        for (at, actor) in scene.actors.iter().enumerate() {
            let top = self.processes + at as i32 * PROCESS;
            lane(top, PROCESS);
            let label = format!("process {}", actor.hold.process);
            canvas.bold((LEFT - 8, top + 20 + BAR / 2), &label, TEXT, palette::INK, Anchor::End);
        }
        for (at, node) in scene.nodes.iter().enumerate() {
            let top = self.nodes + at as i32 * self.node;
            lane(top, self.node);
            canvas.text((LEFT - 8, top + self.node / 2), node, TEXT, palette::INK, Anchor::End);
        }
        if !scene.writes.is_empty() {
            lane(self.storage, STORAGE);
            canvas.text((LEFT - 8, self.storage + 14), "storage", TEXT, palette::INK, Anchor::End);
        }
    }
}

/// The time in which two held at once, through the lanes of the processes.
fn both(canvas: &Canvas, scene: &Scene, axis: TimeAxis, places: &Places) {
    let Some((from_ns, until_ns)) = scene.both else { return };
    let (from, to) = (axis.x(from_ns), axis.x(until_ns).max(axis.x(from_ns) + 3));
    canvas.rect((from, places.processes - 4), (to, places.nodes - 8), palette::CLASH, 0.16);
    canvas.rect((from, places.processes - 6), (to, places.processes - 2), palette::CLASH, 1.0);
    let text = match until_ns - from_ns {
        0 => format!("both hold {} at {}", lock(scene.key), seconds(from_ns)),
        length => format!("both hold {} for {}", lock(scene.key), span(length)),
    };
    let half = text_width(&text, TEXT) / 2;
    let middle = ((from + to) / 2).clamp(axis.left + half, axis.right - half);
    canvas.bold((middle, places.processes - 14), &text, TEXT, palette::CLASH, Anchor::Middle);
}

fn lock(key: &str) -> &str {
    if key.is_empty() { "the lock" } else { key }
}

/// The lane of a process: it waits, it holds, and what it does under the hold.
fn process(canvas: &Canvas, scene: &Scene, actor: &Actor, axis: TimeAxis, top: i32) {
    let hold = actor.hold;
    let (bar, bottom) = (top + 20, top + 20 + BAR);
    let middle = (bar + bottom) / 2;
    let (asked, from) = (axis.x(hold.invoke_ns), axis.x(hold.from_ns));
    canvas.line(&[(asked, middle), (from, middle)], actor.colour, 1);
    canvas.line(&[(asked, middle - 4), (asked, middle + 4)], actor.colour, 1);
    let (until, end) = (axis.x(hold.until_ns).max(from + 2), axis.x(hold.end_ns).max(from + 2));
    canvas.rect((from, bar), (end, bottom), actor.colour, 0.35);
    canvas.rect((from, bar), (until, bottom), actor.colour, 1.0);
    if let Some((clash, over)) = scene.both {
        canvas.rect((axis.x(clash), bar), (axis.x(over).max(axis.x(clash) + 3), bottom), palette::CLASH, 1.0);
    }
    let title = title(actor);
    let width = text_width(&title, TEXT);
    let left = from.min(axis.right - width).max(axis.left);
    canvas.bold((left, top + 10), &title, TEXT, palette::INK, Anchor::Start);
    let later = actor.promised_until().filter(|expires| *expires > axis.to_ns);
    let note = later.map_or(String::new(), |expires| format!("promised until {} →", seconds(expires)));
    if left + width + 12 < axis.right - text_width(&note, SMALL) {
        canvas.text((axis.right - 6, top + 10), &note, SMALL, palette::MUTED, Anchor::End);
    }
    lease(canvas, actor, axis, bottom + 3);
    acts(canvas, actor, axis, bottom + 8);
}

/// "holds k0 from 0.110 s, token 33".
fn title(actor: &Actor) -> String {
    let hold = actor.hold;
    let mut title = format!("got {} at {}", lock(hold.key), seconds(hold.from_ns));
    if !hold.granted_by.is_empty() {
        title += &format!(" from {}", hold.granted_by.join(", "));
    }
    if let Some(token) = hold.token {
        title += &format!(", token {token}");
    }
    title
}

/// A thin line under the hold: how long it was promised.
fn lease(canvas: &Canvas, actor: &Actor, axis: TimeAxis, y: i32) {
    let Some(expires) = actor.promised_until() else { return };
    let end = axis.x(expires);
    canvas.rect((axis.x(actor.hold.from_ns), y), (end, y + 2), actor.colour, 0.7);
    if expires <= axis.to_ns {
        canvas.rect((end - 1, y - 4), (end + 1, y + 6), actor.colour, 1.0);
    }
}

/// What a process did: a tick where it began, and the words under it.
fn acts(canvas: &Canvas, actor: &Actor, axis: TimeAxis, top: i32) {
    let mut labels: Vec<(i32, String, Colour)> = Vec::new();
    for operation in &actor.operations {
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
            (f::WRITE, ..) => (at, format!("write of {written}: nobody knows"), palette::MUTED),
            (f::RELEASE, ..) => (begun, "releases".to_owned(), palette::MUTED),
            (f::HOLDS, _, Some(event)) if *event.value == true => {
                (begun, "believes".to_owned(), palette::MUTED)
            }
            _ => continue,
        };
        labels.push(label);
    }
    if let Some(expires) = actor.promised_until().filter(|expires| *expires <= axis.to_ns) {
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

/// What the fault did to a node: a band in its lane, and a bolt where it struck.
fn struck(
    canvas: &Canvas,
    run: &RunIndex,
    scene: &Scene,
    node: &str,
    axis: TimeAxis,
    (top, bottom): (i32, i32),
) {
    for fault in scene.faults.iter().filter(|fault| fault.targets.contains(&node)) {
        let colour = faults::colour(run, fault);
        let from = axis.x(fault.inject_ns);
        let to = fault.healed_ns.map_or(axis.right, |healed| axis.x(healed)).max(from + 2);
        canvas.rect((from, top), (to, bottom - 2), colour, 0.4);
        if fault.inject_ns >= scene.from_ns {
            bolt(canvas, (from, (top + bottom) / 2 - 1));
        }
    }
}

/// A flash of lightning.
fn bolt(canvas: &Canvas, (x, y): (i32, i32)) {
    let shape = [(2, -10), (-6, 2), (-1, 2), (-3, 10), (6, -3), (1, -3), (4, -10)];
    let points: Vec<_> = shape.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
    canvas.area(&points, palette::INK, 1.0);
}

/// To whom a node granted the lock, and until when it had promised it; in red where it did so twice.
fn grants(canvas: &Canvas, scene: &Scene, node: &str, axis: TimeAxis, top: i32) {
    let mut promised: Option<u64> = None;
    for (at, actor) in scene.actors.iter().enumerate() {
        if !actor.hold.granted_by.contains(&node) {
            continue;
        }
        let y = top + at as i32 * HALF;
        let from = axis.x(actor.hold.from_ns);
        let end = actor.lease_end();
        let to = end.map_or(axis.right, |end| axis.x(end)).max(from + 2);
        canvas.rect((from, y), (to, y + HALF - 2), actor.colour, 0.55);
        canvas.rect((from, y), (from + 3, y + HALF - 2), actor.colour, 1.0);
        let twice = promised.is_some_and(|end| actor.hold.from_ns < end);
        if twice {
            let middle = top + at as i32 * HALF - 1;
            canvas.dot((from, middle), 7, palette::CLASH);
            for (dx, dy) in [(3, 3), (3, -3)] {
                canvas.line(&[(from - dx, middle - dy), (from + dx, middle + dy)], palette::GROUND, 2);
            }
        }
        promised = promised.max(Some(end.unwrap_or(u64::MAX)));
    }
}

/// What the storage took; in red what it had already taken from another.
fn storage(canvas: &Canvas, scene: &Scene, axis: TimeAxis, top: i32) {
    let mut labels = Vec::new();
    for (at, write) in scene.writes.iter().enumerate() {
        let Some(ok) = write.ok() else { continue };
        let (x, value) = (axis.x(ok.time), &write.invoke.value);
        let again = scene.writes[..at].iter().any(|before| before.invoke.value == *value);
        let actor = scene.actors.iter().find(|actor| actor.hold.process == write.process);
        let colour = actor.map_or(palette::UNSURE, |actor| actor.colour);
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
