//! What all pictures are drawn with: a sheet of SVG, text of known size, an axis of time, separate labels.

use super::palette::{self, Colour};
use fencepost_checker::seconds;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{BoldPoints, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Width of pictures; a long run's timeline may be wider.
pub const WIDTH: i32 = 1120;
/// Where lanes and axes begin, right of their labels.
pub const LEFT: i32 = 96;
/// What is left free at the right edge.
pub const RIGHT: i32 = 20;

/// Sizes of text, in pixels.
pub const TEXT: f64 = 12.5;
pub const SMALL: f64 = 11.0;

/// A sheet of SVG, addressed in pixels.
pub struct Canvas<'a> {
    area: DrawingArea<SVGBackend<'a>, Shift>,
}

/// Draws a picture of the given size: the SVG, in the light colours.
pub fn picture(width: i32, height: i32, about: &str, draw: impl FnOnce(&Canvas)) -> String {
    let mut svg = String::new();
    {
        let size = (width.max(1) as u32, height.max(1) as u32);
        let canvas = Canvas { area: SVGBackend::with_string(&mut svg, size).into_drawing_area() };
        canvas.rect((0, 0), (width, height), palette::GROUND, 1.0);
        draw(&canvas);
        canvas.area.present().expect(IN_MEMORY);
    }
    // What plotters writes and SVG assumes anyway: a third of a large picture.
    let svg = svg.replace(" opacity=\"1\"", "").replace(" stroke=\"none\"", "");
    let about = in_xml(about).replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    svg.replacen("<svg ", &format!("<svg role=\"img\" aria-label=\"{about}\" "), 1)
}

/// The text without characters that XML cannot hold ("Extensible Markup Language (XML) 1.0", 2.2).
fn in_xml(text: &str) -> String {
    let forbidden = |c: char| matches!(c, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}');
    text.replace(forbidden, "\u{fffd}")
}

const IN_MEMORY: &str = "drawing into memory does not fail";

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// To the right of it, centred vertically.
    Start,
    Middle,
    End,
}

impl Canvas<'_> {
    pub fn rect(&self, from: (i32, i32), to: (i32, i32), colour: Colour, opacity: f64) {
        self.put(&Rectangle::new([from, to], colour.rgb().mix(opacity).filled()));
    }

    pub fn frame(&self, from: (i32, i32), to: (i32, i32), colour: Colour) {
        self.put(&Rectangle::new([from, to], colour.rgb().stroke_width(1)));
    }

    pub fn line(&self, points: &[(i32, i32)], colour: Colour, width: u32) {
        if points.is_empty() {
            return;
        }
        self.put(&PathElement::new(points.to_vec(), colour.rgb().stroke_width(width)));
    }

    pub fn area(&self, points: &[(i32, i32)], colour: Colour, opacity: f64) {
        self.put(&Polygon::new(points.to_vec(), colour.rgb().mix(opacity)));
    }

    pub fn dot(&self, at: (i32, i32), radius: u32, colour: Colour) {
        self.put(&Circle::new(at, radius, colour.rgb().filled()));
    }

    pub fn dashes(&self, x: i32, from: i32, to: i32, colour: Colour) {
        for y in (from..to).step_by(6) {
            self.line(&[(x, y), (x, (y + 3).min(to))], colour, 1);
        }
    }

    pub fn text(&self, at: (i32, i32), text: &str, size: f64, colour: Colour, anchor: Anchor) {
        self.write(at, text, size, colour, anchor, FontStyle::Normal);
    }

    pub fn bold(&self, at: (i32, i32), text: &str, size: f64, colour: Colour, anchor: Anchor) {
        self.write(at, text, size, colour, anchor, FontStyle::Bold);
    }

    fn write(&self, at: (i32, i32), text: &str, size: f64, colour: Colour, anchor: Anchor, style: FontStyle) {
        let h_pos = match anchor {
            Anchor::Start => HPos::Left,
            Anchor::Middle => HPos::Center,
            Anchor::End => HPos::Right,
        };
        // Plotters' size of a font is 1.24 times that of SVG.
        let font = ("sans-serif", size * 1.24, style).into_font().color(&colour.rgb());
        self.put(&Text::new(in_xml(text), at, font.pos(Pos::new(h_pos, VPos::Center))));
    }

    fn put<'b, E>(&self, element: &'b E)
    where
        &'b E: plotters::element::PointCollection<'b, (i32, i32)>,
        E: for<'c> plotters::element::Drawable<SVGBackend<'c>>,
    {
        self.area.draw(element).expect(IN_MEMORY);
    }
}

