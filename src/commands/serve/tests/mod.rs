//! What the server answers, and what it does not.

mod connections;

use super::*;
use crate::testing;
use axum::http::Method;
use axum::http::header::HOST;
use fencepost_checker::Outcome;
use fencepost_history::run::RunFolder;
use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

/// A results folder with some runs, some of them in a bad state.
fn results() -> tempfile::TempDir {
    let results = tempfile::tempdir().unwrap();
    let at = results.path();
    let put = |name: &str, outcome, started, lock: &str, nemesis: &str| {
        testing::run(at, name, outcome, |file| {
            (file.started, file.spec.lock) = (started, lock.to_owned());
            file.spec.nemesis = vec![nemesis.to_owned()];
        })
    };
    let broken = put("redlock-a", Some(Outcome::Violation), 300, "redlock", "clock-jump");
    fs::write(broken.join("report.html"), "<h1>report</h1>").unwrap();
    put("etcd-a", Some(Outcome::Valid), 200, "etcd", "pause");
    put("etcd-b", None, 100, "etcd", "kill");
    let cut = put("etcd-c", Some(Outcome::Valid), 90, "etcd", "kill");
    fs::write(cut.join("verdict.json"), "{\"outcome\":\"val").unwrap();
    fs::create_dir(at.join("damaged run")).unwrap();
    fs::write(at.join("damaged run/run.toml"), [0xff, 0xfe]).unwrap();
    fs::write(at.join("damaged run/<b>.log"), "x").unwrap();
    symlink("redlock-a", at.join("latest")).unwrap();
    results
}

fn serving(results: &FilePath) -> Router {
    router(Index::new(fs::canonicalize(results).unwrap()), Access::LocalName)
}

/// Status, headers as text, and the text of the answer.
async fn ask(router: &Router, method: Method, host: &str, path: &str) -> (u16, String, String) {
    let request = Request::builder().method(method).uri(path).header(HOST, host).body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let (status, headers) = (response.status().as_u16(), format!("{:?}", response.headers()));
    let body = axum::body::to_bytes(response.into_body(), 1 << 24).await.unwrap();
    (status, headers, String::from_utf8_lossy(&body).into_owned())
}

async fn text(router: &Router, path: &str) -> String {
    let (status, _, text) = ask(router, Method::GET, "localhost:7878", path).await;
    assert_eq!(status, 200, "{path}: {text}");
    text
}

