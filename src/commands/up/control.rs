//! The control port of `fencepost up`: HTTP with small JSON bodies (`openapi.json`), for shells and tests.

use super::standing::ControlFile;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get};
use fencepost_cluster::Node;
use fencepost_engine::{BadUsage, FaultReport, FaultState, FaultsByHand, Recording, Stop};
use serde_json::{Map, Value, json};
use std::fmt::Display;
use std::sync::Arc;
use tokio::net::TcpListener;

/// What the control port speaks about.
pub struct Controlled {
    pub faults: Arc<FaultsByHand>,
    pub nodes: Vec<Arc<dyn Node>>,
    pub recording: Option<Arc<Recording>>,
    /// What `GET /cluster` gives.
    pub about: Value,
    pub stop: Arc<Stop>,
}

/// What was wrong, in a word, for programs.
pub const NO_EFFECT: &str = "no-effect";
pub const REFUSED: &str = "refused";

/// Answers until it is dropped; `more` are pages that ask for the token, too.
pub async fn listen(
    listener: TcpListener,
    control: &ControlFile,
    controlled: Controlled,
    more: Router<Arc<Controlled>>,
) {
    let expected = format!("Bearer {}", control.token);
    let router = Router::new()
        .route("/cluster", get(cluster).delete(down))
        .route("/faults", get(faults).post(inject).delete(heal_all))
        .route("/faults/{id}", delete(heal))
        .merge(more)
        .fallback(|| async { error(StatusCode::NOT_FOUND, REFUSED, "there is no such page") })
        .with_state(Arc::new(controlled))
        .layer(middleware::from_fn(move |request: Request, next: Next| {
            let allowed = is_allowed(request.headers(), &expected);
            async move {
                match allowed {
                    true => next.run(request).await,
                    false => {
                        let sentence =
                            "the token is missing or wrong: it stands in the file that `fencepost up` names";
                        error(StatusCode::UNAUTHORIZED, REFUSED, sentence)
                    }
                }
            }
        }))
        .route(
            "/openapi.json",
            get(|| async { answer(StatusCode::OK, &include_str!("openapi.json").trim_end()) }),
        );
    // It never ends by itself.
    let _ = axum::serve(listener, router).await;
}

fn is_allowed(headers: &HeaderMap, expected: &str) -> bool {
    headers.get(AUTHORIZATION).is_some_and(|given| given.as_bytes() == expected.as_bytes())
}

pub type SharedControl = State<Arc<Controlled>>;

async fn cluster(State(control): SharedControl) -> Response {
    answer(StatusCode::OK, &control.about)
}

async fn down(State(control): SharedControl) -> Response {
    control.stop.interrupt();
    answer(StatusCode::ACCEPTED, &json!({}))
}

async fn faults(State(control): SharedControl) -> Response {
    answer(StatusCode::OK, &json!({"faults": control.faults.reports()}))
}

async fn inject(State(control): SharedControl, body: Bytes) -> Response {
    let keys: Map<String, Value> = match serde_json::from_slice(&body) {
        Ok(keys) => keys,
        Err(why) => {
            let sentence = format!(
                "the body is no JSON object, such as {{\"fault\": \"pause\", \"on\": [\"n1\"]}}: {why}"
            );
            return error(StatusCode::BAD_REQUEST, REFUSED, sentence);
        }
    };
    // The client may go away: the fault is still looked at.
    let injected = tokio::spawn(async move { inject_and_look(&control.faults, &keys).await });
    injected.await.unwrap_or_else(|why| error(StatusCode::INTERNAL_SERVER_ERROR, REFUSED, why))
}

/// A fault without an effect is healed: the test that injected it would show something else than it says.
async fn inject_and_look(faults: &FaultsByHand, keys: &Map<String, Value>) -> Response {
    let report = match faults.inject(keys).await {
        Ok(report) => report,
        Err(BadUsage { sentence, .. }) => return error(StatusCode::BAD_REQUEST, REFUSED, sentence),
    };
    let FaultReport { fault, on, state, .. } = &report;
    let what = format!("{fault} on {}", on.join(","));
    match (&report.error, state) {
        (Some(why), _) => error(StatusCode::CONFLICT, REFUSED, format!("{what} was not injected: {why}")),
        (None, FaultState::LeftOut | FaultState::Waiting) => {
            let why = "another fault of its kind is in force there, or no node plays the role";
            error(StatusCode::CONFLICT, REFUSED, format!("{what} was not injected: {why}"))
        }
        _ if !report.effective => {
            let _ = faults.heal(report.id).await;
            error(StatusCode::CONFLICT, NO_EFFECT, format!("{what} showed no effect, and was healed"))
        }
        _ => answer(StatusCode::OK, &json!(report)),
    }
}

async fn heal(State(control): SharedControl, Path(id): Path<String>) -> Response {
    let healed = match id.parse() {
        Ok(id) => control.faults.heal(id).await,
        Err(_) => Err(BadUsage::new(format!("{id} is no number of a fault"))),
    };
    match healed {
        Ok(report) => healed_or_not(std::slice::from_ref(&report), &json!(report)),
        Err(BadUsage { sentence, .. }) => error(StatusCode::NOT_FOUND, REFUSED, sentence),
    }
}

async fn heal_all(State(control): SharedControl) -> Response {
    let reports = control.faults.heal_all().await;
    healed_or_not(&reports, &json!({"faults": reports}))
}

fn healed_or_not(reports: &[FaultReport], body: &Value) -> Response {
    match reports.iter().find(|report| !report.is_over()) {
        None => answer(StatusCode::OK, body),
        Some(FaultReport { fault, on, error: why, .. }) => {
            let why = why.as_deref().unwrap_or("nothing says why");
            let sentence = format!("{fault} on {} could not be healed: {why}", on.join(","));
            error(StatusCode::INTERNAL_SERVER_ERROR, "not-healed", sentence)
        }
    }
}

pub fn error(status: StatusCode, kind: &str, sentence: impl Display) -> Response {
    answer(status, &json!({"error": sentence.to_string(), "kind": kind}))
}

pub fn answer(status: StatusCode, body: &dyn Display) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], format!("{body}\n")).into_response()
}
