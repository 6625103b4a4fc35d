//! The report as a page.

use super::canvas::span;
use super::evidence::{Exhibit, exhibits, findings};
use super::heading::Heading;
use super::measures::{Tally, tallies};
use super::{latency, palette, rate, timeline, violation, words};
use fencepost_checker::digest::Fault;
use fencepost_checker::{Digest, Outcome, RunVerdict, describe_fault, seconds};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::Value;

/// More faults than this are left to the history file.
const FAULTS_MAX: usize = 1000;

/// The whole page.
pub fn page(heading: &Heading, run: &Digest, verdict: &RunVerdict) -> String {
    let style = include_str!("page.css").replace("/*DARK*/", &palette::dark_rules());
    let title = format!("{}: {} under {}", verdict.outcome, heading.backend, heading.nemesis);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(style)) }
            }
            body {
                main {
                    (top(heading))
                    (verdict_box(heading, run, verdict))
                    (figures(run, verdict))
                    (promises(verdict))
                    (violations(run, verdict))
                    (pictures(run))
                    (faults(run))
                    (counts(run))
                    (settings(heading))
                    footer { "Made by Fencepost " (heading.fencepost) " from the history of the run." }
                }
            }
        }
    };
    markup.into_string()
}

fn top(heading: &Heading) -> Markup {
    html! {
        header.top {
            strong { (heading.backend) }
            span { "workload " (heading.workload) }
            span { "nemesis " (heading.nemesis) }
            span { "guard " (heading.guard) }
            span { "driver " (heading.driver) }
            span { "seed " (heading.seed) }
            span { (heading.date()) }
        }
    }
}

fn verdict_box(heading: &Heading, run: &Digest, verdict: &RunVerdict) -> Markup {
    html! {
        section.verdict.(verdict.outcome.to_string()) {
            div.word { (sign(verdict.outcome)) " " (verdict.outcome) }
            h1 { (words::sentence(heading, run, verdict)) }
            p { (words::background(heading, run)) }
        }
    }
}

/// Not by colour alone.
fn sign(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Valid => "✓",
        Outcome::Violation => "✗",
        Outcome::Unknown => "?",
        Outcome::Vacuous => "○",
    }
}

fn figures(run: &Digest, verdict: &RunVerdict) -> Markup {
    let count = |checker: &str, stat: &str| words::count(verdict, checker, stat);
    let known = |checker: &str| verdict.of_checker(checker).is_some();
    let (lost, acknowledged) = (count("lost-updates", "lost"), count("lost-updates", "acknowledged"));
    let share =
        format!("{:.1} % of {acknowledged} updates lost", 100.0 * lost as f64 / acknowledged.max(1) as f64);
    let unhealed = run.faults.iter().filter(|fault| fault.effective && fault.healed_ns.is_none()).count();
    let figure = |bad: bool, number: u64, text: &str| {
        html! { div.bad[bad && number > 0] { b { (number) } span { (text) } } }
    };
    html! {
        div.figures {
            (figure(false, run.holds.len() as u64, "times the lock was held"))
            (figure(true, count("exclusion", "granted_twice"), "granted twice"))
            (figure(true, count("exclusion", "overstayed"), "overstayed"))
            @if known("lost-updates") { (figure(true, lost, &share)) }
            @if known("stale-writes") { (figure(false, count("stale-writes", "rejected"), "stale writes rejected")) }
            @if !run.faults.is_empty() { (figure(false, run.faults.len() as u64, "faults")) }
            @if unhealed > 0 { (figure(true, unhealed as u64, "faults not healed")) }
        }
    }
}

fn promises(verdict: &RunVerdict) -> Markup {
    html! {
        h2 { "The promises" }
        table.promises {
            thead { tr { th { "promise" } th { "verdict" } th { "what was seen" } } }
            tbody {
                @for each in &verdict.verdicts {
                    @let (name, about) = words::promise(&each.checker);
                    tr {
                        td { b { (name) } small { (about) } }
                        td { span.chip.(each.outcome.to_string()) { (sign(each.outcome)) " " (each.outcome) } }
                        td { (each.summary) }
                    }
                }
            }
        }
    }
}

fn violations(run: &Digest, verdict: &RunVerdict) -> Markup {
    let exhibits = exhibits(run, verdict);
    if exhibits.is_empty() {
        return html! {};
    }
    let all = findings(verdict).count();
    html! {
        h2 { "What happened" }
        @for exhibit in &exhibits { (exhibit_html(run, exhibit)) }
        @if all > exhibits.len() {
            details {
                summary { "All " (all) " findings kept in verdict.json" }
                ol { @for finding in findings(verdict) { li { (finding.class) ": " (finding.sentence) } } }
            }
        }
    }
}