/// The runs of a list, in its order.
fn listed(page: &str) -> Vec<String> {
    let rows = page.split("name=\"run\" value=\"").skip(1);
    rows.map(|row| row.split('"').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn lists_filters_and_sorts_runs() {
    let results = results();
    let router = serving(results.path());
    let list = async |wishes: &str| listed(&text(&router, &format!("/?{wishes}")).await);
    assert_eq!(list("").await, ["redlock-a", "etcd-a", "etcd-b", "etcd-c", "damaged run"]);
    assert_eq!(list("sort=started").await, ["damaged run", "etcd-c", "etcd-b", "etcd-a", "redlock-a"]);
    assert_eq!(list("sort=nemesis&lock=etcd").await, ["etcd-b", "etcd-c", "etcd-a"]);
    assert_eq!(list("lock=etcd&nemesis=pause").await, ["etcd-a"]);
    assert_eq!(list("verdict=violation").await, ["redlock-a"]);
    assert_eq!(list("verdict=not+judged").await, ["etcd-b", "etcd-c"]);
    assert_eq!(list("verdict=damaged").await, ["damaged run"]);
    assert_eq!(list("text=SEEN+etcd").await, ["etcd-a"]);
    assert_eq!(list("text=nowhere").await, Vec::<String>::new());
    assert_eq!(list("sort=nonsense&page=999").await.len(), 5);
    let asked = text(&router, "/?text=%3Cb%3E%22x").await;
    assert!(asked.contains("value=\"&lt;b&gt;&quot;x\""), "what is asked for is only text: {asked}");
}

#[tokio::test]
async fn new_changed_and_gone_runs_are_seen_at_the_next_look() {
    let results = results();
    let router = serving(results.path());
    assert_eq!(listed(&text(&router, "/").await).len(), 5);
    testing::run(results.path(), "new", Some(Outcome::Vacuous), |file| file.started = 400);
    fs::remove_dir_all(results.path().join("etcd-c")).unwrap();
    let judged = testing::run(results.path(), "elsewhere", Some(Outcome::Valid), |_| ()).join("verdict.json");
    fs::rename(judged, results.path().join("etcd-b/verdict.json")).unwrap();
    let now = text(&router, "/?sort=verdict").await;
    assert!(!listed(&now).contains(&"etcd-c".to_owned()));
    assert_eq!(listed(&text(&router, "/?verdict=vacuous").await), ["new"]);
    assert_eq!(listed(&text(&router, "/?verdict=valid").await), ["etcd-a", "etcd-b"]);
}

#[tokio::test]
async fn a_run_has_a_page_with_its_verdict_and_files() {
    let results = results();
    let router = serving(results.path());
    let page = text(&router, "/run/redlock-a").await;
    assert!(page.contains("/files/redlock-a/report.html") && page.contains("/files/redlock-a/logs/n1.log"));
    assert!(page.contains("seen in redlock-a"), "{page}");
    let damaged = text(&router, "/run/damaged%20run").await;
    assert!(
        damaged.contains("run.toml cannot be read") && damaged.contains("/files/damaged%20run/%3Cb%3E.log")
    );
    assert_eq!(text(&router, "/files/damaged%20run/%3Cb%3E.log").await, "x");
    assert!(text(&router, "/run/etcd-b").await.contains("no verdict.json"));
}

#[tokio::test]
async fn hunts_and_comparisons_are_listed() {
    let results = results();
    for (folder, page) in [("hunt-etcd-1", "hunt.html"), ("compare-1", "compare.html")] {
        fs::create_dir(results.path().join(folder)).unwrap();
        fs::write(results.path().join(folder).join(page), "found").unwrap();
    }
    let router = serving(results.path());
    let list = text(&router, "/").await;
    for address in ["/files/hunt-etcd-1/hunt.html", "/files/compare-1/compare.html"] {
        assert!(list.contains(&format!("href=\"{address}\"")), "{list}");
        assert_eq!(text(&router, address).await, "found");
    }
    assert_eq!(listed(&list).len(), 5, "they are no runs");
}

#[tokio::test]
async fn a_violation_is_called_what_the_report_calls_it() {
    let results = results();
    let verdict = results.path().join("redlock-a/verdict.json");
    let mut kept: serde_json::Value = serde_json::from_str(&fs::read_to_string(&verdict).unwrap()).unwrap();
    kept["harms"] = json!(["granted-twice"]);
    fs::write(&verdict, kept.to_string()).unwrap();
    let router = serving(results.path());
    for page in ["/?verdict=violation", "/run/redlock-a", "/compare?run=redlock-a"] {
        assert!(text(&router, page).await.contains("granted twice</span>"), "{page}");
    }
    assert_eq!(listed(&text(&router, "/?text=twice").await), ["redlock-a"]);
}

#[tokio::test]
async fn runs_stand_beside_each_other() {
    let results = results();
    let router = serving(results.path());
    let page = text(&router, "/compare?run=redlock-a&run=etcd-a&run=nowhere&run=damaged+run").await;
    assert!(
        page.contains("seen in redlock-a") && page.contains("seen in etcd-a") && page.contains("clock-jump")
    );
    assert!(page.contains("There is no run <code>nowhere</code>"), "{page}");
    assert!(text(&router, "/compare").await.contains("Choose some runs"));
}

#[tokio::test]
async fn files_have_types_and_a_sandbox() {
    let results = results();
    let router = serving(results.path());
    for (path, kind) in [
        ("redlock-a/report.html", "text/html; charset=utf-8"),
        ("latest/report.html", "text/html; charset=utf-8"),
        ("redlock-a/run.toml", "text/plain; charset=utf-8"),
        ("redlock-a/logs/n1.log", "text/plain; charset=utf-8"),
        ("redlock-a/verdict.json", "application/json"),
    ] {
        let (status, headers, _) = ask(&router, Method::GET, "[::1]:1", &format!("/files/{path}")).await;
        assert_eq!(status, 200, "{path}");
        assert!(headers.contains(kind) && headers.contains("nosniff"), "{headers}");
        // Scripts may run, and nothing else: no windows, forms, downloads, nor the origin of this server.
        let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; \
                      sandbox allow-scripts\"";
        assert!(headers.contains(policy), "{headers}");
    }
    let (_, headers, page) = ask(&router, Method::GET, "localhost", "/").await;
    assert!(headers.contains("default-src 'none'; script-src 'self' 'sha256-"), "{headers}");
    assert_eq!(
        page.matches("<script").count(),
        2,
        "the one that is known by its hash, and that of the server"
    );
}

#[tokio::test]
async fn no_path_leaves_the_results_folder() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let results = results();
    let at = results.path();
    fs::write(at.join("loose.txt"), "in the folder").unwrap();
    symlink(outside.path(), at.join("redlock-a/out")).unwrap();
    symlink(outside.path().join("secret"), at.join("redlock-a/secret.txt")).unwrap();
    symlink(outside.path(), at.join("out")).unwrap();
    symlink("/etc/passwd", at.join("redlock-a/logs/passwd.log")).unwrap();
    let router = serving(at);
    let secret = outside.path().join("secret");
    let paths = [
        "/files/../../etc/passwd",
        "/files/../secret",
        "/files/redlock-a/../../../etc/passwd",
        "/files/%2e%2e/%2e%2e/etc/passwd",
        "/files/..%2f..%2fetc%2fpasswd",
        "/files/redlock-a/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/files/%252e%252e/etc/passwd",
        "/files/..%5c..%5cetc%5cpasswd",
        "/files//etc/passwd",
        "/files/%2fetc%2fpasswd",
        "/files/redlock-a/secret.txt",
        "/files/redlock-a/out/secret",
        "/files/redlock-a/logs/passwd.log",
        "/files/out/secret",
        "/files/redlock-a/run.toml%00.html",
        "/files/redlock-a",
        "/files/redlock-a/",
        "/files/",
        "/run/out",
        "/run/..",
        "/run/%2e%2e",
        "/run/..%2f..%2fetc",
        "/run/redlock-a%2flogs",
        "/run/out/live",
        "/run/..%2f/live",
        "/etc/passwd",
        &format!("/files/{}", secret.display()),
    ];
    for path in paths {
        let (status, _, text) = ask(&router, Method::GET, "localhost", path).await;
        assert!(!text.contains("root:") && text != "secret", "{path} gives {text}");
        assert_eq!(status, 404, "{path}: {text}");
    }
    assert_eq!(text(&router, "/files/loose.txt").await, "in the folder");
    assert!(!text(&router, "/run/redlock-a").await.contains("secret.txt"), "links are not listed");
}

#[tokio::test]
async fn only_reads_and_only_by_names_of_this_machine() {
    let results = results();
    let router = serving(results.path());
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        for path in ["/", "/run/etcd-a", "/files/etcd-a/run.toml", "/compare"] {
            assert_eq!(ask(&router, method.clone(), "localhost", path).await.0, 405, "{method} {path}");
        }
    }
    assert_eq!(ask(&router, Method::GET, "attacker.example:7878", "/").await.0, 403);
    assert_eq!(ask(&router, Method::GET, "localhost.attacker.example", "/").await.0, 403);
    assert_eq!(ask(&router, Method::GET, "127.0.0.1:7878", "/").await.0, 200);
}

