//! What programs report of their lock, and the verdict on it.

use super::control::{Controlled, REFUSED, SharedControl, answer, error};
use crate::output::say;
use crate::unwritten::with_files;
use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use fencepost_engine::BadUsage;
use fencepost_history::run::RunFolder;
use fencepost_report::{Judged, judge};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

/// What the control port answers of operations.
pub fn routes() -> Router<Arc<Controlled>> {
    Router::new().route("/operations", post(report))
}

async fn report(State(control): SharedControl, body: Bytes) -> Response {
    let Some(recording) = &control.recording else {
        let sentence =
            "what programs do is not recorded here: start the servers with `fencepost up --record`";
        return error(StatusCode::CONFLICT, REFUSED, sentence);
    };
    let read = serde_json::from_slice(&body).map_err(|why| {
        BadUsage::new(format!(
            "the body is no event, such as {{\"process\": \"w1\", \"type\": \"invoke\", \"f\": \"release\", \"key\": \"k\"}}: {why}"
        ))
    });
    match read.and_then(|event| recording.report(event)) {
        Ok(()) => answer(StatusCode::OK, &json!({})),
        Err(BadUsage { sentence, .. }) => error(StatusCode::BAD_REQUEST, REFUSED, sentence),
    }
}

/// Judges the folder of a recording as that of a run. Gives the exit code of the verdict.
pub fn verdict(folder: &Path, shown: bool) -> Result<i32> {
    let Judged { verdict, text, unwritten, .. } = judge(&RunFolder::open(folder)?)?;
    if shown {
        say!("{text}");
    }
    let code = i32::from(verdict.outcome.exit_code());
    Ok(with_files("the verdict", unwritten.map(Err), code))
}
