//! Downloads over networks and from mirrors that misbehave: what is whole is taken, and nothing else.

use super::faulty_mirror::{FaultyMirror, Reply, Request};
use crate::debian::download::{Downloader, Failure, Limits, RemoteFile};
use crate::debian::settings::DownloadSettings;
use crate::debian::store::Store;
use sha2::{Digest, Sha256};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// No attempt ends because the machine is slow.
const PATIENT: Limits = Limits {
    connect: Duration::from_secs(60),
    silence: Duration::from_secs(60),
    tries: 3,
    pause: Duration::from_millis(1),
};

/// For a server that falls silent: soon over.
const IMPATIENT: Limits = Limits { silence: Duration::from_millis(400), ..PATIENT };

fn downloader(limits: Limits) -> Downloader {
    Downloader::new(&DownloadSettings::default(), limits).unwrap()
}

fn body() -> Vec<u8> {
    (0..200_000_u32).map(|number| (number * 7 % 251) as u8).collect()
}

fn file(address: String) -> RemoteFile {
    let hash = Sha256::digest(body()).iter().map(|byte| format!("{byte:02x}")).collect();
    RemoteFile { address, bytes: body().len() as u64, hash }
}

/// What came of a download from a server that answers so, and how many requests it took. The file is there
/// only if it is whole.
async fn tried(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (Result<(), Failure>, usize) {
    tried_within(PATIENT, answer).await
}

async fn tried_within(
    limits: Limits,
    answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> (Result<(), Failure>, usize) {
    let mirror = FaultyMirror::start(answer).await;
    let folder = tempfile::tempdir().unwrap();
    let got = fetched_within(limits, &mirror.url("debian/a.deb"), folder.path()).await;
    (got, mirror.requests())
}

async fn fetched(address: &str, folder: &Path) -> Result<(), Failure> {
    fetched_within(PATIENT, address, folder).await
}

async fn fetched_within(limits: Limits, address: &str, folder: &Path) -> Result<(), Failure> {
    let store = Store::open(folder.to_owned()).unwrap();
    let file = file(address.to_owned());
    let got =
        store.fetch(&downloader(limits), std::slice::from_ref(&file), &(Arc::new(|_: &str| {}) as _)).await;
    let place = folder.join(&file.hash);
    match &got {
        Ok(files) => assert_eq!(std::fs::read(&files[0]).unwrap(), body()),
        Err(_) => assert!(!place.exists(), "something that is not whole got the name of the file"),
    }
    got.map(drop)
}

fn unreachable(got: Result<(), Failure>, why: &str) {
    let failure = got.unwrap_err();
    assert!(matches!(&failure, Failure::Unreachable(text) if text.contains(why)), "{failure:?}");
}

fn wrong(got: Result<(), Failure>, why: &str) {
    let failure = got.unwrap_err();
    assert!(matches!(&failure, Failure::Wrong(text) if text.contains(why)), "{failure:?}");
}

#[tokio::test]
async fn a_good_mirror_is_asked_once() {
    let (got, requests) = tried(|request| Reply::good(&body(), request)).await;
    assert_eq!((got, requests), (Ok(()), 1));
}

#[tokio::test]
async fn a_download_that_is_cut_off_goes_on_from_there() {
    let (got, requests) = tried(|request| match request.number {
        0 => Reply::good(&body(), request).cut_after(70_000),
        _ => {
            assert!(request.from.is_some_and(|from| from > 0), "it begins anew");
            Reply::good(&body(), request)
        }
    })
    .await;
    assert_eq!((got, requests), (Ok(()), 2));
}

#[tokio::test]
async fn cuts_do_not_count_as_long_as_each_attempt_brings_something() {
    let (got, requests) = tried(|request| Reply::good(&body(), request).cut_after(20_000)).await;
    assert_eq!(got, Ok(()));
    assert!(requests >= 10, "{requests}");
}

#[tokio::test]
async fn a_mirror_that_never_begins_is_given_up_with_its_address() {
    let (got, requests) = tried(|request| Reply::good(&body(), request).cut_after(0)).await;
    assert_eq!(requests, 3);
    unreachable(got, "debian/a.deb: ");
}

#[tokio::test]
async fn silence_before_the_answer_and_in_the_middle_ends_the_attempt() {
    let (got, _) = tried_within(IMPATIENT, |_| Reply::raw("").then_silent()).await;
    unreachable(got, "no answer in time");
    // On a slow machine a good answer may be waited for in vain, too, and is asked for again.
    let limits = Limits { tries: u32::MAX, ..IMPATIENT };
    let (got, requests) = tried_within(limits, |request| match request.number {
        0 => Reply::good(&body(), request).cut_after(50_000).then_silent(),
        _ => Reply::good(&body(), request),
    })
    .await;
    assert_eq!(got, Ok(()));
    assert!(requests > 1, "the silent one was believed");
}

#[tokio::test]
async fn no_server_and_no_such_host_are_said() {
    let folder = tempfile::tempdir().unwrap();
    // A port that was just free.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    unreachable(fetched(&format!("http://127.0.0.1:{port}/a"), folder.path()).await, "refused");
    unreachable(fetched("http://no-such-host.invalid/a", folder.path()).await, "no-such-host.invalid");
}

#[tokio::test]
async fn a_mirror_that_cannot_go_on_begins_anew() {
    // It ignores the range; it gives another range; it refuses ranges.
    type Second = fn(&[u8]) -> Reply;
    let seconds: [Second; 3] = [
        Reply::whole,
        |body| Reply::part(body, 7),
        |_| Reply::status("416 Range Not Satisfiable", "Content-Range: bytes */200000\r\n"),
    ];
    for second in seconds {
        let (got, _) = tried(move |request| match (request.number, request.from) {
            (0, _) => Reply::whole(&body()).cut_after(70_000),
            (_, Some(_)) => second(&body()),
            (_, None) => Reply::whole(&body()),
        })
        .await;
        assert_eq!(got, Ok(()));
    }
}

#[tokio::test]
async fn errors_of_the_server_are_tried_again() {
    for status in ["500 Internal Server Error", "503 Service Unavailable", "429 Too Many Requests"] {
        let (got, requests) = tried(move |request| match request.number {
            0 | 1 => Reply::status(status, ""),
            _ => Reply::good(&body(), request),
        })
        .await;
        assert_eq!((got, requests), (Ok(()), 3), "{status}");
    }
    unreachable(tried(|_| Reply::status("503 Service Unavailable", "")).await.0, "503");
}

#[tokio::test]
async fn refusals_are_not_tried_again() {
    let (got, requests) = tried(|_| Reply::status("404 Not Found", "")).await;
    assert!(matches!(&got, Err(Failure::Missing(text)) if text.contains("404")), "{got:?}");
    assert_eq!(requests, 1);
    let (got, requests) = tried(|_| Reply::status("403 Forbidden", "")).await;
    unreachable(got, "may this machine use it");
    assert_eq!(requests, 1);
    unreachable(
        tried(|_| Reply::status("407 Proxy Authentication Required", "")).await.0,
        "the proxy wants a password",
    );
}

#[tokio::test]
async fn redirects_are_followed_but_not_for_ever() {
    let (got, _) = tried(|request| match request.path.as_str() {
        "/debian/a.deb" => Reply::status("302 Found", "Location: /elsewhere\r\n"),
        _ => Reply::good(&body(), request),
    })
    .await;
    assert_eq!(got, Ok(()));
    unreachable(
        tried(|_| Reply::status("302 Found", "Location: /debian/a.deb\r\n")).await.0,
        "without an end",
    );
}

#[tokio::test]
async fn another_file_than_the_list_says_is_never_used() {
    let (got, requests) = tried(|request| {
        let mut other = body();
        other[150_000] ^= 1;
        Reply::good(&other, request)
    })
    .await;
    wrong(got, "another file than Debian's signed list says");
    assert_eq!(requests, 2);
    wrong(tried(|request| Reply::good(&[body(), body()].concat(), request)).await.0, "larger than");
    unreachable(tried(|_| Reply::whole(&body()[..1000])).await.0, "of 200000 bytes");
    let page = "<html>Please log in</html>";
    unreachable(tried(move |_| Reply::whole(page.as_bytes())).await.0, "of 200000 bytes");
    unreachable(tried(|_| Reply::raw("SSH-2.0-OpenSSH\r\n")).await.0, "debian/a.deb");
}

#[tokio::test]
async fn what_an_earlier_run_left_is_used_only_where_it_fits() {
    let mirror = FaultyMirror::start(|request| Reply::good(&body(), request)).await;
    let file = file(mirror.url("a"));
    let garbage = vec![0; 100_000];
    for left in [&body()[..100_000], &body()[..], &garbage, &[body(), body()].concat()] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(format!("{}.part", file.hash)), left).unwrap();
        assert_eq!(fetched(&file.address, folder.path()).await, Ok(()), "{} bytes", left.len());
    }
}

