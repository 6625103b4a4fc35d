//! The pages: all runs, one run, some runs beside each other.

use super::folder::{File, Listing};
use super::index::{Filter, ListedCampaign, ORDERS, ResultsContents, Row, RunStatus, status, values};
use fencepost_checker::{Harm, Outcome};
use fencepost_history::once;
use fencepost_history::run::RunSettings;
use fencepost_report::runs::{Judgement, Run};
use fencepost_report::{document, property};
use maud::{Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;

const ROWS_PER_PAGE: usize = 100;

/// What may stand in a part of an address as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

fn run_address(name: &str) -> String {
    format!("/run/{}", encoded(name))
}

fn file_address(run: &str, path: &str) -> String {
    let parts: Vec<String> = path.split('/').map(encoded).collect();
    format!("/files/{}/{}", encoded(run), parts.join("/"))
}

fn page(title: &str, body: Markup) -> String {
    document(
        title,
        html! {
            link rel="stylesheet" href="/serve.css";
            (body)
            script src="/serve.js" {}
        },
    )
}

pub fn error_page(title: &str, sentence: &str) -> String {
    page(title, html! { h1 { (title) } p { (sentence) } p { a href="/" { "All runs" } } })
}

/// `2026-02-14 09:30:15`, in UTC.
fn date(started: u64) -> String {
    if started == 0 {
        return String::new();
    }
    fencepost_history::run::date(started).trim_end_matches(" UTC").to_owned()
}

/// The verdict, or what is in its place; of a violation what it means. Not by colour alone.
fn chip(status: RunStatus, harm: Option<Harm>) -> Markup {
    let sign = match status {
        RunStatus::Judged(outcome) => outcome.sign(),
        RunStatus::Running => "▶",
        RunStatus::NotJudged | RunStatus::Damaged => "!",
    };
    let class = status.word().replace(' ', "-");
    let harm = harm.filter(|_| status == RunStatus::Judged(Outcome::Violation));
    html! {
        span.chip.(class) title=[harm.map(Harm::meaning)] { (sign) " " (harm.map_or(status.word(), Harm::in_words)) }
    }
}

pub fn list(results: &str, contents: &ResultsContents, filter: &Filter) -> String {
    let all = &contents.runs;
    let rows = filter.of(all);
    let pages = rows.len().div_ceil(ROWS_PER_PAGE).max(1);
    let at = filter.page.min(pages - 1);
    let shown = rows.iter().skip(at * ROWS_PER_PAGE).take(ROWS_PER_PAGE);
    page(
        "Results",
        html! {
            h1 { "Results" }
            p.note { (all.len()) @if all.len() == 1 { " run" } @else { " runs" } " in " code { (results) } ". Times are UTC." }
            (campaigns(&contents.campaigns))
            (filter_form(all, filter))
            form #chosen action="/compare" {
                button type="submit" { "Compare chosen runs" }
                span #chosen-count {}
                section #runs {
                    p.note { (rows.len()) @if rows.len() == 1 { " run" } @else { " runs" } }
                    @if rows.is_empty() { p { (if all.is_empty() { "There is no run yet: `fencepost test` makes one." } else { "No run is like that." }) } }
                    @else { div.tablebox { table {
                        thead { tr { th { } @for column in ORDERS { (sortable(column, filter)) } th { "what was seen" } } }
                        tbody { @for row in shown { (list_row(row)) } }
                    } } }
                    @if pages > 1 { (turn_pages(at, pages, filter)) }
                }
            }
        },
    )
}

fn campaigns(all: &[ListedCampaign]) -> Markup {
    const SHOWN_AT_ONCE: usize = 5;
    let row = |it: &ListedCampaign| {
        html! { li { a href=(file_address(&it.name, it.page)) { (it.kind) " " code { (it.name) } } } }
    };
    let (newest, older) = all.split_at(all.len().min(SHOWN_AT_ONCE));
    html! {
        @if !all.is_empty() {
            section.campaigns {
                h2 { "Hunts and comparisons" }
                ul { @for it in newest { (row(it)) } }
                @if !older.is_empty() { details { summary { (older.len()) " older" } ul { @for it in older { (row(it)) } } } }
            }
            h2 { "Runs" }
        }
    }
}

