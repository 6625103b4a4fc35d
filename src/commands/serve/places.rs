//! The places of connections: when all are taken, the slowest client loses its own to the next one.

use super::pace::Pace;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// A client that has kept the server waiting for less than this is not slow.
const SLOW: Duration = Duration::from_secs(1);

/// How often it is looked whether a client has become slow, while another one waits for a place.
const LOOK: Duration = Duration::from_millis(100);

pub struct Places {
    most: usize,
    taken: Mutex<Vec<Taken>>,
    freed: Notify,
}

struct Taken {
    pace: Pace,
    given_up: Arc<Notify>,
    ends: bool,
}

pub struct Place {
    places: Arc<Places>,
    given_up: Arc<Notify>,
    pub pace: Pace,
}

impl Places {
    pub fn new(most: usize) -> Arc<Places> {
        Arc::new(Places { most, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a place: a free one, the client's own that was slow longest, or the first that ends.
    pub async fn take(self: &Arc<Self>) -> Place {
        loop {
            if let Some(place) = self.try_take() {
                return place;
            }
            tokio::select! {
                () = self.freed.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn try_take(self: &Arc<Self>) -> Option<Place> {
        let mut taken = self.taken.lock();
        if taken.len() < self.most {
            let (pace, given_up) = (Pace::default(), Arc::new(Notify::new()));
            taken.push(Taken { pace: pace.clone(), given_up: given_up.clone(), ends: false });
            return Some(Place { places: self.clone(), given_up, pace });
        }
        // One at a time: a place that is about to become free is enough.
        if !taken.iter().any(|taken| taken.ends)
            && let Some(slowest) = taken.iter_mut().max_by_key(|taken| taken.pace.waited())
            && slowest.pace.waited() >= SLOW
        {
            slowest.ends = true;
            slowest.given_up.notify_one();
        }
        None
    }
}

impl Place {
    pub async fn until_given_up(&self) {
        self.given_up.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().retain(|taken| !Arc::ptr_eq(&taken.given_up, &self.given_up));
        self.places.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::super::pace::Paced;
    use super::*;
    use tokio::io::{AsyncReadExt, duplex};

    #[tokio::test(start_paused = true)]
    async fn the_client_that_was_waited_for_longest_loses_its_place_and_one_that_waits_itself_does_not() {
        let places = Places::new(3);
        let [answered, silent, later] = [places.take().await, places.take().await, places.take().await];
        let (_theirs, ours) = duplex(1);
        let mut reading = Paced { stream: ours, pace: silent.pace.clone() };
        let (_other, ours) = duplex(1);
        let mut reading_later = Paced { stream: ours, pace: later.pace.clone() };
        let ends = async {
            tokio::select! {
                () = answered.until_given_up() => "answered",
                () = silent.until_given_up() => "silent",
                () = later.until_given_up() => "later",
                _ = reading.read_u8() => unreachable!("nothing is sent"),
                _ = async { tokio::time::sleep(LOOK).await; reading_later.read_u8().await } => {
                    unreachable!("nothing is sent")
                }
                _ = places.take() => unreachable!("all places are taken"),
            }
        };
        assert_eq!(ends.await, "silent");
        drop(silent);
        places.take().await;
    }
}
