/// Round numbers (1, 2 or 5, and zeros) below `value`, the `most` greatest; ascending.
pub(super) fn below(value: u64, most: usize) -> Vec<u64> {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    let rounds = powers.flat_map(|power| [1, 2, 5].map(|digit| power.saturating_mul(digit)));
    let all: Vec<u64> = rounds.take_while(|round| *round < value).collect();
    all[all.len().saturating_sub(most)..].to_vec()
}

/// The least number of two digits and zeros that is not below `value`.
pub(super) fn two_digits_up(value: u64) -> u64 {
    let mut unit = 1;
    while value / unit >= 100 {
        unit *= 10;
    }
    value.div_ceil(unit) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_are_few_and_below() {
        assert_eq!(below(3742, 4), [200, 500, 1000, 2000]);
        assert_eq!(below(200, 2), [50, 100]);
        assert_eq!(below(1, 4), [] as [u64; 0]);
        let up = [0, 7, 99, 100, 101, 3742, 60_000].map(two_digits_up);
        assert_eq!(up, [0, 7, 99, 100, 110, 3800, 60_000]);
    }
}
