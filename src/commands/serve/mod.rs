//! `fencepost serve`: looking around in a results folder with a browser. Reads only, and shows nothing else.

mod access;
mod folder;
mod index;
mod listen;
mod pace;
mod pages;
mod places;
mod query;
#[cfg(test)]
mod tests;

use crate::output::{complain, say};
use crate::store::{Copied, follow};
use access::Access;
use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use clap::Args;
use fencepost_engine::BadUsage;
use fencepost_history::prose;
use fencepost_report::runs::{self, Run};
use folder::{inside, open_beneath};
use index::{Filter, Index, RunStatus, status};
use maud::html;
use query::Query;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tower::ServiceExt;
use tower_http::services::ServeFile;

/// Where to look, and where to listen.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Folder of all runs, or an object store: it is copied, and the copy is shown.
    #[arg(long, default_value = "results", value_name = "FOLDER|STORE")]
    pub results: PathBuf,
    /// Address and port to listen on; port 0 takes a free one. Any but a loopback address asks for a token.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    pub listen: SocketAddr,
}

/// Runs that are shown beside each other at most.
const BESIDE_MAX: usize = 20;

/// Shows the results folder until Ctrl-C.
pub fn serve(args: &ServeArgs) -> Result<i32> {
    let begun = Instant::now();
    let runtime = crate::runtime::runtime()?;
    let copied = Copied::of(&args.results)?;
    if let Some(copied) = &copied {
        runtime.block_on(copied.refresh())?;
    }
    let results = copied.as_ref().map_or(&args.results, |copied| &copied.folder);
    let cannot = BadUsage::cannot("read the results folder", &args.results);
    let index = Index::new(std::fs::canonicalize(results).map_err(&cannot)?);
    let contents = index.look().map_err(&cannot)?;
    let count = contents.runs.len();
    if let Some(copied) = copied {
        runtime.spawn(follow(copied));
    }
    let served = runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(args.listen)
            .await
            .with_context(|| format!("cannot listen on {}; choose another with --listen", args.listen))?;
        let address = listener.local_addr()?;
        say!("{}, looked through in {:.1} s", prose::count(count, "run"), begun.elapsed().as_secs_f64());
        let access = Access::on(address.ip())?;
        say!("http://{address}{}  (Ctrl-C ends it)", access.query());
        if let Access::Token(_) = access {
            complain!(
                "fencepost: {address} is reached from other computers; who has the address above can read all runs, and it is not \
                 encrypted on its way"
            );
        }
        let router = router(index, access);
        tokio::select! {
            () = listen::listen(listener, router) => {}
            interrupted = tokio::signal::ctrl_c() => interrupted?,
        }
        Ok(0)
    });
    // A request that hangs in a file system does not keep the program.
    runtime.shutdown_background();
    served
}

fn router(index: Index, access: Access) -> Router {
    let router = Router::new()
        .route("/", get(list))
        .route("/run/{name}", get(run))
        .route("/run/{name}/live", get(live))
        .route("/compare", get(compare))
        .route("/files/{*path}", get(file))
        .route("/serve.css", get(|| asset("text/css; charset=utf-8", include_str!("serve.css"))))
        .route("/serve.js", get(|| asset("text/javascript; charset=utf-8", include_str!("serve.js"))))
        .fallback(|| async { not_found() })
        .with_state(Arc::new(index));
    let check = move |request: Request, next: Next| access.clone().check(request, next);
    let router = router.layer(middleware::from_fn(check));
    router.layer(middleware::map_response(|mut response: Response| async {
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }))
}

type SharedIndex = State<Arc<Index>>;

async fn list(State(index): SharedIndex, Query(filter): Query<Filter>) -> Response {
    blocking(move || match index.look() {
        Ok(contents) => {
            let results = index.results.file_name().unwrap_or_default().to_string_lossy();
            page(StatusCode::OK, pages::list(&results, &contents, &filter))
        }
        Err(error) => {
            let sentence = format!("The results folder cannot be read: {error}.");
            page(StatusCode::INTERNAL_SERVER_ERROR, pages::error_page("No runs", &sentence))
        }
    })
    .await
}

/// The run of that name, if it is one and lies in the results folder. What is no folder is none.
fn find(index: &Index, name: &str) -> Option<Run> {
    let path = inside(&index.results, name).filter(|path| path.parent() == Some(&*index.results))?;
    runs::read(&path)
}

async fn run(State(index): SharedIndex, Path(name): Path<String>) -> Response {
    blocking(move || match find(&index, &name) {
        Some(run) => page(StatusCode::OK, pages::run(&run, &folder::files(&run.path))),
        None => not_found(),
    })
    .await
}

#[derive(Deserialize)]
struct LiveQuery {
    from: Option<u64>,
}

