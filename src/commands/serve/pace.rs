//! How long a client may keep the server waiting, so that slow ones do not keep their places from others.

use parking_lot::Mutex;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// For how long a client may keep the server waiting. Bytes that move make up for it, at [`BYTES_PER_S`].
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The least bytes a second, both ways: a report of 10 MB then takes as long as a connection may last.
const BYTES_PER_S: f64 = (16 << 10) as f64;

#[derive(Clone, Debug, Default)]
pub struct Pace(Arc<Mutex<Waited>>);

#[derive(Debug, Default)]
struct Waited {
    /// Since when the client is waited for; none while the server has to do something.
    since: Option<Instant>,
    /// How long it was waited for before, less what moved bytes have made up for.
    before: Duration,
}

impl Waited {
    fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    fn moved(&mut self, bytes: usize, now: Instant) {
        self.before = self.time(now).saturating_sub(Duration::from_secs_f64(bytes as f64 / BYTES_PER_S));
        self.since = None;
    }

    fn time(&self, now: Instant) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| now.duration_since(since))
    }
}

impl Pace {
    /// A whole request has come: the client has done its part, and now it waits for the server.
    pub fn asked(&self) {
        *self.0.lock() = Waited::default();
    }

    pub fn waited(&self) -> Duration {
        self.0.lock().time(Instant::now())
    }

    /// Returns when the client has kept the server waiting for [`PATIENCE`].
    pub async fn until_too_slow(&self) {
        while let Some(left) = PATIENCE.checked_sub(self.waited()).filter(|left| !left.is_zero()) {
            tokio::time::sleep(left).await;
        }
    }

    fn note<T>(&self, tried: &Poll<io::Result<T>>, bytes: impl FnOnce(&T) -> usize) {
        let now = Instant::now();
        match tried {
            Poll::Pending => self.0.lock().begin(now),
            Poll::Ready(Ok(moved)) => self.0.lock().moved(bytes(moved), now),
            Poll::Ready(Err(_)) => {}
        }
    }
}

/// The stream of a connection, whose pace is noted. The library reads from it only while it waits for a
/// request, so that a client which waits for its answer is not waited for.
pub struct Paced<S> {
    pub stream: S,
    pub pace: Pace,
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = to.filled().len();
        let tried = Pin::new(&mut self.stream).poll_read(context, to);
        self.pace.note(&tried, |()| to.filled().len() - before);
        tried
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.pace.note(&tried, |written| *written);
        tried
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.pace.note(&tried, |written| *written);
        tried
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a client is waited for that takes `bytes` of an answer each second, after so many seconds.
    fn after(seconds: u64, bytes: usize) -> Duration {
        let (mut waited, begun) = (Waited::default(), Instant::now());
        for second in 0..seconds {
            waited.begin(begun + Duration::from_secs(second));
            waited.moved(bytes, begun + Duration::from_secs(second + 1));
        }
        waited.time(begun + Duration::from_secs(seconds))
    }

    #[test]
    fn bytes_make_up_for_the_time_that_they_take_and_for_no_more() {
        let seconds = |number: f64| Duration::from_secs_f64(number);
        assert_eq!(after(8, 0), seconds(8.0));
        assert!(after(11, 1) > PATIENCE, "a byte a second");
        assert_eq!(after(8, 8 << 10), seconds(4.0), "half the pace");
        assert_eq!(after(600, 16 << 10), Duration::ZERO);
        let mut waited = Waited::default();
        let begun = Instant::now();
        waited.moved(1 << 30, begun);
        waited.begin(begun);
        assert_eq!(waited.time(begun + seconds(3.0)), seconds(3.0), "haste saves nothing up");
        waited.begin(begun + seconds(2.0));
        assert_eq!(waited.time(begun + seconds(3.0)), seconds(3.0), "it is waited for since the first try");
    }
}
