//! Takes a limited number of connections, and drops those that neither ask nor take the answer in time.

use super::pace::{PATIENCE, Pace, Paced};
use super::places::Places;
use axum::Router;
use axum::extract::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tower::ServiceExt;

/// Connections at a time. One more waits until one ends; if one of them is slow, that is at once.
const CONNECTIONS_MAX: usize = 128;
/// How long a connection may last: large files take a while on a slow line.
const CONNECTION: Duration = Duration::from_secs(600);
/// The rest after an accept that failed, because the process has too many open files, say.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

pub async fn listen(listener: TcpListener, router: Router) {
    let places = Places::new(CONNECTIONS_MAX);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(AFTER_FAILURE).await;
            continue;
        };
        let place = places.take().await;
        let router = router.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = answer(stream, router, place.pace.clone()) => {}
                () = place.until_given_up() => {}
            }
        });
    }
}

pub async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    pace: Pace,
) {
    // By one version: while the version is still to be found out, no time is over.
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    // A program may close its direction once it has asked, and still wants the answer. The time for a request
    // is that of its head: a client that sends it byte by byte has no more.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE).half_close(true);
    let asked = pace.clone();
    let router = router.map_request(move |request: Request<_>| {
        asked.asked();
        request
    });
    let stream = TokioIo::new(Paced { stream, pace: pace.clone() });
    let served = builder.serve_connection(stream, TowerToHyperService::new(router));
    tokio::select! {
        // A reader that goes away is no error of ours.
        _ = tokio::time::timeout(CONNECTION, served) => {}
        () = pace.until_too_slow() => {}
    }
}