/// About how wide a text is. No font is at hand to measure it, so rather too wide than too narrow.
pub fn text_width(text: &str, size: f64) -> i32 {
    (text.chars().count() as f64 * size * 0.57).ceil() as i32
}

/// Time from left to right.
#[derive(Clone, Copy, Debug)]
pub struct TimeAxis {
    pub left: i32,
    pub right: i32,
    pub from_ns: u64,
    pub to_ns: u64,
}

impl TimeAxis {
    /// Where a time stands; times outside stand at the edges.
    pub fn x(&self, ns: u64) -> i32 {
        let ns = ns.clamp(self.from_ns, self.to_ns) - self.from_ns;
        let span = (self.to_ns - self.from_ns).max(1);
        self.left + (ns as f64 / span as f64 * f64::from(self.right - self.left)).round() as i32
    }

    /// Grid lines over a height, with the time under them.
    pub fn draw(&self, canvas: &Canvas, top: i32, bottom: i32) {
        let room = ((self.right - self.left) / 110).max(2) as usize;
        let seconds = RangedCoordf64::from(self.from_ns as f64 / 1e9..self.to_ns as f64 / 1e9);
        let ticks = seconds.key_points(BoldPoints(room));
        let step = ticks.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        let decimals =
            if step.is_finite() && step > 0.0 { (-step.log10()).ceil().clamp(0.0, 6.0) } else { 3.0 };
        for tick in ticks {
            let x = self.x((tick * 1e9).round().max(0.0) as u64);
            canvas.line(&[(x, top), (x, bottom)], palette::GRID, 1);
            let label = format!("{tick:.0$} s", decimals as usize);
            canvas.text((x, bottom + 12), &label, SMALL, palette::MUTED, Anchor::Middle);
        }
    }
}

/// Rows of labels: each stands in the first row that has room for it.
pub struct Rows {
    ends: Vec<i32>,
    most: usize,
}

impl Rows {
    pub fn new(most: usize) -> Rows {
        Rows { ends: Vec::new(), most }
    }

    /// The row for something from `left` to `right`, if it has room. To be called in order of `left`.
    pub fn place(&mut self, left: i32, right: i32) -> Option<usize> {
        let free = self.ends.iter().position(|end| *end <= left);
        let row = free.or_else(|| {
            self.ends.push(i32::MIN);
            Some(self.ends.len() - 1).filter(|row| *row < self.most)
        });
        self.ends.truncate(self.most);
        self.ends[row?] = right;
        row
    }

    pub fn count(&self) -> usize {
        self.ends.len()
    }
}

/// A time span for people: `93 ms`, `1.290 s`.
pub fn span(ns: u64) -> String {
    if ns < 1_000_000 {
        format!("{:.1} ms", ns as f64 / 1e6)
    } else if ns < 1_000_000_000 {
        format!("{} ms", ns / 1_000_000)
    } else {
        seconds(ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_apart() {
        let mut rows = Rows::new(2);
        assert_eq!(rows.place(0, 10), Some(0));
        assert_eq!(rows.place(5, 15), Some(1));
        assert_eq!(rows.place(7, 9), None);
        assert_eq!(rows.place(12, 20), Some(0));
        assert_eq!(rows.count(), 2);
    }

    #[test]
    fn times_stand_within_the_axis() {
        let axis = TimeAxis { left: 100, right: 200, from_ns: 10, to_ns: 20 };
        assert_eq!([0, 10, 15, 20, 99].map(|ns| axis.x(ns)), [100, 100, 150, 200, 200]);
    }
}
