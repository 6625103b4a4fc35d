//! A hunt as a page: its findings with their pictures, what was covered, and how the coverage grew.

use super::curve::curve;
use super::file::{Compared, FindingGroup, FindingState, HuntFile, HuntFinding, SituationCount};
use super::worth::HuntWorth;
use crate::document;
use crate::pipeline::encoded;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fencepost_history::prose::counted;
use fencepost_history::run::read_regular;
use maud::{Markup, PreEscaped, html};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The whole page. Links and pictures are those that exist in the folder of the hunt.
pub fn html(hunt: &HuntFile, folder: &Path) -> String {
    let body = html! {
        header.top {
            strong { "Hunt" }
            span { "lock " (hunt.lock) }
            @if let Some(against) = &hunt.against { span { "against " (against.lock) } }
            span { (counted(hunt.nemeses.len() as u64, "nemesis", "nemeses")) }
            span { "driver " (hunt.driver) }
            span { "seed " (hunt.seed) }
        }
        (verdict(hunt))
        @for missing in &hunt.missing { p.unfinished { (missing) "." } }
        @if hunt.ended.is_none() && hunt.missing.is_empty() {
            p.unfinished { "This hunt goes on, or was killed. What it found so far is here; --resume continues it." }
        }
        (figures(hunt))
        (findings(hunt, folder))
        (coverage(hunt))
        h2 { "Coverage over time" }
        p.note {
            "A schedule is kept, and changed later, if it covered a situation that no other had covered, or came nearer to a \
             violation. A curve that still climbs says that more time would cover more."
        }
        div.picture { (PreEscaped(curve(hunt))) }
        (remarks(hunt))
        h2 { "To repeat this hunt" }
        pre { (hunt.command) }
        footer { "Made by Fencepost " (hunt.fencepost) " from the folder of the hunt." }
    };
    document(&format!("Hunt: {}", hunt.lock), body)
}

fn verdict(hunt: &HuntFile) -> Markup {
    let (class, word) = match hunt.worth() {
        HuntWorth::Violation => ("violation", "violation"),
        HuntWorth::Undecided => ("unknown", "not decided"),
        HuntWorth::TooLittle(_) if hunt.schedules == 0 => ("vacuous", "nothing tested"),
        HuntWorth::TooLittle(_) => ("vacuous", "too little tested"),
        HuntWorth::NothingFound => ("valid", "nothing found"),
    };
    html! {
        div.verdict.(class) {
            div.word { (word) }
            h1 { (hunt.summary()) }
            p { (capital_sentence(hunt)) }
        }
    }
}

fn capital_sentence(hunt: &HuntFile) -> String {
    let mut words = hunt.coverage();
    match hunt.worth() {
        HuntWorth::TooLittle(why) => words += &format!(" This hunt says nothing of the lock: {why}."),
        HuntWorth::NothingFound => words += " Situations that were not reached remain untested.",
        HuntWorth::Violation | HuntWorth::Undecided => {}
    }
    if let Some(ended) = &hunt.ended {
        words += &format!(" The hunt ended: {ended}.");
    }
    words
}

fn figures(hunt: &HuntFile) -> Markup {
    let rate = hunt.schedules as f64 * 60_000.0 / hunt.spent_ms.max(1) as f64;
    html! {
        div.figures {
            div.bad[hunt.has_own_violation()] { b { (hunt.found()) } span { "findings" } }
            @if hunt.schedules > 0 { div { b { (hunt.schedules) } span { "schedules" } } div { b { (format!("{rate:.0}")) } span { "schedules a minute" } } }
            @if hunt.possible() > 0 { div { b { (hunt.covered()) } span { "situations of " (hunt.possible()) } } }
            div { b { (time(hunt.spent_ms)) } span { "hunted" } }
            @if hunt.failed > 0 { div { b { (hunt.failed) } span { "schedules failed" } } }
        }
    }
}