#[tokio::test]
async fn a_run_that_goes_on_shows_its_events_as_they_come() {
    let results = tempfile::tempdir().unwrap();
    let going = RunFolder::create(results.path(), &crate::testing::options().settings()).unwrap();
    going.write_run(&crate::testing::options().run_file(String::new())).unwrap();
    let router = serving(results.path());
    let name = going.path.file_name().unwrap().to_str().unwrap().to_owned();
    assert_eq!(listed(&text(&router, "/?verdict=running").await), std::slice::from_ref(&name));
    assert!(text(&router, &format!("/run/{name}")).await.contains(&format!("/run/{name}/live")));
    let live = async |from: &str| -> serde_json::Value {
        serde_json::from_str(&text(&router, &format!("/run/{name}/live{from}")).await).unwrap()
    };
    assert_eq!(live("").await, json!({ "running": true, "next": null, "events": [] }));
    let event =
        "{\"index\":0,\"time\":5,\"process\":1,\"type\":\"invoke\",\"f\":\"acquire\",\"value\":null}\n";
    fs::write(going.history(), format!("{event}{{\"index\":1,")).unwrap();
    let seen = live("").await;
    assert_eq!(
        (seen["events"][0]["f"].as_str(), seen["events"].as_array().unwrap().len()),
        (Some("acquire"), 1)
    );
    let next = seen["next"].as_u64().unwrap();
    assert_eq!(next, event.len() as u64);
    assert_eq!(live(&format!("?from={next}")).await["events"], json!([]));
    drop(going);
    // A program that another test starts right now holds a copy of the lock until it is loaded.
    while live("").await["running"] == json!(true) {
        tokio::task::yield_now().await;
    }
    assert_eq!(listed(&text(&router, "/?verdict=not+judged").await), [name]);
}

