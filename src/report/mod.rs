//! A run's report: one HTML file that needs nothing else, and its pictures as SVG.

mod canvas;
mod evidence;
mod faults;
#[cfg(test)]
pub(crate) mod fixtures;
mod heading;
mod lanes;
mod latency;
mod measures;
mod page;
mod palette;
mod rate;
mod scene;
#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;
mod timeline;
mod violation;
mod words;

use fencepost_checker::{Digest, RunVerdict};

pub(crate) use evidence::{Exhibit, exhibits};
pub use heading::{Heading, heading};
pub(crate) use words::{count, promise, sentence};

/// The whole report: one file that opens from disk, in light and dark, on screen and paper.
pub fn html(heading: &Heading, run: &Digest, verdict: &RunVerdict) -> String {
    page::page(heading, run, verdict)
}

/// The pictures of a run, each with the name of its file.
pub fn plots(run: &Digest, verdict: &RunVerdict) -> Vec<(String, String)> {
    let mut plots = vec![
        ("timeline.svg".to_owned(), timeline::timeline(run)),
        ("latency.svg".to_owned(), latency::latency(run)),
        ("rate.svg".to_owned(), rate::rate(run)),
    ];
    let first = exhibits(run, verdict).into_iter().find_map(|exhibit| violation::violation(run, &exhibit));
    plots.extend(first.map(|svg| ("violation.svg".to_owned(), svg)));
    plots.into_iter().map(|(name, svg)| (name, alone(&svg))).collect()
}

/// A picture that stands alone brings its own dark colours.
fn alone(svg: &str) -> String {
    let style = format!("<style>@media (prefers-color-scheme:dark){{{}}}</style>", palette::dark_rules());
    match svg.split_once(">\n") {
        Some((head, rest)) => format!("{head}>\n{style}\n{rest}"),
        None => svg.to_owned(),
    }
}