/// `42 s`, `3 min 10 s`.
pub(super) fn time(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        _ if seconds.is_multiple_of(60) => format!("{} min", seconds / 60),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

fn findings(hunt: &HuntFile, folder: &Path) -> Markup {
    html! {
        h2 { "Findings" }
        @if hunt.groups().is_empty() { p.note { "None." } }
        @for (number, group) in (1..).zip(hunt.groups()) { (one_finding(number, &group, folder)) }
        @if let Some(line) = hunt.of_servers() {
            h2 { "What the reference shows too" }
            p { (line) "." }
        }
        @if let Some(line) = hunt.undecided() {
            h2 { "Not decided" }
            p { (line) "." }
            @for finding in hunt.undecided_findings() { (undecided(finding)) }
        }
    }
}

fn undecided(finding: &HuntFinding) -> Markup {
    html! {
        h3 id=(finding.name) { (finding.signature) " " span.chip.unknown { (finding.state.words()) } }
        p { (finding.sentence) }
        p.key { (facts(finding)) }
        @if let Some(command) = &finding.command { pre { (command) } }
    }
}

fn one_finding(number: usize, group: &FindingGroup<'_>, folder: &Path) -> Markup {
    let finding = group.example;
    let run = finding.run.as_deref();
    let there =
        |file: &str| run.map(|run| format!("{run}/{file}")).filter(|path| folder.join(path).is_file());
    let picture = there("plots/violation.svg").and_then(|path| read_regular(&folder.join(path)).ok());
    let shown = match finding.state {
        FindingState::Gone => "valid",
        FindingState::Rare => "unknown",
        _ => "violation",
    };
    html! {
        h3 id=(finding.name) {
            (number) ". " (finding.signature) " " span.chip.(shown) { (finding.state.words()) }
        }
        p { (finding.sentence) }
        p.key { (facts(finding)) }
        @if let Some(also) = group.also_under() { p { (also) "." } }
        @if let Some(picture) = picture { div.picture { (embedded(&picture)) } }
        @if let Some(report) = there("report.html") { p { a href=(encoded(Path::new(&report))) { "The whole report" } } }
        @if let Some(command) = &finding.command { pre { (command) } }
    }
}

/// A picture out of a folder that may come from elsewhere: as an image it runs no scripts.
fn embedded(svg: &str) -> Markup {
    let address = format!("data:image/svg+xml;base64,{}", STANDARD.encode(svg));
    html! { img src=(address) alt="the violation over time"; }
}

/// `reproduced in 9 of 10 replays · 1 fault, 2 clients · found after 12 s, in schedule 14`.
pub(super) fn facts(finding: &HuntFinding) -> String {
    let mut facts = Vec::new();
    facts.extend(finding.whose.map(|whose| format!("whose failure: {whose}")));
    facts.extend(match finding.compared {
        Some(Compared::Own) => Some("the lock's own".to_owned()),
        Some(Compared::Unknown) => Some("it could not be compared".to_owned()),
        Some(Compared::OfServers) | None => None,
    });
    if let Some((times, of)) = finding.reproduced {
        facts.push(format!("reproduced in {times} of {of} replays"));
    }
    if finding.faults + finding.clients > 0 {
        let faults = counted(finding.faults as u64, "fault", "faults");
        facts.push(format!("{faults}, {}", counted(finding.clients as u64, "client", "clients")));
    }
    if finding.schedule > 0 {
        facts.push(format!("found after {}, in schedule {}", time(finding.found_ms), finding.schedule));
    }
    if finding.times > 1 {
        facts.push(format!("seen in {} schedules", finding.times));
    }
    facts.join(" · ")
}

fn coverage(hunt: &HuntFile) -> Markup {
    html! {
        h2 { "Situations covered" }
        p.note {
            "A situation is a fault that took effect on a target in a role, in a phase of the lock's life. Each cell says how \
             often it came about in all schedules, and how near to a violation these schedules came: the time between the last \
             moment at which one holder believed that it held the lock, and the next grant. Negative is an overlap. 0: the \
             situation was possible, and did not come about. A dot: it was not possible."
        }
        @for (fault, situations) in hunt.by_fault() { (table(fault, &situations)) }
        @if hunt.situations.is_empty() { p.note { "None." } }
    }
}

/// The roles of one fault's targets as rows, the phases as columns.
fn table(fault: &str, situations: &[&SituationCount]) -> Markup {
    let phases: BTreeSet<&str> = situations.iter().map(|situation| situation.phase.as_str()).collect();
    let mut roles: BTreeMap<&str, BTreeMap<&str, &SituationCount>> = BTreeMap::new();
    for situation in situations {
        roles.entry(&situation.role).or_default().insert(&situation.phase, situation);
    }
    html! {
        h3 { (fault) }
        div.tablebox { table {
            thead { tr { th scope="col" { "target" } @for phase in &phases { th.n scope="col" { (phase) } } } }
            tbody {
                @for (role, cells) in &roles {
                    tr {
                        th scope="row" { (role) }
                        @for phase in &phases { td.n { (cell(cells.get(phase).copied())) } }
                    }
                }
            }
        } }
    }
}

fn cell(situation: Option<&SituationCount>) -> Markup {
    html! {
        @if let Some(situation) = situation {
            (situation.times)
            @if let Some(ms) = situation.nearest_ms { small { (format!("{ms:.0} ms")) } }
        } @else { "·" }
    }
}

fn remarks(hunt: &HuntFile) -> Markup {
    html! {
        @if !hunt.remarks.is_empty() {
            h2 { "Remarks" }
            ul { @for remark in &hunt.remarks { li { (remark) } } }
        }
    }
}