#[tokio::test]
async fn another_address_asks_for_the_token() {
    let results = results();
    let access = Access::on("192.0.2.1".parse().unwrap()).unwrap();
    let query = access.query();
    let router = router(Index::new(fs::canonicalize(results.path()).unwrap()), access);
    let (status, _, sentence) = ask(&router, Method::GET, "example.org", "/").await;
    assert_eq!(status, 403, "{sentence}");
    assert!(sentence.contains("ends with a token"));
    assert_eq!(ask(&router, Method::GET, "example.org", "/?token=0").await.0, 403);
    let (status, headers, _) = ask(&router, Method::GET, "example.org", &query).await;
    assert!(status == 303 && headers.contains("HttpOnly; SameSite=Strict"), "{headers}");
    let token = query.strip_prefix("/?").unwrap();
    let request = Request::builder().uri("/").header("cookie", format!("a=b; {token}"));
    let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn a_run_whose_files_are_links_or_pipes_is_shown_without_them() {
    let results = results();
    let secret = tempfile::NamedTempFile::new().unwrap();
    fs::write(secret.path(), "{\"secret\":1}\n").unwrap();
    let run = results.path().join("redlock-a");
    fs::remove_file(run.join("history.jsonl")).unwrap();
    symlink(secret.path(), run.join("history.jsonl")).unwrap();
    fs::remove_file(results.path().join("etcd-a/verdict.json")).unwrap();
    let pipe = results.path().join("etcd-a/verdict.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let router = serving(results.path());
    assert!(!text(&router, "/run/redlock-a/live").await.contains("secret"));
    assert!(text(&router, "/run/etcd-a").await.contains("not a regular file"));
    assert_eq!(listed(&text(&router, "/").await).len(), 5);
}

#[tokio::test]
async fn what_lies_among_the_runs_and_is_no_folder_is_no_run_and_is_not_waited_for() {
    let results = results();
    let pipe = results.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::write(results.path().join("loose.txt"), "in the folder").unwrap();
    symlink("pipe", results.path().join("to-a-pipe")).unwrap();
    let router = serving(results.path());
    for name in ["pipe", "loose.txt", "to-a-pipe"] {
        for path in [format!("/run/{name}"), format!("/run/{name}/live")] {
            assert_eq!(ask(&router, Method::GET, "localhost", &path).await.0, 404, "{path}");
        }
        let page = text(&router, &format!("/compare?run={name}&run=etcd-a")).await;
        assert!(page.contains(&format!("There is no run <code>{name}</code>")), "{page}");
    }
    for name in ["pipe", "to-a-pipe"] {
        assert_eq!(ask(&router, Method::GET, "localhost", &format!("/files/{name}")).await.0, 404);
    }
    assert_eq!(listed(&text(&router, "/").await).len(), 5);
}

#[tokio::test]
async fn a_run_with_files_of_many_gigabytes_is_listed_and_says_why_it_cannot_be_read() {
    let results = results();
    let at = results.path();
    for file in ["etcd-a/verdict.json", "redlock-a/run.toml", "etcd-b/history.jsonl"] {
        fs::OpenOptions::new().write(true).open(at.join(file)).unwrap().set_len(40 << 30).unwrap();
    }
    let router = serving(at);
    let list = text(&router, "/").await;
    assert_eq!(listed(&list).len(), 5);
    assert_eq!(list.matches("it is longer than 64 MiB, which is the limit").count(), 2, "{list}");
    assert!(
        text(&router, "/run/etcd-a").await.contains("its verdict.json cannot be read: it is longer than")
    );
    // A line without an end is passed over piece by piece.
    assert!(text(&router, "/run/etcd-b/live?from=9").await.contains("\"next\":262153"));
    let long = "x".repeat(1 << 20);
    testing::run(at, "long", Some(Outcome::Valid), |file| file.spec.lock = long.clone());
    assert!(text(&router, "/").await.len() < 100_000, "rows are short");
}

#[tokio::test]
async fn a_run_that_began_after_the_year_9999_is_listed() {
    let results = results();
    testing::run(results.path(), "late", Some(Outcome::Valid), |file| file.started = i64::MAX as u64);
    let router = serving(results.path());
    let list = text(&router, "/").await;
    assert_eq!(listed(&list)[0], "late");
    assert!(list.contains("9999-12-31 23:59:59"), "{list}");
    assert!(text(&router, "/run/late").await.contains("seen in late"));
}

#[tokio::test]
async fn a_part_of_a_file_is_served_and_its_head() {
    let results = results();
    fs::write(results.path().join("redlock-a/report.html"), "0123456789").unwrap();
    let router = serving(results.path());
    let ask = async |method, range: &str| {
        let request =
            Request::builder().method(method).uri("/files/latest/report.html").header(HOST, "localhost");
        let request = request.header("range", range).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = axum::body::to_bytes(response.into_body(), 1 << 24).await.unwrap();
        (status, headers, String::from_utf8_lossy(&body).into_owned())
    };
    let (status, headers, text) = ask(Method::GET, "bytes=2-4").await;
    assert_eq!((status, text.as_str()), (206, "234"));
    assert_eq!(headers["content-range"], "bytes 2-4/10");
    assert!(headers.contains_key("last-modified"), "{headers:?}");
    assert_eq!(ask(Method::GET, "bytes=20-30").await.0, 416);
    let (status, headers, text) = ask(Method::HEAD, "bytes=0-").await;
    assert_eq!((status, text.as_str()), (206, ""));
    assert_eq!(headers["content-type"], "text/html; charset=utf-8");
}
