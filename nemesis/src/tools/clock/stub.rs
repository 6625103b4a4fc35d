//! The code that answers for a skewed clock (in each architecture's assembly), and the layout of its data
//! (`data.s`). Data are written while the process runs: the writer fills the slot that is not in use, then
//! writes the one byte of the generation, whose lowest bit names the slot in use. A reader looks at the
//! generation before and after, and reads again if it changed.

use super::Skew;
use nix::libc;
use std::ops::Range;

unsafe extern "C" {
    static fencepost_clock_stub: u8;
    static fencepost_clock_stub_end: u8;
}

/// What a patched vDSO is recognised by.
pub const MAGIC: &[u8; 16] = b"fencepost-clock1";
/// Of the three records of what was overwritten: the offset of a jump in the vDSO, then eight bytes.
pub const ORIGINALS: Range<usize> = 16..64;
pub const GENERATION: usize = 64;
const SLOTS: usize = 80;
pub const SLOT_LENGTH: usize = 12 * 16;
/// Where the code begins: all before it is data.
pub const CODE: usize = SLOTS + 2 * SLOT_LENGTH;

pub fn begin() -> usize {
    &raw const fencepost_clock_stub as usize
}

pub fn bytes() -> &'static [u8] {
    let begin = &raw const fencepost_clock_stub;
    let length = &raw const fencepost_clock_stub_end as usize - begin as usize;
    // SAFETY: both symbols bound one initialised stretch of this program's read-only data.
    unsafe { std::slice::from_raw_parts(begin, length) }
}

/// Offset in the stub of the slot that a generation uses.
pub fn slot_at(generation: u8) -> usize {
    SLOTS + usize::from(generation & 1) * SLOT_LENGTH
}

/// What one clock shows: `true + constant + (true * rate >> 32)`, modulo 2^64.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    constant: i64,
    rate: i64,
}

const ONE: i128 = 1 << 32;

impl Entry {
    /// A clock that is `offset_ns` ahead when the true one shows `base_ns`, and then gains `drift_ppm`.
    fn new(offset_ns: i64, drift_ppm: i64, base_ns: i64) -> Entry {
        let rate = (i128::from(drift_ppm) * ONE).div_euclid(1_000_000) as i64;
        Entry { constant: offset_ns.wrapping_sub(gained(rate, base_ns)), rate }
    }

    /// How far ahead it is, in nanoseconds, when the true clock shows `true_ns`.
    pub fn ahead_ns(self, true_ns: i64) -> i64 {
        self.constant.wrapping_add(gained(self.rate, true_ns))
    }

    /// What it gains, in parts per million.
    pub fn drift_ppm(self) -> i64 {
        ((i128::from(self.rate) * 1_000_000 + ONE / 2) >> 32) as i64
    }

    pub fn read(slot: &[u8], clock: usize) -> Entry {
        let word = |at: usize| i64::from_le_bytes(slot[at..at + 8].try_into().expect("eight bytes"));
        Entry { constant: word(16 * clock), rate: word(16 * clock + 8) }
    }
}

/// As the stub computes it: the product in 128 bits, of which it keeps bits 32 to 95.
fn gained(rate: i64, true_ns: i64) -> i64 {
    ((i128::from(rate) * i128::from(true_ns)) >> 32) as i64
}

/// A slot for this skew; `now_ns` tells the true time. `Err`: a clock that would leave 1970 (boot) to 2100.
pub fn slot(skew: Skew, now_ns: impl Fn(i32) -> i64) -> Result<[u8; SLOT_LENGTH], &'static str> {
    let mut slot = [0; SLOT_LENGTH];
    // Clock ids on one time scale share one line, so that, say, a coarse clock never overtakes the fine one.
    let wall = ("wall", skew.wall_ns, skew.wall_drift_ppm);
    let monotonic = ("monotonic", skew.monotonic_ns, skew.monotonic_drift_ppm);
    for (read, shared_by, (name, offset_ns, drift_ppm)) in [
        (libc::CLOCK_REALTIME, &[0, 5, 8][..], wall),
        (libc::CLOCK_TAI, &[11], wall),
        (libc::CLOCK_MONOTONIC, &[1, 6], monotonic),
        (libc::CLOCK_MONOTONIC_RAW, &[4], monotonic),
        (libc::CLOCK_BOOTTIME, &[7, 9], monotonic),
    ] {
        let base_ns = now_ns(read);
        let shows = base_ns.checked_add(offset_ns).ok_or(name)?;
        if !(0..=4_100_000_000_000_000_000).contains(&shows) {
            return Err(name);
        }
        let entry = Entry::new(offset_ns, drift_ppm, base_ns);
        for clock in shared_by {
            slot[16 * clock..16 * clock + 8].copy_from_slice(&entry.constant.to_le_bytes());
            slot[16 * clock + 8..16 * clock + 16].copy_from_slice(&entry.rate.to_le_bytes());
        }
    }
    Ok(slot)
}

#[cfg(test)]
mod tests {
    use super::super::processor;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_layout_is_the_one_of_the_assembly() {
        assert_eq!(&bytes()[..16], MAGIC);
        let first = processor::replacements()[0].1;
        assert!((CODE..CODE + 8).contains(&first), "an instruction may stand before it");
        assert!(bytes()[16..CODE].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_frozen_clock_shows_one_value_for_ever() {
        let entry = Entry::new(5, Skew::FROZEN_PPM, 1_760_000_000_000_000_000);
        for later in [0, 1, 999, 1_000_000_000, 86_400_000_000_000] {
            let now = 1_760_000_000_000_000_000 + later;
            assert_eq!(now + entry.ahead_ns(now), 1_760_000_000_000_000_005);
        }
    }

    proptest! {
        #[test]
        fn a_skew_reads_back_as_it_was_written(
            offset in -1_000_000_000_000_000i64..1_000_000_000_000_000,
            ppm in -1_000_000i64..=Skew::DRIFT_PPM_MAX,
            base in 0i64..4_000_000_000_000_000_000,
        ) {
            let entry = Entry::new(offset, ppm, base);
            prop_assert_eq!(entry.ahead_ns(base), offset);
            prop_assert_eq!(entry.drift_ppm(), ppm);
            let hour = 3_600_000_000_000;
            let gained = entry.ahead_ns(base + hour) - offset;
            prop_assert!((gained - hour / 1_000_000 * ppm).abs() < 1000, "{}", gained);
        }

        #[test]
        fn a_drifting_clock_never_goes_back(ppm in -1_000_000i64..10_000, base in 0i64..i64::MAX / 2, step in 0i64..10_000) {
            let entry = Entry::new(0, ppm, base);
            prop_assert!(base + step + entry.ahead_ns(base + step) >= base + entry.ahead_ns(base));
        }
    }
}