fn exhibit_html(run: &Digest, exhibit: &Exhibit) -> Markup {
    let finding = exhibit.finding;
    let key = if finding.key.is_empty() { String::new() } else { format!(", lock {}", finding.key) };
    let last = exhibit.story.len().saturating_sub(1);
    html! {
        article {
            h3 { (finding.class.replace('-', " ")) " at " (seconds(finding.time)) (key) }
            p.note { (words::class(&finding.class)) }
            @if let Some(svg) = violation::violation(run, exhibit) {
                (picture(&svg))
                p.key { (words::drawing(run, &exhibit.holds)) }
            }
            @if exhibit.story.is_empty() {
                p { (finding.sentence) "." }
            } @else {
                ol.story {
                    @for (at, line) in exhibit.story.iter().enumerate() {
                        li.end[at == last].bad[at == last] {
                            time { (seconds(line.time_ns)) }
                            span { (line.text) }
                        }
                    }
                }
            }
        }
    }
}

fn picture(svg: &str) -> Markup {
    html! { div.picture { (PreEscaped(svg)) } }
}

fn pictures(run: &Digest) -> Markup {
    html! {
        h2 { "Who held the lock, and when" }
        p.note {
            "A line for each process. A bar is a hold: from the moment the lock was acquired to the last moment at which \
             the process is known to have believed that it held it, and paler from there to its release, where perhaps it \
             did. No two bars of one lock may stand above the same moment; where they do, they are red."
        }
        (picture(&timeline::timeline(run)))
        h2 { "How long operations took" }
        (picture(&latency::latency(run)))
        h2 { "How many operations ended" }
        (picture(&rate::rate(run)))
    }
}

fn faults(run: &Digest) -> Markup {
    if run.faults.is_empty() {
        return html! {};
    }
    html! {
        h2 { "The faults" }
        p.note { "A fault counts only if its effect was observed from inside what it struck." }
        div.tablebox { table {
            thead { tr { th.n { "#" } th { "fault" } th { "struck" } th { "asked" } th { "observed" } th { "effect" } th.n { "from" } th.n { "healed" } } }
            tbody { @for fault in run.faults.iter().take(FAULTS_MAX) { (fault_row(fault)) } }
        } }
        @if run.faults.len() > FAULTS_MAX {
            p.note { "And " (run.faults.len() - FAULTS_MAX) " more in history.jsonl." }
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
            td { (plain(fault.asked)) }
            td {
                @if let Some(error) = fault.error { "failed: " (error) }
                @else if fault.effective { (describe_fault(fault)) }
                @else { (plain(fault.observed)) }
            }
            td { (effect) }
            td.n { (seconds(fault.inject_ns)) }
            td.n { @match fault.healed_ns { Some(healed) => (seconds(healed)), None => "not healed" } }
        }
    }
}

/// A value for people: `wall_ms 60000, monotonic_ms 60000`.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| match value {
                Value::Array(items) if items.iter().any(Value::is_array) => {
                    format!("{name} {}", items.iter().map(plain).collect::<Vec<_>>().join(" | "))
                }
                value => format!("{name} {}", plain(value)),
            });
            fields.collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}

fn counts(run: &Digest) -> Markup {
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
                th { "operation" } th.n { "ok" } th.n { "fail" } th.n { "nobody knows" }
                th.n { "median" } th.n { "99 % within" } th.n { "longest" }
            } }
            tbody { @for tally in tallies(run) { (row(&tally)) } }
        } }
        p.note { "Times are of the operations that succeeded." }
    }
}

fn settings(heading: &Heading) -> Markup {
    let ttl = ("ttl".to_owned(), format!("{} ms", heading.ttl_ms));
    html! {
        h2 { "To repeat this run" }
        pre { (heading.command) }
        p.note { "The seed fixes who does what, and which fault strikes when; not how real servers interleave." }
        h2 { "Settings" }
        dl {
            @if !heading.servers.is_empty() { div { dt { "servers" } dd { (heading.servers.join(", ")) } } }
            @for (name, value) in std::iter::once(&ttl).chain(&heading.settings) {
                div { dt { (name) } dd { (value) } }
            }
        }
    }
}
