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

use crate::exhibits::exhibits;
use fencepost_checker::{RunIndex, RunVerdict, overlaps};
use fencepost_history::run::ClockSample;
use rayon::prelude::*;

/// The pictures of a run as SVG, and as PNG with the feature `png`, each with the name of its file.
pub fn plots(run: &RunIndex, verdict: &RunVerdict, clocks: &[ClockSample]) -> Vec<(String, Vec<u8>)> {
    let first = || exhibits(run, verdict).into_iter().find_map(|exhibit| violation::violation(run, &exhibit));
    let evidence = || {
        let findings = verdict.verdicts.iter().flat_map(|each| &each.findings);
        findings.filter_map(|finding| finding.evidence.as_deref()).next().map(conflict::conflict)
    };
    let pictures: [(&str, &(dyn Fn() -> Option<String> + Sync)); 6] = [
        ("timeline", &|| Some(timeline::timeline(run, &overlaps(run)))),
        ("latency", &|| Some(latency::latency(run))),
        ("rate", &|| Some(rate::rate(run))),
        ("clocks", &|| clocks::clocks(run, clocks)),
        ("violation", &first),
        ("conflict", &evidence),
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

/// A picture that stands alone brings its own dark colours.
fn alone(svg: &str) -> String {
    let style = format!("<style>:root{{color-scheme:light dark}}{}</style>", palette::style());
    match svg.split_once(">\n") {
        Some((head, rest)) => format!("{head}>\n{style}\n{rest}"),
        None => svg.to_owned(),
    }
}
