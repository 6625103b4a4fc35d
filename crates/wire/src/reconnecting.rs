//! Keeps one connection to a server, and replaces it when it died or went silent. A silent connection stays
//! in use until a new one has been answered: requests on one connection are executed in their order, and
//! recipes rely on that (a release must not overtake its lost acquire).

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Time of the first attempt to connect. Each failure doubles it, to reach a slow network, too.
const DIAL_TIMEOUT_MIN: Duration = Duration::from_millis(300);
const DIAL_TIMEOUT_MAX: Duration = Duration::from_millis(2400);
/// Rest after a failed attempt: short, so that a server that returns is used at once.
const DIAL_REST: Duration = Duration::from_millis(25);
/// A new connection is not replaced for this long: a server that ends connections at once is not hammered.
const TRIAL: Duration = Duration::from_millis(100);

/// A connection that is kept up.
pub struct Reconnecting<C> {
    current: watch::Receiver<Option<Connected<C>>>,
    doubt: Arc<Notify>,
    failure: watch::Receiver<Option<Arc<std::io::Error>>>,
}

/// One connection of a [`Reconnecting`]. Clones are the same connection.
#[derive(Clone)]
pub struct Connected<C> {
    connection: C,
    dead: Arc<AtomicBool>,
}

impl<C> Connected<C> {
    /// Nothing more can be sent on it.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }
}

impl<C> Deref for Connected<C> {
    type Target = C;
    fn deref(&self) -> &C {
        &self.connection
    }
}

impl<C: Clone + Send + Sync + 'static> Reconnecting<C> {
    /// Begins to connect. `dial` opens a connection that answers, and a future that drives it until it dies.
    pub fn open<Dial, Dialled, Driver>(dial: Dial) -> Reconnecting<C>
    where
        Dial: Fn() -> Dialled + Send + 'static,
        Dialled: Future<Output = std::io::Result<(C, Driver)>> + Send + 'static,
        Driver: Future<Output = ()> + Send + 'static,
    {
        let (publish, current) = watch::channel(None);
        let doubt = Arc::new(Notify::new());
        doubt.notify_one();
        let (failed, failure) = watch::channel(None);
        tokio::spawn(keep(dial, publish, failed, doubt.clone()));
        Reconnecting { current, doubt, failure }
    }

    pub fn current(&self) -> Option<Connected<C>> {
        self.current.borrow().as_ref().filter(|connected| !connected.is_dead()).cloned()
    }

    /// Why the latest attempt to connect failed; none while there is a connection, or no failure yet.
    pub fn failure(&self) -> Option<Arc<std::io::Error>> {
        self.current().is_none().then(|| self.failure.borrow().clone()).flatten()
    }

    pub async fn wait(&self, deadline: Instant) -> Option<Connected<C>> {
        if let Some(connected) = self.current() {
            return Some(connected);
        }
        let alive = |connected: &Option<Connected<C>>| {
            connected.as_ref().is_some_and(|connected| !connected.is_dead())
        };
        let mut current = self.current.clone();
        timeout_at(deadline, current.wait_for(alive)).await.ok()?.ok()?.clone()
    }

    /// A request on this connection was not answered in time: tries another connection beside it.
    pub fn doubt(&self, connected: &Connected<C>) {
        let is_current =
            self.current.borrow().as_ref().is_some_and(|current| Arc::ptr_eq(&current.dead, &connected.dead));
        if is_current {
            self.doubt.notify_one();
        }
    }
}

async fn keep<C, Dial, Dialled, Driver>(
    dial: Dial,
    publish: watch::Sender<Option<Connected<C>>>,
    failed: watch::Sender<Option<Arc<std::io::Error>>>,
    doubt: Arc<Notify>,
) where
    Dial: Fn() -> Dialled,
    Dialled: Future<Output = std::io::Result<(C, Driver)>>,
    Driver: Future<Output = ()> + Send + 'static,
{
    let generation = Arc::new(AtomicU64::new(0));
    loop {
        tokio::select! {
            () = doubt.notified() => {}
            () = publish.closed() => return,
        }
        let mut patience = DIAL_TIMEOUT_MIN;
        let (connection, driver) = loop {
            match timeout(patience, dial()).await {
                Ok(Ok(dialled)) => break dialled,
                Ok(Err(error)) => drop(failed.send_replace(Some(Arc::new(error)))),
                Err(_) => {}
            }
            if publish.is_closed() {
                return;
            }
            patience = (patience * 2).min(DIAL_TIMEOUT_MAX);
            sleep(DIAL_REST).await;
        };
        let dead = Arc::new(AtomicBool::new(false));
        let own = generation.fetch_add(1, Ordering::Relaxed) + 1;
        publish.send_replace(Some(Connected { connection, dead: dead.clone() }));
        let (doubt, generation) = (doubt.clone(), generation.clone());
        tokio::spawn(async move {
            driver.await;
            dead.store(true, Ordering::Relaxed);
            // The closing of a replaced connection is expected.
            if generation.load(Ordering::Relaxed) == own {
                doubt.notify_one();
            }
        });
        sleep(TRIAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use tokio::sync::oneshot;

    /// Gives connections 1, 2, 3, …; each dies when its sender is dropped.
    fn numbered() -> (Reconnecting<u32>, tokio::sync::mpsc::UnboundedReceiver<oneshot::Sender<()>>) {
        let (lives, deaths) = tokio::sync::mpsc::unbounded_channel();
        let count = Arc::new(AtomicU32::new(0));
        let server = Reconnecting::open(move || {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            let (life, death) = oneshot::channel();
            let _ = lives.send(life);
            async move {
                Ok((number, async move {
                    let _ = death.await;
                }))
            }
        });
        (server, deaths)
    }

    #[tokio::test(start_paused = true)]
    async fn a_dead_connection_is_replaced() {
        let (server, mut lives) = numbered();
        let soon = || Instant::now() + Duration::from_secs(5);
        let first = server.wait(soon()).await.expect("connects");
        assert_eq!(*first, 1);
        drop(lives.recv().await);
        while !first.is_dead() {
            sleep(DIAL_REST).await;
        }
        assert_eq!(*server.wait(soon()).await.expect("connects again"), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_doubted_connection_stays_until_another_answers() {
        let (server, _lives) = numbered();
        let first = server.wait(Instant::now() + Duration::from_secs(5)).await.expect("connects");
        server.doubt(&first);
        assert_eq!(*server.current().expect("still there"), 1);
        while *server.current().expect("never gone") == 1 {
            sleep(DIAL_REST).await;
        }
        assert!(!first.is_dead(), "requests in flight on the old connection may still be answered");
    }

    /// A connection that ends as soon as nothing holds it, as real ones do, must not set off another
    /// replacement when it has been replaced: two connections would replace each other without end.
    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_connection_that_was_replaced_replaces_no_other() {
        let count = Arc::new(AtomicU32::new(0));
        let dialled = count.clone();
        let server = Reconnecting::open(move || {
            dialled.fetch_add(1, Ordering::Relaxed);
            let (held, mut let_go) = tokio::sync::mpsc::channel::<()>(1);
            async move {
                Ok((held, async move {
                    let _ = let_go.recv().await;
                }))
            }
        });
        let first = server.wait(Instant::now() + Duration::from_secs(5)).await.expect("connects");
        server.doubt(&first);
        drop(first);
        sleep(10 * TRIAL).await;
        assert_eq!(count.load(Ordering::Relaxed), 2, "the first connection, and the one that replaced it");
    }
}