/// What has happened since: `{"state": "running", "next": 1234, "events": [...]}`.
async fn live(
    State(index): SharedIndex,
    Path(name): Path<String>,
    Query(LiveQuery { from }): Query<LiveQuery>,
) -> Response {
    blocking(move || {
        let Some(run) = find(&index, &name) else { return not_found() };
        let state = status(&run, |judgement| judgement.outcome);
        // Before the first event there is no history yet; after the last it may be compressed.
        let (lines, next) = match folder::new_lines(&run.path.join("history.jsonl"), from) {
            Ok(new) => (new.lines, Some(new.next)),
            Err(_) => (Vec::new(), from),
        };
        let events: Vec<serde_json::Value> =
            lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let running = state == RunStatus::Running;
        let answer = json!({ "running": running, "next": next, "events": events }).to_string();
        ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], answer).into_response()
    })
    .await
}

async fn compare(State(index): SharedIndex, Query(wishes): Query<Vec<(String, String)>>) -> Response {
    blocking(move || {
        let names = wishes.into_iter().filter(|(wish, _)| wish == "run").map(|(_, name)| name);
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for name in names.take(BESIDE_MAX) {
            match find(&index, &name) {
                Some(run) => found.push(run),
                None => missing.push(name),
            }
        }
        page(StatusCode::OK, pages::compare(&found, &missing))
    })
    .await
}

/// A file of the results folder. A report may draw what it likes, but reaches no other page: it is in a
/// sandbox, in which scripts run, and load and open nothing. Its links lead on in the same tab.
async fn file(State(index): SharedIndex, Path(path): Path<String>, request: Request) -> Response {
    const SANDBOX: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; \
         sandbox allow-scripts";
    let Some(opened) = open_beneath(&index.results, &path) else { return not_found() };
    let Ok(mime) = content_type(FilePath::new(&path)).parse() else { return not_found() };
    // The library opens files by path: this path is that of the open file, and ends with `opened`.
    let of_opened = format!("/proc/self/fd/{}", opened.as_raw_fd());
    let Ok(served) = ServeFile::new_with_mime(of_opened, &mime).oneshot(request).await;
    drop(opened);
    let mut response = served.map(Body::new);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// Texts are to be read in the browser, whatever they are called.
fn content_type(path: &FilePath) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" => "application/json",
        "jsonl" | "toml" | "log" | "txt" | "md" | "csv" | "edn" | "xml" | "sarif" => {
            "text/plain; charset=utf-8"
        }
        "gz" => "application/gzip",
        _ => "application/octet-stream",
    }
}

async fn asset(content_type: &'static str, text: &'static str) -> impl IntoResponse {
    ([(CONTENT_TYPE, content_type), (CACHE_CONTROL, "no-cache")], text)
}

/// Looking at folders takes a while: others are answered meanwhile.
async fn blocking(answer: impl FnOnce() -> Response + Send + 'static) -> Response {
    tokio::task::spawn_blocking(answer).await.unwrap_or_else(|_| {
        (StatusCode::INTERNAL_SERVER_ERROR, "this page could not be made").into_response()
    })
}

fn not_found() -> Response {
    page(StatusCode::NOT_FOUND, pages::error_page("Not found", "There is no such page, run or file here."))
}

/// An own page: its scripts are those of this server, and the one that every page carries.
fn page(status: StatusCode, text: String) -> Response {
    let policy = format!(
        "default-src 'none'; script-src 'self' '{}'; style-src 'self' 'unsafe-inline'; img-src data:; connect-src 'self'; \
         form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        script_hash()
    );
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, &policy),
        (CACHE_CONTROL, "no-store"),
    ];
    (status, headers, text).into_response()
}

/// What is answered to these bytes, sent over one connection: for the fuzzer.
pub async fn fuzz(results: &FilePath, sent: &[u8]) -> Vec<u8> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (ours, mut theirs) = tokio::io::duplex(1 << 20);
    let router = router(Index::new(results.to_owned()), Access::LocalName);
    let exchange = async {
        let mut answer = Vec::new();
        let _ = theirs.write_all(sent).await;
        let _ = theirs.shutdown().await;
        let _ = theirs.read_to_end(&mut answer).await;
        answer
    };
    let answering = async {
        listen::answer(ours, router, pace::Pace::default()).await;
        std::future::pending::<()>().await
    };
    let both = async {
        tokio::select! {
            answer = exchange => answer,
            () = answering => Vec::new(),
        }
    };
    // The time is the fuzzer's to limit: what takes longer is a hang.
    both.await
}

/// By which a browser knows the script that the shell of all pages carries.
fn script_hash() -> &'static str {
    static HASH: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    HASH.get_or_init(|| {
        let shell = fencepost_report::document("", html! {});
        let script = shell.split_once("<script>").and_then(|(_, rest)| rest.split_once("</script>"));
        let digest = Sha256::digest(script.map_or("", |(script, _)| script));
        format!("sha256-{}", base64::engine::general_purpose::STANDARD.encode(digest))
    })
}
