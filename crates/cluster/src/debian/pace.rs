//! How slow a download may be: a mirror that sends a byte now and then is not silent, and never done.

use std::time::{Duration, Instant};

/// What is measured at a time. All attempts at a mirror that does not answer take less.
const SPAN: Duration = Duration::from_secs(300);

/// What must have come in each span: 1 KiB a second.
const BYTES_MIN: u64 = SPAN.as_secs() << 10;

/// How much came of one file since the span began, in however many attempts.
pub(super) struct DownloadPace {
    began: Instant,
    bytes: u64,
}

impl DownloadPace {
    pub(super) fn from(now: Instant) -> DownloadPace {
        DownloadPace { began: now, bytes: 0 }
    }

    /// Counts what came just now. The error says that the mirror is too slow.
    pub(super) fn came(&mut self, bytes: usize, now: Instant, address: &str) -> Result<(), String> {
        self.bytes += bytes as u64;
        if now.saturating_duration_since(self.began) < SPAN {
            return Ok(());
        }
        let came = std::mem::take(&mut self.bytes);
        self.began = now;
        match came < BYTES_MIN {
            true => Err(format!(
                "cannot download {address}: the mirror is too slow, it sent {came} bytes in {} s; what was downloaded is kept, so \
                 try again, or set {} to another mirror",
                SPAN.as_secs(),
                super::settings::MIRROR
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_now_and_then_is_no_download() {
        let began = Instant::now();
        let mut pace = DownloadPace::from(began);
        let mut drip = |second| pace.came(1, began + Duration::from_secs(second), "http://m/a");
        assert!((1..300).step_by(20).all(|second| drip(second).is_ok()), "a pause is borne");
        let slow = drip(300).unwrap_err();
        assert!(slow.contains("too slow, it sent 16 bytes in 300 s"), "{slow}");
    }

    #[test]
    fn a_slow_line_is_borne_as_long_as_it_goes_on() {
        let began = Instant::now();
        let mut pace = DownloadPace::from(began);
        for second in 1..=900 {
            assert_eq!(
                pace.came(1100, began + Duration::from_secs(second), "http://m/a"),
                Ok(()),
                "{second}"
            );
        }
        assert!(pace.came(0, began + Duration::from_secs(1200), "http://m/a").is_err(), "each span counts");
    }
}
