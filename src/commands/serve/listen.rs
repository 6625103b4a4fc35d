//! Takes connections: so many at a time, and none that keeps its place without asking for anything.

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at a time; more wait until one ends.
const CONNECTIONS_MAX: usize = 128;
/// How long a connection may take to send a request whole, and to begin the next.
const REQUEST: Duration = Duration::from_secs(10);
/// How long a connection may last: large files take a while on a slow line.
const CONNECTION: Duration = Duration::from_secs(600);
/// The rest after an accept that failed, because the process has too many open files, say.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Answers until it is dropped.
pub async fn listen(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        let router = router.clone();
        tokio::spawn(async move {
            answer(stream, router).await;
            drop(place);
        });
    }
}

/// Answers the requests of one connection.
pub async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    // By one version: while the version is still to be found out, no time is over.
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    // A program may close its direction once it has asked, and still wants the answer.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(REQUEST).half_close(true);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // A reader that goes away is no error of ours.
    let _ = tokio::time::timeout(CONNECTION, served).await;
}