#[tokio::test]
async fn a_download_that_is_given_up_goes_on_the_next_time() {
    let mirror = FaultyMirror::start(|request| match request.number {
        0 => Reply::good(&body(), request).cut_after(100_000).then_silent(),
        _ => {
            assert_eq!(request.from, Some(100_000));
            Reply::good(&body(), request)
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let address = mirror.url("a");
    let arrived = async {
        let bytes = |entry: std::fs::DirEntry| entry.metadata().map_or(0, |file| file.len());
        while std::fs::read_dir(folder.path()).unwrap().flatten().map(bytes).sum::<u64>() < 100_000 {
            tokio::task::yield_now().await;
        }
    };
    // As Ctrl-C does.
    tokio::select! {
        ended = fetched(&address, folder.path()) => panic!("it was not given up: {ended:?}"),
        () = arrived => {}
    }
    assert_eq!(fetched(&address, folder.path()).await, Ok(()));
}

#[tokio::test]
async fn a_full_disk_and_a_folder_that_cannot_be_written_to_are_said() {
    let mirror = FaultyMirror::start(|request| Reply::good(&body(), request)).await;
    let to = |place: &'static str| {
        let file = file(mirror.url("a"));
        async move { downloader(PATIENT).file(&file, Path::new(place), |_| ()).await.unwrap_err() }
    };
    for (place, why) in
        [("/dev/full", "the disk is full: No space left"), ("/proc/nowhere/a", "No such file")]
    {
        let failure = to(place).await;
        let said = failure.sentence();
        assert!(
            matches!(failure, Failure::Here(_)) && said.contains(why) && said.contains("FENCEPOST_CACHE"),
            "{said}"
        );
    }
}

/// No list makes a download of any size: what it says is looked at before anything is asked for.
#[tokio::test]
async fn a_file_without_an_end_is_not_asked_for() {
    let mirror = FaultyMirror::start(|request| Reply::good(&body(), request)).await;
    let folder = tempfile::tempdir().unwrap();
    let file = RemoteFile { bytes: 5 << 30, ..file(mirror.url("a")) };
    let got = downloader(PATIENT).file(&file, &folder.path().join("a"), |_| ()).await;
    wrong(got, "no file of Debian's is larger than 4 GiB");
    assert_eq!(mirror.requests(), 0);
}

#[tokio::test]
async fn a_proxy_that_is_set_is_asked_for_everything() {
    let proxy = FaultyMirror::start(|request| {
        assert_eq!(request.path, "no-such-host.invalid/debian/a.deb");
        Reply::good(&body(), request)
    })
    .await;
    let settings = DownloadSettings { proxy: Some(proxy.url("")), ..Default::default() };
    let folder = tempfile::tempdir().unwrap();
    let file = file("http://no-such-host.invalid/debian/a.deb".to_owned());
    let downloader = Downloader::new(&settings, PATIENT).unwrap();
    downloader.file(&file, &folder.path().join("a"), |_| ()).await.unwrap();
}

/// The server of the test speaks TLS with a certificate of its own, as a proxy does that looks into
/// connections.
#[tokio::test]
async fn a_certificate_that_is_not_trusted_is_said_once() {
    use rustls::ServerConfig;
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let certificate = CertificateDer::from_pem_slice(include_bytes!("own-certificate.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("own-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}/a", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = tokio_rustls::TlsAcceptor::from(config.clone()).accept(stream).await;
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let failure = fetched(&address, folder.path()).await.unwrap_err();
    assert!(failure.sentence().contains("SSL_CERT_FILE"), "{failure:?}");
}
