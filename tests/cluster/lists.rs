//! Real lists and packages, by way of a mirror that changes some of them. The rest comes from this machine's
//! mirror.

use crate::common::PATIENCE;
use crate::faulty_mirror::{FaultyMirror, Reply, Request};
use fencepost_cluster::for_tests::{
    Archive, Downloader, Downloads, FileLock, Limits, Mirror, Store, architecture, lock_blocking,
};
use fencepost_cluster::{ClusterError, DownloadSettings, Progress, Suite};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PACKAGE: &str = "hostname";

/// How a test changes a file on its way: none leaves it as it is.
type Change = dyn Fn(&str, Vec<u8>) -> Option<Reply> + Send + Sync;

/// A mirror that gives what the real one does, but for what is changed; and nothing while it is off.
async fn mirror(change: Arc<Change>, off: Arc<AtomicBool>) -> FaultyMirror {
    let settings = DownloadSettings::current();
    let real = Mirror::find(&settings).expect("this test needs a mirror of Debian: set FENCEPOST_MIRROR");
    FaultyMirror::serve(Arc::new(move |request: Request| {
        let (real, change, off) = (real.clone(), change.clone(), off.clone());
        Box::pin(async move {
            if off.load(Ordering::Relaxed) {
                return Reply::raw("");
            }
            let path = request.path.trim_start_matches('/');
            let (archive, rest) = path.split_once('/').unwrap_or_default();
            let Some(archive) = Archive::of_folder(archive) else {
                return Reply::status("404 Not Found", "");
            };
            let downloader = Downloader::new(&DownloadSettings::current(), Limits::default()).unwrap();
            match downloader.text(&real.address(archive, rest), 64 << 20).await {
                Ok(body) => change(path, body.clone()).unwrap_or_else(|| Reply::good(&body, &request)),
                Err(_) => Reply::status("404 Not Found", ""),
            }
        })
    }))
    .await
}

/// Where all tests keep packages, so that these come over the network once.
const STORE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/packages");

/// One test at a time: they share the store.
async fn turn() -> FileLock {
    lock_blocking(Path::new(STORE).with_extension("lock")).await.unwrap()
}

fn downloads<'a>(all: &Path, mirror: &FaultyMirror, progress: &'a Progress) -> Downloads<'a> {
    let settings = DownloadSettings { mirror: Some(mirror.url("debian")), ..Default::default() };
    let limits = Limits { connect: PATIENCE, silence: PATIENCE, tries: 2, pause: Duration::from_millis(1) };
    Downloads {
        mirror: Mirror::find(&settings).unwrap(),
        downloader: Downloader::new(&settings, limits).unwrap(),
        store: Store::open(STORE.into()).unwrap(),
        old_lists: false,
        all: all.to_owned(),
        progress,
    }
}

/// What comes of downloading a small package from a mirror with these changes.
async fn with(
    change: impl Fn(&str, Vec<u8>) -> Option<Reply> + Send + Sync + 'static,
) -> Result<Vec<PathBuf>, String> {
    let _turn = turn().await;
    let mirror = mirror(Arc::new(change), Arc::default()).await;
    let all = tempfile::tempdir().unwrap();
    let progress: Progress = Arc::new(|_| {});
    let suite = Suite::find("bookworm").unwrap();
    downloads(all.path(), &mirror, &progress).packages(suite, &[PACKAGE]).await.map_err(|error| error.0)
}

