//! A run's report: one HTML file that needs no other, in light and dark, on screen and paper.

mod document;
mod explorer;

use crate::heading::Heading;
use crate::measures::{Tally, tallies};
use crate::pictures::canvas::span;
use crate::pictures::{self, RunPictures, clocks, conflict};
use crate::proof::{Proof, proof};
use crate::shown_findings::{ShownFinding, findings, groups, repetitions};
use crate::{confidence, words};
pub use document::document;
use fencepost_checker::run_index::Fault;
use fencepost_checker::{
    ExclusionFigures, LostUpdatesFigures, Outcome, Overlap, RunIndex, RunVerdict, StaleWritesFigures,
    find_class, seconds,
};
use maud::{Markup, PreEscaped, html};

/// More faults than this are left to the timeline and the history file.
const FAULTS_MAX: usize = 1000;
/// So many violations of a class are drawn; the timeline has all of them.
const DRAWN_MAX: usize = 3;

pub fn page(
    heading: &Heading,
    run: &RunIndex,
    verdict: &RunVerdict,
    overlaps: &[Overlap],
    whole: &RunPictures,
) -> String {
    let title = format!("{}: {} under {}", verdict.outcome, heading.title, heading.nemesis);
    document(
        &title,
        html! {
            (top(heading))
            (unfinished(run))
            (verdict_box(heading, run, verdict))
            (figures(run, verdict))
            (violations(run, verdict))
            (kept_data(heading))
            (properties(verdict))
            (pictures(run, verdict, overlaps, whole))
            (faults(run))
            (confidence::situations(verdict.coverage.as_ref()))
            (counts(run))
            (settings(heading))
            footer { "Made by Fencepost " (heading.fencepost) " from the history of the run." }
        },
    )
}

fn top(heading: &Heading) -> Markup {
    html! {
        header.top {
            strong { (heading.title) }
            span { "workload " (heading.workload) }
            span { "nemesis " (heading.nemesis) }
            span { "guard " (heading.guard) }
            span { "driver " (heading.driver) }
            span { "seed " (heading.seed) }
            span { (heading.date) }
        }
    }
}

fn unfinished(run: &RunIndex) -> Markup {
    html! {
        @if let Some(caveat) = words::caveat(run) { p.unfinished { (caveat) } }
    }
}

fn verdict_box(heading: &Heading, run: &RunIndex, verdict: &RunVerdict) -> Markup {
    html! {
        section.verdict.(verdict.outcome.to_string()) {
            div.word { (verdict.outcome.sign()) " " (verdict.outcome) }
            h1 { (words::sentence(heading, run, verdict)) }
            @for whose in verdict.attributions() { p { b { (words::capital(&whose.to_string())) } ": " (whose.meaning()) "." } }
            @if let Some(confidence) = confidence::outcome_with_confidence(verdict) { p { b { (confidence) } } }
            p { (words::background(heading, run)) }
        }
    }
}

fn figures(run: &RunIndex, verdict: &RunVerdict) -> Markup {
    let holds: ExclusionFigures = words::figures(verdict);
    let share = |LostUpdatesFigures { lost, acknowledged, .. }: &LostUpdatesFigures| {
        let percent = 100.0 * *lost as f64 / (*acknowledged).max(1) as f64;
        format!("{percent:.1} % of {acknowledged} updates lost")
    };
    let unhealed = run.faults.iter().filter(|fault| fault.effective && fault.healed_ns.is_none()).count();
    let figure = |bad: bool, number: u64, text: &str| {
        html! { div.bad[bad && number > 0] { b { (number) } span { (text) } } }
    };
    html! {
        div.figures {
            (figure(false, run.holds.len() as u64, "times the lock was held"))
            (figure(true, holds.granted_twice, "granted twice"))
            @if run.lock.lease.runs_out() { (figure(true, holds.overstayed, "overstayed")) }
            @if holds.cut_off > 0 { (figure(true, holds.cut_off, "cut off")) }
            @if let Some(updates) = verdict.figures::<LostUpdatesFigures>() { (figure(true, updates.lost, &share(&updates))) }
            @if let Some(writes) = verdict.figures::<StaleWritesFigures>() {
                (figure(false, writes.rejected, "stale writes rejected"))
            }
            @if !run.faults.is_empty() { (figure(false, run.faults.len() as u64, "faults")) }
            @if unhealed > 0 { (figure(true, unhealed as u64, "faults not healed")) }
        }
    }
}