fn filter_form(all: &[Arc<Row>], filter: &Filter) -> Markup {
    let choice = |name: &str, filter: &str, values: Vec<&str>| {
        html! {
            label { (name) " " select name=(name) {
                option value="" selected[filter.is_empty()] { "all" }
                @for value in values { option value=(value) selected[value == filter] { (value) } }
            } }
        }
    };
    html! {
        form #filter action="/" {
            (choice("lock", &filter.lock, values(all, |row| &row.lock).into_iter().collect()))
            (choice("workload", &filter.workload, values(all, |row| &row.workload).into_iter().collect()))
            (choice("nemesis", &filter.nemesis, values(all, |row| &row.nemesis).into_iter().collect()))
            (choice("verdict", &filter.verdict, RunStatus::WORDS.to_vec()))
            label { "text " input type="search" name="text" value=(filter.text); }
            input type="hidden" name="sort" value=(filter.order());
            button type="submit" { "Show" }
        }
    }
}

fn address(filter: &Filter, sort: &str, page: usize) -> String {
    let Filter { lock, workload, nemesis, verdict, text, .. } = filter;
    let wishes = [
        ("lock", &**lock),
        ("workload", workload),
        ("nemesis", nemesis),
        ("verdict", verdict),
        ("text", text),
        ("sort", sort),
    ];
    let wishes = wishes.iter().filter(|(_, value)| !value.is_empty());
    let wishes: Vec<String> = wishes.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    format!("/?{}&page={page}", wishes.join("&"))
}

fn sortable(column: &str, filter: &Filter) -> Markup {
    let order = filter.order();
    let upwards = order == column;
    let next = if upwards { format!("-{column}") } else { column.to_owned() };
    let mark = match order.trim_start_matches('-') == column {
        false => "",
        true if upwards => " ▲",
        true => " ▼",
    };
    html! { th { a.turn href=(address(filter, &next, 0)) { (column) (mark) } } }
}

fn list_row(row: &Row) -> Markup {
    html! {
        tr {
            td { input type="checkbox" name="run" value=(row.name) aria-label=(format!("choose {}", row.name)); }
            td { a href=(run_address(&row.name)) title=(row.name) {
                @if row.started == 0 { (row.name) } @else { (date(row.started)) }
            } }
            td { (row.lock) } td { (row.workload) } td { (row.nemesis) } td { (row.guard) }
            td { (chip(row.status, row.harm)) }
            td { (row.said) }
        }
    }
}

fn turn_pages(at: usize, pages: usize, filter: &Filter) -> Markup {
    let order = filter.order();
    html! {
        p.pages {
            @if at > 0 { a.turn href=(address(filter, order, at - 1)) { "← before" } }
            span { "page " (at + 1) " of " (pages) }
            @if at + 1 < pages { a.turn href=(address(filter, order, at + 1)) { "next →" } }
        }
    }
}

/// One run: what came of it, and its files. While it goes on, its events as they come.
pub fn run(run: &Run, files: &Listing) -> String {
    let status = status(run, |judgement| judgement.outcome);
    let has = |name: &str| files.files.iter().any(|file| file.path == name);
    page(
        &run.name,
        html! {
            p { a href="/" { "All runs" } }
            h1 { (run.name) }
            p { (chip(status, run.judgement().and_then(|judgement| judgement.harms.first().copied()))) " " @if status != RunStatus::Running { (run.problem().unwrap_or_default()) } }
            @if status == RunStatus::Running { (live(&run.name)) }
            @if has("report.html") { p { a.report href=(file_address(&run.name, "report.html")) { "Open the report" } } }
            @if let Some(judgement) = run.judgement() { (properties(judgement)) }
            @if let Some(file) = run.file() {
                h2 { "To repeat this run" }
                pre { (file.command) }
                p.note { "Began " (date(file.started)) " UTC, driver " (file.driver) @for server in &file.servers { ", " (server) } }
            }
            (file_table(&run.name, files))
        },
    )
}