fn changed(body: &[u8], from: &str, to: &str) -> Option<Reply> {
    Some(Reply::whole(String::from_utf8_lossy(body).replacen(from, to, 1).as_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_debian_did_not_sign_are_refused() {
    let refused = with(|path, body| {
        path.ends_with("dists/bookworm/InRelease")
            .then(|| changed(&body, "Label: Debian", "Label: Debbian"))?
    });
    let refused = refused.await.unwrap_err();
    assert!(refused.contains("are not signed by Debian"), "{refused}");
}

/// Nothing that a list names is asked for, nor stored, unless Debian signed the list.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_unsigned_list_names_is_not_downloaded() {
    let _turn = turn().await;
    let asked = Arc::new(AtomicBool::new(false));
    let seen = asked.clone();
    let change = move |path: &str, body: Vec<u8>| {
        seen.fetch_or(path.contains("Packages") || path.contains("by-hash"), Ordering::Relaxed);
        path.ends_with("dists/bookworm/InRelease").then(|| changed(&body, "SHA256:\n", "SHA256:\n "))?
    };
    let mirror = mirror(Arc::new(change), Arc::default()).await;
    let all = tempfile::tempdir().unwrap();
    let progress: Progress = Arc::new(|_| {});
    let suite = Suite::find("bookworm").unwrap();
    let downloads = downloads(all.path(), &mirror, &progress);
    let refused = downloads.packages(suite, &[PACKAGE]).await.unwrap_err().0;
    assert!(refused.contains("are not signed by Debian"), "{refused}");
    assert!(!asked.load(Ordering::Relaxed), "it asked for what the list names");
    let lists = downloads.apt(suite).await.unwrap().lists();
    assert!(!lists.join("debian/dists/bookworm/InRelease").exists(), "the list was stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_suite_under_the_name_of_this_one_is_refused() {
    let settings = DownloadSettings::current();
    let real = Mirror::find(&settings).unwrap();
    let downloader = Downloader::new(&settings, Limits::default()).unwrap();
    let other =
        downloader.text(&real.address(Archive::Main, "dists/trixie/InRelease"), 8 << 20).await.unwrap();
    let refused =
        with(move |path, _| path.ends_with("dists/bookworm/InRelease").then(|| Reply::whole(&other))).await;
    let refused = refused.unwrap_err();
    assert!(refused.contains("serves another suite"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_packages_that_was_changed_is_refused() {
    let refused = with(|path, mut body| {
        let middle = body.len() / 2;
        path.contains("by-hash").then(|| {
            body[middle] ^= 1;
            Reply::whole(&body)
        })
    });
    let refused = refused.await.unwrap_err();
    assert!(refused.contains("another file than Debian's signed list says"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_without_lists_by_their_hashes_does() {
    let got = with(|path, _| path.contains("by-hash").then(|| Reply::status("404 Not Found", ""))).await;
    assert!(!got.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suite_that_has_moved_and_a_login_page_are_said() {
    let refused =
        with(|path, _| path.contains("dists/bookworm").then(|| Reply::status("404 Not Found", ""))).await;
    let refused = refused.unwrap_err();
    assert!(refused.contains("has no suite bookworm") && refused.contains("another archive"), "{refused}");
    let page =
        |path: &str, _: Vec<u8>| path.ends_with("InRelease").then(|| Reply::whole(b"<html>Log in</html>"));
    let refused = with(page).await.unwrap_err();
    assert!(refused.contains("login page"), "{refused}");
}

/// A mirror that has newer packages only: the pinned ones are gone, and this machine's own apt does their
/// work; without it a sentence says what to do.
#[tokio::test(flavor = "multi_thread")]
async fn packages_that_the_base_begins_with_can_be_gone() {
    let _turn = turn().await;
    let mirror = mirror(
        Arc::new(|path, _| path.contains("/apt_").then(|| Reply::status("404 Not Found", ""))),
        Arc::default(),
    );
    let mirror = mirror.await;
    let all = tempfile::tempdir().unwrap();
    let progress: Progress = Arc::new(|_| {});
    let mut downloads = downloads(all.path(), &mirror, &progress);
    // Not the one of the other tests, in which they are.
    downloads.store = Store::open(all.path().join("store")).unwrap();
    let got = downloads.packages(Suite::find("bookworm").unwrap(), &[PACKAGE]).await;
    match Path::new("/usr/bin/apt-get").exists() {
        true => assert!(!got.unwrap().is_empty()),
        false => assert!(got.unwrap_err().0.contains("use a newer Fencepost")),
    }
}

/// A mirror that changes just now says once of a file that it is missing: the pinned apt is used all the
/// same.
#[tokio::test(flavor = "multi_thread")]
async fn one_missing_file_does_not_bring_in_the_apt_of_this_machine() {
    let _turn = turn().await;
    let missing = Arc::new(AtomicBool::new(true));
    let once = move |path: &str, _: Vec<u8>| {
        let is_first = path.contains("/apt_") && missing.swap(false, Ordering::Relaxed);
        is_first.then(|| Reply::status("404 Not Found", ""))
    };
    let mirror = mirror(Arc::new(once), Arc::default()).await;
    let all = tempfile::tempdir().unwrap();
    let said: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let lines = said.clone();
    let progress: Progress = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
    let mut downloads = downloads(all.path(), &mirror, &progress);
    downloads.store = Store::open(all.path().join("store")).unwrap();
    downloads.apt(Suite::find("bookworm").unwrap()).await.unwrap();
    let said = said.lock().unwrap().join("\n");
    assert!(!said.contains("this machine's own apt"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_too_old_and_from_the_future_are_distinguished() {
    let _turn = turn().await;
    let mirror = mirror(Arc::new(|_, _| None), Arc::default()).await;
    let all = tempfile::tempdir().unwrap();
    let progress: Progress = Arc::new(|_| {});
    let downloads = downloads(all.path(), &mirror, &progress);
    let suite = Suite::find("bookworm").unwrap();
    let apt = downloads.apt(suite).await.unwrap();
    let settings = apt.lists().with_file_name("apt.conf");
    let usual = std::fs::read_to_string(&settings).unwrap();
    // As if the clock stood a year ahead, or behind.
    for (setting, why) in [
        ("Acquire::Max-ValidTime \"1\"", "too old"),
        ("Acquire::Max-FutureTime \"-1000000000\"", "from the future"),
    ] {
        std::fs::write(&settings, format!("{usual}{setting};\n")).unwrap();
        let refused: Result<bool, ClusterError> = downloads.refresh(&apt, suite, Duration::ZERO).await;
        let refused = refused.unwrap_err().0;
        assert!(refused.contains(why) && refused.contains("clock"), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_network_the_lists_and_packages_of_before_do() {
    let _turn = turn().await;
    let off = Arc::new(AtomicBool::new(false));
    let mirror = mirror(Arc::new(|_, _| None), off.clone()).await;
    let all = tempfile::tempdir().unwrap();
    let said: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let lines = said.clone();
    let progress: Progress = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
    let downloads = downloads(all.path(), &mirror, &progress);
    let suite = Suite::find("bookworm").unwrap();
    let first = downloads.packages(suite, &[PACKAGE]).await.unwrap();
    off.store(true, Ordering::Relaxed);
    // Within the hour the mirror is not asked.
    let requests = mirror.requests();
    assert_eq!(downloads.packages(suite, &[PACKAGE]).await.unwrap(), first);
    assert_eq!(mirror.requests(), requests);
    // Later it is asked in vain.
    let apt = downloads.apt(suite).await.unwrap();
    assert!(!downloads.refresh(&apt, suite, Duration::ZERO).await.unwrap());
    let said = said.lock().unwrap().join("\n");
    assert!(said.contains("the lists of packages of an earlier run are used"), "{said}");
    // And a package that is not there cannot be had.
    let missing = downloads.packages(suite, &["cowsay"]).await.unwrap_err().0;
    assert!(missing.contains("what was downloaded is kept"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_that_is_not_in_the_suite_is_named_with_the_suite_and_near_names() {
    let _turn = turn().await;
    let mirror = mirror(Arc::new(|_, _| None), Arc::default()).await;
    let all = tempfile::tempdir().unwrap();
    let progress: Progress = Arc::new(|_| {});
    let downloads = downloads(all.path(), &mirror, &progress);
    let refused =
        downloads.packages(Suite::find("bookworm").unwrap(), &["postgresql-17"]).await.unwrap_err().0;
    assert_eq!(refused, "Debian's suite bookworm has no package postgresql-17: there are postgresql-15");
    // One of another architecture is another package.
    let other = format!("hostname:{}", if architecture() == "amd64" { "arm64" } else { "amd64" });
    let refused = downloads.packages(Suite::find("bookworm").unwrap(), &[&other]).await.unwrap_err().0;
    assert!(refused.contains(&other), "{refused}");
}
