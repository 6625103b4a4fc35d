//! A run's report: one HTML file that needs nothing else, and its pictures as SVG, and as PNG with the feature `png`.

mod canvas;
mod clocks;
mod document;
mod evidence;
mod explorer;
mod faults;
#[cfg(test)]
pub(crate) mod fixtures;
mod heading;
mod lanes;
mod latency;
mod measures;
mod page;
mod palette;
#[cfg(feature = "png")]
mod png;
mod rate;
mod scene;
#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;
mod timeline;
mod violation;
mod words;

use fencepost_checker::{RunIndex, RunVerdict, overlaps};
use fencepost_history::run::ClockSample;
use rayon::prelude::*;

pub use document::document;
pub(crate) use evidence::{Exhibit, exhibits};
pub use heading::{Heading, heading};
pub(crate) use words::{count, promise, sentence, unfinished};

/// The whole report: one file that opens from disk, in light and dark, on screen and paper.
pub fn html(heading: &Heading, run: &RunIndex, verdict: &RunVerdict, clocks: &[ClockSample]) -> String {
    page::page(heading, run, verdict, clocks)
}

/// The pictures of a run as SVG, and as PNG with the feature `png`, each with the name of its file.
pub fn plots(run: &RunIndex, verdict: &RunVerdict, clocks: &[ClockSample]) -> Vec<(String, Vec<u8>)> {
    let first = || exhibits(run, verdict).into_iter().find_map(|exhibit| violation::violation(run, &exhibit));
    let pictures: [(&str, &(dyn Fn() -> Option<String> + Sync)); 5] = [
        ("timeline", &|| Some(timeline::timeline(run, &overlaps(run)))),
        ("latency", &|| Some(latency::latency(run))),
        ("rate", &|| Some(rate::rate(run))),
        ("clocks", &|| clocks::clocks(run, clocks)),
        ("violation", &first),
    ];
    let drawn = pictures.par_iter().filter_map(|(name, draw)| {
        let svg = draw()?;
        let files = [
            #[cfg(feature = "png")]
            (format!("{name}.png"), png::png(&svg)),
            (format!("{name}.svg"), alone(&svg).into_bytes()),
        ];
        Some(files)
    });
    drawn.collect::<Vec<_>>().into_iter().flatten().collect()
}

/// Whether a run has not come to its end: it is still going, or it was cut off.
pub fn is_unfinished(run: &RunIndex) -> bool {
    run.phase("closing").is_none()
}

/// A picture that stands alone brings its own dark colours.
fn alone(svg: &str) -> String {
    let style = format!("<style>:root{{color-scheme:light dark}}{}</style>", palette::style());
    match svg.split_once(">\n") {
        Some((head, rest)) => format!("{head}>\n{style}\n{rest}"),
        None => svg.to_owned(),
    }
}