fn live(name: &str) -> Markup {
    html! {
        section #live data-address=(format!("{}/live", run_address(name))) {
            p.note { "This run goes on. " b #live-count { } }
            ol #live-events { }
        }
    }
}

fn properties(judgement: &Judgement) -> Markup {
    html! {
        h2 { "The properties" }
        table.properties {
            thead { tr { th { "property" } th { "verdict" } th { "observation" } } }
            tbody { @for each in &judgement.verdicts { tr {
                td { b { (property(&each.checker).0) } }
                td { (chip(RunStatus::Judged(each.outcome), each.harms.first().copied())) }
                td { (each.summary) }
            } }
            @for each in &judgement.not_judged { tr {
                td { b { (property(&each.checker).0) } }
                td { span.chip { "– not judged" } }
                td { (each.reason) }
            } } }
        }
    }
}

fn file_table(run: &str, files: &Listing) -> Markup {
    let row = |file: &File| {
        html! { tr { td { a href=(file_address(run, &file.path)) { (file.path) } } td.n { (file.bytes) } } }
    };
    html! {
        h2 { "Files" }
        table.files {
            thead { tr { th { "file" } th.n { "bytes" } } }
            tbody { @for file in &files.files { (row(file)) } }
        }
        @if files.more { p.note { "And more, which only the folder itself shows." } }
    }
}

/// Runs beside each other, a column each.
pub fn compare(runs: &[Run], missing: &[String]) -> String {
    let verdicts = runs.iter().filter_map(Run::judgement).flat_map(|judgement| &judgement.verdicts);
    let checkers = once(verdicts.map(|verdict| verdict.checker.as_str()));
    let setting = |name: &str, of: &dyn Fn(&RunSettings) -> String| {
        html! { tr { th { (name) } @for run in runs { td { @if let Some(file) = run.file() { (of(&file.spec)) } } } } }
    };
    page(
        "Chosen runs",
        html! {
            p { a href="/" { "All runs" } }
            h1 { "Chosen runs" }
            @for name in missing { p { "There is no run " code { (name) } "." } }
            @if runs.is_empty() { p { "Choose some runs in the list first." } }
            @else { div.tablebox { table.beside {
                thead { tr { th { } @for run in runs { th { a href=(run_address(&run.name)) { (run.name) } } } } }
                tbody {
                    (setting("lock", &|spec| spec.lock.clone()))
                    (setting("workload", &|spec| spec.workload.clone()))
                    (setting("nemesis", &|spec| spec.nemesis_name()))
                    (setting("guard", &|spec| spec.guard.clone()))
                    tr { th { "verdict" } @for run in runs { td { (chip(status(run, |judgement| judgement.outcome), run.judgement().and_then(|judgement| judgement.harms.first().copied()))) } } }
                    @for checker in checkers { (beside(checker, runs)) }
                    (costs(runs))
                }
            } } }
        },
    )
}

fn beside(checker: &str, runs: &[Run]) -> Markup {
    html! {
        tr {
            th { (property(checker).0) }
            @for run in runs { td {
                @if let Some(each) = run.judgement().and_then(|judgement| judgement.of_checker(checker)) {
                    (chip(RunStatus::Judged(each.outcome), each.harms.first().copied())) small { (each.summary) }
                }
            } }
        }
    }
}

fn costs(runs: &[Run]) -> Markup {
    let row = |name: &str, of: &dyn Fn(&Judgement) -> Option<f64>| {
        html! { tr { th { (name) } @for run in runs { td.n {
            @if let Some(number) = run.judgement().and_then(|judgement| of(judgement)) { (format!("{number:.1}")) }
        } } } }
    };
    html! {
        (row("median acquire, ms", &|judgement| judgement.costs.acquire_median_ms))
        (row("99 % of acquires within, ms", &|judgement| judgement.costs.acquire_p99_ms))
        (row("acquisitions a second", &|judgement| Some(judgement.costs.acquisitions_per_s)))
        (row("longest recovery, ms", &|judgement| judgement.costs.recovery_ms))
    }
}
