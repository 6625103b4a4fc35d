//! How the number of covered situations grew over the time of a hunt.

use super::file::HuntFile;
use crate::pictures::canvas::{self, Anchor, LEFT, RIGHT, SMALL, TimeAxis, WIDTH, text_width};
use crate::pictures::palette;
use plotters::coord::ranged1d::{BoldPoints, Ranged};
use plotters::coord::types::RangedCoordf64;

const TOP: i32 = 34;
const BOTTOM: i32 = 224;

/// The picture. A dashed line stands where a violation was found.
pub(super) fn curve(hunt: &HuntFile) -> String {
    let to_ns = hunt.spent_ms.max(1) * 1_000_000;
    let axis = TimeAxis { left: LEFT, right: WIDTH - RIGHT, from_ns: 0, to_ns };
    let most = hunt.covered().max(1) as f64 * 1.08;
    let y = |covered: f64| BOTTOM - (covered / most * f64::from(BOTTOM - TOP)).round() as i32;
    canvas::picture(WIDTH, BOTTOM + 26, "Situations covered over time", |canvas| {
        canvas.text((12, 12), "situations covered", SMALL, palette::MUTED, Anchor::Start);
        canvas.rect((axis.left, TOP), (axis.right, BOTTOM), palette::STRIPE, 1.0);
        axis.draw(canvas, TOP, BOTTOM);
        for tick in RangedCoordf64::from(0.0..most).key_points(BoldPoints(5)) {
            canvas.line(&[(axis.left, y(tick)), (axis.right, y(tick))], palette::GRID, 1);
            canvas.text((axis.left - 8, y(tick)), &format!("{tick}"), SMALL, palette::MUTED, Anchor::End);
        }
        let mut steps = vec![(axis.left, BOTTOM)];
        for point in &hunt.curve {
            let x = axis.x(point.at_ms * 1_000_000);
            let before = steps.last().map_or(BOTTOM, |(_, y)| *y);
            steps.extend([(x, before), (x, y(point.covered as f64))]);
        }
        let last = steps.last().map_or(BOTTOM, |(_, y)| *y);
        steps.push((axis.right, last));
        let mut under = steps.clone();
        under.extend([(axis.right, BOTTOM), (axis.left, BOTTOM)]);
        canvas.area(&under, palette::OK, 0.12);
        canvas.line(&steps, palette::OK, 2);
        let mut free = i32::MIN;
        for (number, finding) in (1..).zip(hunt.findings.iter().filter(|finding| finding.schedule > 0)) {
            let x = axis.x(finding.found_ms * 1_000_000);
            canvas.dashes(x, TOP, BOTTOM, palette::FAIL);
            let label = format!("finding {number}");
            let half = text_width(&label, SMALL) / 2;
            let at = x.clamp(axis.left + half, axis.right - half);
            if at - half > free {
                canvas.text((at, TOP - 9), &label, SMALL, palette::FAIL, Anchor::Middle);
                free = at + half + 6;
            }
        }
    })
}
