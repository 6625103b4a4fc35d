//! The pictures of a run, as SVG, and as PNG with the feature `png`.

pub(crate) mod canvas;
pub(crate) mod clocks;
pub(crate) mod conflict;
mod excerpt;
pub(crate) mod faults;
pub(crate) mod lanes;
pub(crate) mod latency;
pub(crate) mod palette;
#[cfg(feature = "png")]
mod png;
pub(crate) mod rate;
pub(crate) mod timeline;
pub(crate) mod violation;
mod waits;

use crate::shown_findings::{ShownFinding, shown_findings};
use crate::words::drawing;
use fencepost_checker::{Overlap, RunIndex, RunVerdict};
use fencepost_history::run::ClockSample;
use rayon::prelude::*;

/// The pictures of the run as a whole as SVG, drawn once for the page and for `plots/`.
pub struct RunPictures {
    pub timeline: String,
    pub latency: String,
    pub rate: String,
    pub clocks: Option<String>,
}

impl RunPictures {
    pub fn draw(run: &RunIndex, overlaps: &[Overlap], clocks: &[ClockSample]) -> RunPictures {
        let ((timeline, latency), (rate, clocks)) = rayon::join(
            || rayon::join(|| timeline::timeline(run, overlaps), || latency::latency(run)),
            || rayon::join(|| rate::rate(run), || clocks::clocks(run, clocks)),
        );
        RunPictures { timeline, latency, rate, clocks }
    }
}

pub(crate) fn of_finding(run: &RunIndex, shown: &ShownFinding) -> Option<(String, String)> {
    let waits = waits::waits(run, shown.finding).map(|svg| (svg, waits::HOW_TO_READ.to_owned()));
    waits.or_else(|| Some((violation::violation(run, shown)?, drawing(run, &shown.holds))))
}

/// The files of `plots/` with their names: each picture as SVG, and as PNG with the feature `png`.
pub fn plots(run: &RunIndex, verdict: &RunVerdict, whole: &RunPictures) -> Vec<(String, Vec<u8>)> {
    let first = shown_findings(run, verdict).into_iter().find_map(|shown| of_finding(run, &shown));
    let first = first.map(|(svg, _)| svg);
    let mut findings = verdict.verdicts.iter().flat_map(|each| &each.findings);
    let evidence = findings.find_map(|finding| finding.evidence.as_deref()).map(conflict::conflict);
    let pictures = [
        ("timeline", Some(&whole.timeline)),
        ("latency", Some(&whole.latency)),
        ("rate", Some(&whole.rate)),
        ("clocks", whole.clocks.as_ref()),
        ("violation", first.as_ref()),
        ("conflict", evidence.as_ref()),
    ];
    let drawn = pictures.par_iter().filter_map(|(name, svg)| {
        let svg = (*svg)?;
        let files = [
            #[cfg(feature = "png")]
            (format!("{name}.png"), png::png(svg)),
            (format!("{name}.svg"), alone(svg).into_bytes()),
        ];
        Some(files)
    });
    drawn.collect::<Vec<_>>().into_iter().flatten().collect()
}

/// A picture that stands alone brings its own dark colours.
fn alone(svg: &str) -> String {
    let style = format!("<style>:root{{color-scheme:light dark}}{}</style>", palette::style());
    match svg.split_once(">\n") {
        Some((head, rest)) => format!("{head}>\n{style}\n{rest}"),
        None => svg.to_owned(),
    }
}