fn properties(verdict: &RunVerdict) -> Markup {
    html! {
        h2 { "The properties" }
        table.properties {
            thead { tr { th { "property" } th { "verdict" } th { "observation" } } }
            tbody {
                @for each in &verdict.verdicts {
                    @let (name, about) = words::property(&each.checker);
                    tr {
                        td { b { (name) } small { (about) } }
                        @if each.claimed || each.outcome == Outcome::Valid {
                            td { span.chip.(each.outcome.to_string()) { (each.outcome.sign()) " " (each.outcome) } }
                        } @else {
                            td { span.chip { (each.outcome.sign()) " " (words::UNCLAIMED) } }
                        }
                        td { (words::observation(each)) }
                    }
                }
                @for each in &verdict.not_judged {
                    @let (name, about) = words::property(&each.checker);
                    tr.notjudged {
                        td { b { (name) } small { (about) } }
                        td { span.chip { "– not judged" } }
                        td { (each.reason) }
                    }
                }
            }
        }
    }
}

fn violations(run: &RunIndex, verdict: &RunVerdict) -> Markup {
    let groups = groups(run, verdict, DRAWN_MAX);
    if groups.is_empty() {
        return html! {};
    }
    let drawn: usize = groups.iter().map(Vec::len).sum();
    let all = findings(verdict).count();
    html! {
        h2 { "What happened" }
        @for group in &groups {
            @if let Some(class) = find_class(&group[0].finding.class) { p.note { (class.meaning) " " (class.advice_for(group[0].finding.whose)) } }
            @for (at, shown) in group.iter().enumerate() { (shown_finding_html(run, verdict, shown, at == 0)) }
        }
        @for (checker, same, evidence) in repetitions(verdict) {
            p.note { "The check of " (words::property(checker).0) " came to the same as that of " (words::property(same).0) "." }
            details.violated {
                summary { "Operations that fit into no order" }
                (picture(&conflict::conflict(evidence)))
            }
        }
        @if all > drawn {
            details {
                summary { "All " (all) " findings of verdict.json in a sentence each" }
                ol { @for finding in findings(verdict) { li { (finding.class.replace('-', " ")) ": " (finding.sentence) } } }
            }
            p.note { "The timeline below leads through every violation, one by one." }
        }
    }
}

fn shown_finding_html(run: &RunIndex, verdict: &RunVerdict, shown: &ShownFinding, open: bool) -> Markup {
    let finding = shown.finding;
    let key = if finding.key.is_empty() { String::new() } else { format!(", lock {}", finding.key) };
    let story = shown.story(run);
    let last = story.len().saturating_sub(1);
    html! {
        details.violated open[open] {
            summary {
                (finding.class.replace('-', " ")) " at " (seconds(finding.time)) (key)
                @if let Some(whose) = finding.attribution() { span.whose { (whose) } }
            }
            @if let Some(evidence) = &finding.evidence {
                (picture(&conflict::conflict(evidence)))
            } @else if let Some((svg, how_to_read)) = pictures::of_finding(run, shown) {
                (picture(&svg))
                p.key { (how_to_read) }
            }
            @if story.is_empty() {
                p { (finding.sentence) "." }
            } @else {
                ol.story {
                    @for (at, line) in story.iter().enumerate() {
                        li.end[at == last].bad[at == last] {
                            time { (seconds(line.time_ns)) }
                            span { (line.text) }
                        }
                    }
                }
            }
            (proof_html(run, verdict, shown))
        }
    }
}

fn proof_html(run: &RunIndex, verdict: &RunVerdict, shown: &ShownFinding) -> Markup {
    let Proof { steps, ledger, .. } = proof(run, verdict, shown);
    html! {
        details {
            summary { "The proof, event by event" }
            ol { @for step in &steps { li { (step) } } }
            @if !ledger.is_empty() { pre { (ledger) } }
        }
    }
}

fn picture(svg: &str) -> Markup {
    html! { div.picture { (PreEscaped(svg)) } }
}

