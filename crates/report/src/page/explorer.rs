//! The zoomable timeline: all that it may show, packed for the script that draws it. A gzip stream in base64
//! (browsers unpack gzip): the length of a JSON text (four bytes, little-endian), that text, and the columns
//! that it names, each a row of varints. Times are in microseconds.

use crate::measures;
use crate::pictures::faults;
use crate::pictures::lanes::Lanes;
use crate::pictures::palette::{self, Colour};
use crate::pictures::timeline::claimed_until;
use crate::words::plain;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencepost_checker::run_index::{Fault, HoldEnd, Phase};
use fencepost_checker::{Claim, Class, Overlap, RunIndex, RunVerdict, is_notice};
use fencepost_history::{Event, Kind, Name, Process};
use flate2::Compression;
use flate2::write::GzEncoder;
use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::io::Write;

/// Longer values are cut: a set of thousands is not read in a table.
const TEXT_MAX: usize = 160;

const SCRIPT: &str = concat!(
    include_str!("explorer_data.js"),
    include_str!("explorer_details.js"),
    include_str!("explorer.js")
);

/// The timeline with its buttons, hidden until the script has unpacked it; `drawing` stands there without.
pub fn explorer(run: &RunIndex, verdict: &RunVerdict, overlaps: &[Overlap], drawing: Markup) -> Markup {
    html! {
        div.explorer hidden {
            div.bar {
                button type="button" data-do="in" aria-label="zoom in" { "+" }
                button type="button" data-do="out" aria-label="zoom out" { "−" }
                button type="button" data-do="whole" { "Whole run" }
                span.violations {
                    button type="button" data-do="previous" aria-label="previous violation" { "‹" }
                    span.count {}
                    button type="button" data-do="next" aria-label="next violation" { "›" }
                }
                span.hint { "Wheel zooms, drag moves, a click shows the events. Keys: arrows, + − 0, n and p for violations, , and . for holds." }
            }
            canvas tabindex="0" role="application" aria-label="Timeline of all holds, to be zoomed and moved" {}
            div.details aria-live="polite" {}
        }
        div.drawing { (drawing) }
        script #timeline-data type="application/octet-stream" { (PreEscaped(pack(run, verdict, overlaps))) }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// All of it in base64.
fn pack(run: &RunIndex, verdict: &RunVerdict, overlaps: &[Overlap]) -> String {
    let lanes = Lanes::of(run);
    let (mut texts, mut servers) = (Dictionary::default(), ExplorerServers::default());
    let tables =
        [operations(run, &mut texts), holds(run, &lanes, &mut texts, &mut servers), overlap_table(overlaps)];
    let claims = claims(run);
    let excluded = |claim: &Claim| claims.iter().map(|other| !Claim::fit([*claim, *other])).collect();
    let columns = || tables.iter().flat_map(|table| &table.columns);
    let findings = crate::shown_findings::findings(verdict)
        .filter(|finding| !Class::ALL.iter().any(|class| class.name() == finding.class))
        .map(|finding| json!({"class": finding.class.replace('-', " "), "at": finding.time / 1000, "text": finding.sentence}));
    let phase = |phase: &Phase| json!({"name": phase.name, "at": phase.from_ns / 1000});
    let header = json!({
        "end": run.end_ns.max(1000) / 1000,
        "lanes": (0..lanes.lanes.len()).map(|lane| lanes.label(lane)).collect::<Vec<_>>(),
        "texts": texts.list,
        "servers": servers.names.list,
        "server_sets": servers.sets,
        "weights": claims.iter().map(|claim| claim.weight).collect::<Vec<u32>>(),
        // Of two claims: whether they exclude each other.
        "excludes": claims.iter().map(excluded).collect::<Vec<Vec<bool>>>(),
        "faults": run.faults.iter().map(|fault| fault_json(run, fault)).collect::<Vec<_>>(),
        "findings": findings.collect::<Vec<_>>(),
        "phases": run.phases.iter().map(phase).collect::<Vec<_>>(),
        "classes": Class::ALL.map(Class::in_words),
        "colours": colours(),
        "columns": columns().map(|column| json!([column.name, column.length])).collect::<Vec<_>>(),
    });
    let header = header.to_string();
    // A low level: higher ones take seconds for a million events, and save little.
    let mut stream = GzEncoder::new(Vec::new(), Compression::new(4));
    let length = u32::try_from(header.len()).expect("a header below 4 GiB");
    let mut write = |bytes: &[u8]| stream.write_all(bytes).expect("writing into memory does not fail");
    write(&length.to_le_bytes());
    write(header.as_bytes());
    columns().for_each(|column| write(&column.bytes));
    STANDARD.encode(stream.finish().expect("writing into memory does not fail"))
}

/// After the ends of operations, in the order of [`measures::End`].
const NOTICE: u64 = 4;

fn operations(run: &RunIndex, texts: &mut Dictionary) -> ColumnTable {
    let mut table = ColumnTable::new("op_at op_process op_f op_key op_took op_end op_asked op_said");
    let mut operations = run.operations.iter();
    for event in run.events {
        let Process::Client(process) = event.process else { continue };
        let (completion, end) = match event.kind {
            Kind::Invoke => {
                let Some(operation) = operations.next() else { continue };
                (operation.completion, measures::end(operation) as u64)
            }
            _ if is_notice(event) => (None, NOTICE),
            _ => continue,
        };
        let took_ns = completion.map_or(0, |completion| completion.time.saturating_sub(event.time));
        table.row([
            event.time / 1000,
            process,
            texts.place(&event.f),
            texts.place(event.key.as_deref().unwrap_or_default()),
            took_ns / 1000,
            end,
            texts.place(&summary_of(event)),
            texts.place(&completion.map_or(String::new(), summary_of)),
        ]);
    }
    table
}

fn holds(
    run: &RunIndex,
    lanes: &Lanes,
    texts: &mut Dictionary,
    servers: &mut ExplorerServers,
) -> ColumnTable {
    let mut table = ColumnTable::new(
        "hold_lane hold_process hold_key hold_asked hold_from hold_until hold_end hold_promised hold_claim hold_servers",
    );
    let claims = claims(run);
    for hold in &run.holds {
        let released_ns = (hold.ends.how == HoldEnd::Released).then_some(hold.ends.let_go_ns);
        let promised_ns = hold.ends.lease.map(|lease| lease.earliest.ns).into_iter().chain(released_ns).min();
        table.row([
            lanes.lane(hold.process) as u64,
            hold.process,
            texts.place(hold.key),
            hold.invoke_ns / 1000,
            hold.from_ns / 1000,
            hold.until_ns / 1000,
            claimed_until(run, hold, lanes) / 1000,
            promised_ns.unwrap_or(run.end_ns).max(hold.from_ns) / 1000,
            claims.binary_search(&hold.claim).unwrap_or(0) as u64,
            servers.place_of_set(&hold.granted_by),
        ]);
    }
    table
}

fn claims(run: &RunIndex) -> Vec<Claim> {
    let claims: BTreeSet<Claim> = run.holds.iter().map(|hold| hold.claim).collect();
    claims.into_iter().collect()
}

fn overlap_table(overlaps: &[Overlap]) -> ColumnTable {
    let mut table = ColumnTable::new("overlap_first overlap_second overlap_class overlap_from overlap_to");
    for overlap in overlaps {
        let class = overlap.class as u64;
        let (first, second) = (overlap.first as u64, overlap.second as u64);
        table.row([first, second, class, overlap.from_ns / 1000, overlap.until_ns / 1000]);
    }
    table
}

fn fault_json(run: &RunIndex, fault: &Fault) -> Value {
    let colour = faults::colour(run, fault);
    json!({
        "from": fault.inject_ns / 1000,
        "seen": fault.injected_ns.map(|ns| ns / 1000),
        "to": fault.healed_ns.unwrap_or(run.end_ns) / 1000,
        "healed": fault.healed_ns.is_some(),
        "label": fault.description.label,
        "name": fault.name,
        "targets": fault.targets.join(", "),
        "requested": plain(fault.requested),
        "observed": match fault.error {
            Some(error) => format!("failed: {error}"),
            None if fault.effective => fault.description.sentence.clone(),
            None => "nothing".to_owned(),
        },
        "effective": fault.effective,
        "colour": twins(colour),
    })
}

fn summary_of(event: &Event) -> String {
    let text = event.error.as_deref().map_or_else(|| plain(&event.value), str::to_owned);
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

fn twins(colour: Colour) -> [String; 2] {
    [colour.light, colour.dark].map(|rgb| format!("#{rgb:06X}"))
}

fn colours() -> Value {
    json!({
        "ground": twins(palette::GROUND), "ink": twins(palette::INK), "muted": twins(palette::MUTED),
        "grid": twins(palette::GRID), "stripe": twins(palette::STRIPE), "hold": twins(palette::HOLD),
        "claim": twins(palette::CLAIM), "clash": twins(palette::CLASH), "grant": twins(palette::PARTICIPANTS[2]),
    })
}

#[derive(Default)]
struct Dictionary {
    list: Vec<String>,
    places: HashMap<String, u64>,
}

impl Dictionary {
    fn place(&mut self, text: &str) -> u64 {
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.list.len() as u64;
        self.list.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }
}

#[derive(Default)]
struct ExplorerServers {
    names: Dictionary,
    sets: Vec<Vec<u64>>,
    places: HashMap<Vec<u64>, u64>,
}

impl ExplorerServers {
    fn place_of_set(&mut self, names: &[Name]) -> u64 {
        let set: Vec<u64> = names.iter().map(|name| self.names.place(name)).collect();
        let sets = &mut self.sets;
        *self.places.entry(set).or_insert_with_key(|set| {
            sets.push(set.clone());
            sets.len() as u64 - 1
        })
    }
}

/// Rows of numbers, kept by column: neighbours in a column are alike, and so need few bytes.
struct ColumnTable {
    columns: Vec<Column>,
}

/// Numbers, each as its difference to the one before.
struct Column {
    name: &'static str,
    length: usize,
    last: u64,
    bytes: Vec<u8>,
}

impl ColumnTable {
    fn new(names: &'static str) -> ColumnTable {
        let column = |name| Column { name, length: 0, last: 0, bytes: Vec::new() };
        ColumnTable { columns: names.split(' ').map(column).collect() }
    }

    fn row<const COLUMNS: usize>(&mut self, values: [u64; COLUMNS]) {
        self.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
}

impl Column {
    fn push(&mut self, value: u64) {
        let step = value.wrapping_sub(self.last) as i64;
        self.last = value;
        self.length += 1;
        // Small numbers of either sign in few bytes: 0, −1, 1, −2, …, seven bits a byte.
        let mut rest = ((step << 1) ^ (step >> 63)) as u64;
        while rest > 127 {
            self.bytes.push(rest as u8 | 128);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_kept_as_short_differences() {
        let mut table = ColumnTable::new("a");
        for value in [5, 5, 4, 404, 0] {
            table.row([value]);
        }
        assert_eq!(table.columns[0].bytes, [10, 0, 1, 0xA0, 6, 0xA7, 6]);
        assert_eq!(table.columns[0].length, 5);
    }

    #[test]
    fn a_text_is_kept_once() {
        let mut texts = Dictionary::default();
        assert_eq!(["x", "y", "x"].map(|text| texts.place(text)), [0, 1, 0]);
        assert_eq!(texts.list, ["x", "y"]);
    }

    #[test]
    fn every_set_of_servers_is_kept_however_many_there_are() {
        let name = |number: u64| Name::from(format!("n{number}"));
        let mut servers = ExplorerServers::default();
        let all: Vec<Name> = (1..=50).map(name).collect();
        let places = [&all[..], &all[31..32], &all[32..33], &[], &all[31..32]];
        assert_eq!(places.map(|set| servers.place_of_set(set)), [0, 1, 2, 3, 1]);
        assert_eq!(servers.sets[1..], [vec![31], vec![32], vec![]]);
        assert_eq!(servers.names.list[31], "n32");
    }

    #[test]
    fn a_long_value_is_cut() {
        let mut fixture = crate::fixtures::redis_single_none();
        fixture.events[0].value = json!("é".repeat(1000)).into();
        assert_eq!(summary_of(&fixture.events[0]).chars().count(), TEXT_MAX + 2);
    }
}
