//! The colours of all pictures. They are drawn in the light colours; a style sheet gives each its dark twin.
//! Data's colours suit people who confuse red and green (Okabe and Ito); shapes differ, too.

use plotters::style::RGBColor;
use std::fmt::Write;

/// A colour with its twin on a dark ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    pub light: u32,
    pub dark: u32,
}

impl Colour {
    pub fn rgb(self) -> RGBColor {
        let [_, red, green, blue] = self.light.to_be_bytes();
        RGBColor(red, green, blue)
    }
}

const fn colour(light: u32, dark: u32) -> Colour {
    Colour { light, dark }
}

pub const GROUND: Colour = colour(0xFFFFFF, 0x15181D);
pub const INK: Colour = colour(0x1B1F24, 0xE8EAED);
pub const MUTED: Colour = colour(0x57606B, 0x9DA7B3);
pub const GRID: Colour = colour(0xE4E7EB, 0x2B3139);
pub const STRIPE: Colour = colour(0xF6F7F9, 0x1B1F26);

/// A hold for as long as its process is known to have believed in it.
pub const HOLD: Colour = colour(0x0072B2, 0x4BA3DB);
/// The rest of it: claimed, and not known to be believed.
pub const CLAIM: Colour = colour(0xA9CDE4, 0x2A5270);
/// Two at once. Nothing else is red.
pub const CLASH: Colour = colour(0xD01C1F, 0xFF6B61);
pub const UNSURE: Colour = colour(0x8C959F, 0x7D8792);

/// The first, second and third process of a story.
pub const PARTICIPANTS: [Colour; 3] = [HOLD, colour(0xD98200, 0xF2A93B), colour(0x009E73, 0x34C79B)];

/// Outcomes of operations.
pub const OK: Colour = HOLD;
pub const FAIL: Colour = colour(0xC77600, 0xF0A030);
pub const INFO: Colour = colour(0x3D444D, 0xD3D9E0);

/// Kinds of faults, in order of appearance; reused when there are more.
pub const FAULTS: [Colour; 5] = [
    colour(0x8F7AD1, 0x9D8BE0),
    colour(0x1A9E76, 0x2FB98E),
    colour(0xCC79A7, 0xD48BB4),
    colour(0xB9A300, 0xC9B52E),
    colour(0x6F7F94, 0x8B9BB0),
];

const ALL: [Colour; 11] = [GROUND, INK, MUTED, GRID, STRIPE, HOLD, CLAIM, CLASH, UNSURE, FAIL, INFO];

/// Style rules that give each colour of a drawing its dark twin; which one is seen is up to `color-scheme`.
pub fn style() -> String {
    let mut rules = String::new();
    let colours = ALL.iter().chain(&PARTICIPANTS[1..]).chain(&FAULTS);
    for Colour { light, dark } in colours {
        for attribute in ["fill", "stroke"] {
            let _ = write!(
                rules,
                "svg [{attribute}=\"#{light:06X}\"]{{{attribute}:light-dark(#{light:06X},#{dark:06X})}}"
            );
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_colours_share_a_light_value_and_differ_in_the_dark() {
        let all: Vec<Colour> = ALL.iter().chain(&PARTICIPANTS).chain(&FAULTS).copied().collect();
        for a in &all {
            for b in &all {
                assert!(a.light != b.light || a.dark == b.dark, "{a:?} {b:?}");
            }
        }
    }
}