fn pictures(run: &RunIndex, verdict: &RunVerdict, overlaps: &[Overlap], whole: &RunPictures) -> Markup {
    html! {
        h2 { "Who held the lock, and when" }
        p.note {
            "A line for each process. A bar is a hold: from the acquire to the last moment at which the process is known to have \
             believed that it held the lock. The paler part, up to the release, is the time in which the process may still have \
             believed that. Two bars of one lock must not overlap in time; where they do, they are red."
        }
        (explorer::explorer(run, verdict, overlaps, picture(&whole.timeline)))
        h2 { "How long operations took" }
        (picture(&whole.latency))
        h2 { "How many operations ended" }
        (picture(&whole.rate))
        @if let Some(svg) = &whole.clocks {
            h2 { "What the clocks showed" }
            p.note { (clocks::NOTE) }
            (picture(svg))
        }
    }
}

fn faults(run: &RunIndex) -> Markup {
    if run.faults.is_empty() {
        return html! {};
    }
    html! {
        h2 { "The faults" }
        p.note { "A fault counts only if its effect was observed from inside its target." }
        div.tablebox { table {
            thead { tr { th.n { "#" } th { "fault" } th { "on" } th { "requested" } th { "observed" } th { "effect" } th.n { "from" } th.n { "healed" } } }
            tbody { @for fault in run.faults.iter().take(FAULTS_MAX) { (fault_row(fault)) } }
        } }
        @if run.faults.len() > FAULTS_MAX {
            p.note { "And " (run.faults.len() - FAULTS_MAX) " more in the timeline and in history.jsonl." }
        }
    }
}

fn fault_row(fault: &Fault) -> Markup {
    let effect = if fault.effective { "yes" } else { "none" };
    html! {
        tr {
            td.n { (fault.id) }
            td { (fault.name) }
            td { (fault.targets.join(", ")) }
            td { (words::plain(fault.requested)) }
            td {
                @if let Some(error) = fault.error { "failed: " (error) }
                @else if fault.effective { (fault.description.sentence) }
                @else { (words::plain(fault.observed)) }
            }
            td { (effect) }
            td.n { (seconds(fault.inject_ns)) }
            td.n { @match fault.healed_ns { Some(healed) => (seconds(healed)), None => "not healed" } }
        }
    }
}

fn counts(run: &RunIndex) -> Markup {
    let time = |ns: Option<u64>| ns.map_or("–".to_owned(), span);
    let row = |tally: &Tally| {
        html! {
            tr {
                td { (tally.f) }
                td.n { (tally.ok) } td.n { (tally.fail) } td.n { (tally.info) }
                td.n { (time(tally.median_ns)) } td.n { (time(tally.p99_ns)) } td.n { (time(tally.max_ns)) }
            }
        }
    };
    html! {
        h2 { "Operations" }
        div.tablebox { table {
            thead { tr {
                th { "operation" } th.n { "ok" } th.n { "fail" } th.n { "unknown" }
                th.n { "median" } th.n { "99 % within" } th.n { "longest" }
            } }
            tbody { @for tally in tallies(run) { (row(&tally)) } }
        } }
        p.note { "Times are of the operations that succeeded." }
    }
}

fn tested_software(heading: &Heading) -> [(&'static str, String); 5] {
    [
        ("lock", heading.lock.clone()),
        ("version", heading.version.clone()),
        ("client", heading.client.clone()),
        ("files of the client", heading.files.clone()),
        ("servers", heading.servers.join(", ")),
    ]
}

fn kept_data(heading: &Heading) -> Markup {
    let server = |file: &str| {
        file.rsplit('/').next().and_then(|name| name.split('.').next()).unwrap_or(file).to_owned()
    };
    html! {
        @if !heading.data.is_empty() {
            h2 { "The data of the servers" }
            p {
                "What each server had on its disk at the end of the run is kept, packed, in the folder of this run:"
                @for file in &heading.data { " " a href=(file) { (server(file)) } }
                " (" code { "tar xzf " (heading.data[0]) } ")."
            }
        }
    }
}

fn settings(heading: &Heading) -> Markup {
    let ttl = ("ttl".to_owned(), format!("{} ms", heading.ttl_ms));
    html! {
        h2 { "To repeat this run" }
        pre { (heading.command) }
        p.note { "The seed fixes the operations of each process and the plan of faults, not the interleaving of real servers." }
        h2 { "Settings" }
        dl {
            @for (name, value) in tested_software(heading) {
                @if !value.is_empty() { div { dt { (name) } dd { (value) } } }
            }
            @for (name, value) in std::iter::once(&ttl).chain(&heading.settings) {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}
