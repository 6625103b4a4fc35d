//! Downloading files over HTTP: with retries, from where a cut left off, and never more than was asked for.

use super::pace::DownloadPace;
use super::settings::{DownloadSettings, Mirror};
use crate::ClusterError;
use crate::environment::certificates;
use crate::error::if_there;
use crate::hash::{content_hash, hex};
use reqwest::header::{CONTENT_RANGE, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, RequestBuilder, Response, StatusCode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many attempts there are in all, however well each begins.
const ATTEMPTS_MAX: u32 = 60;

/// The largest file that is downloaded, whatever a list says: no package of Debian's comes near it.
const BYTES_MAX: u64 = 4 << 30;

/// Timeouts and retries.
#[derive(Clone, Debug)]
pub struct Limits {
    pub connect: Duration,
    /// Without a single byte.
    pub silence: Duration,
    /// Attempts in a row that bring nothing.
    pub tries: u32,
    /// Before the second attempt; twice as long before each further one.
    pub pause: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: Duration::from_secs(15),
            silence: Duration::from_secs(30),
            tries: 4,
            pause: Duration::from_millis(500),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RemoteFile {
    pub(super) address: String,
    pub(super) bytes: u64,
    pub(super) hash: String,
}

/// Why something could not be downloaded, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The mirror answers, and has no such file.
    Missing(String),
    /// No answer, or none that is whole: another time it may be.
    Unreachable(String),
    /// What came is not what was asked for.
    Wrong(String),
    /// This machine cannot store it.
    Here(String),
}

impl Failure {
    pub(super) fn sentence(&self) -> &str {
        match self {
            Failure::Missing(text)
            | Failure::Unreachable(text)
            | Failure::Wrong(text)
            | Failure::Here(text) => text,
        }
    }
}

impl From<Failure> for ClusterError {
    fn from(failure: Failure) -> ClusterError {
        ClusterError::new(failure.sentence())
    }
}

enum DownloadAttempt {
    /// For a reason that may be gone the next time.
    Again(String),
    Never(Failure),
}

/// Downloads by the user's proxy and with this machine's certificates.
pub struct Downloader {
    client: Client,
    limits: Limits,
    mirror: Option<Mirror>,
}

impl Downloader {
    pub fn new(settings: &DownloadSettings, limits: Limits) -> Result<Downloader, ClusterError> {
        let cannot = |error: &dyn std::error::Error| {
            ClusterError::new(format!("cannot prepare downloads: {}", innermost(error)))
        };
        let mut builder = Client::builder()
            .user_agent(concat!("fencepost/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(limits.connect)
            .read_timeout(limits.silence)
            .redirect(Policy::limited(5))
            .tls_backend_preconfigured(tls().map_err(|error| cannot(&error))?);
        if let Some(proxy) = &settings.proxy {
            builder = builder.proxy(Proxy::all(proxy).map_err(|error| cannot(&error))?);
        }
        let client = builder.build().map_err(|error| cannot(&error))?;
        Ok(Downloader { client, limits, mirror: Mirror::find(settings).ok() })
    }

    fn get(&self, address: &str) -> RequestBuilder {
        let with_login = self.mirror.as_ref().and_then(|mirror| mirror.with_login(address));
        self.client.get(with_login.as_deref().unwrap_or(address))
    }

    /// A small file of whose size nothing is known.
    pub async fn text(&self, address: &str, bytes_max: usize) -> Result<Vec<u8>, Failure> {
        let (mut tries, mut pace) = (0, DownloadPace::from(Instant::now()));
        loop {
            tries += 1;
            match self.attempt_text(address, bytes_max, &mut pace).await {
                Ok(text) => return Ok(text),
                Err(attempt) => self.rest(address, attempt, tries).await?,
            }
        }
    }

    async fn attempt_text(
        &self,
        address: &str,
        bytes_max: usize,
        pace: &mut DownloadPace,
    ) -> Result<Vec<u8>, DownloadAttempt> {
        let response = self.get(address).send().await.map_err(|error| of_request(&error, address))?;
        let mut response = check_status(response, address)?;
        let mut text = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| of_request(&error, address))? {
            pace.came(chunk.len(), Instant::now(), address).map_err(too_slow)?;
            text.extend_from_slice(&chunk);
            if text.len() > bytes_max {
                return Err(DownloadAttempt::Never(Failure::Wrong(format!(
                    "{address} gives more than {bytes_max} bytes, which is no list of Debian's: is another server in between?"
                ))));
            }
        }
        Ok(text)
    }

    /// Downloads what is missing of a file, and checks it. `on_bytes` learns how much there is.
    pub(super) async fn file(
        &self,
        file: &RemoteFile,
        place: &Path,
        on_bytes: impl Fn(u64),
    ) -> Result<(), Failure> {
        if file.bytes > BYTES_MAX {
            return Err(Failure::Wrong(format!(
                "{} is said to have {} bytes, and no file of Debian's is larger than {} GiB: nothing of it is used",
                file.address,
                file.bytes,
                BYTES_MAX >> 30
            )));
        }
        let (mut tries, mut wrong, mut pace) = (0, 0, DownloadPace::from(Instant::now()));
        for _ in 0..ATTEMPTS_MAX {
            tries += 1;
            let before = length(place);
            if let Err(attempt) = self.attempt_file(file, place, &mut pace, &on_bytes).await {
                if length(place) > before {
                    tries = 0;
                }
                self.rest(&file.address, attempt, tries).await?;
                continue;
            }
            let hash = hash_of(place).await.map_err(cannot_store(place))?;
            if hash == file.hash {
                return Ok(());
            }
            remove(place)?;
            wrong += 1;
            // What a cut left may have been another file's beginning.
            if wrong == 2 {
                return Err(Failure::Wrong(format!(
                    "{} is another file than Debian's signed list says (SHA-256 {hash}, expected {}): the mirror is damaged or \
                     a server in between changes files; nothing of it is used",
                    file.address, file.hash
                )));
            }
        }
        Err(Failure::Unreachable(format!("{} was cut off {ATTEMPTS_MAX} times", file.address)))
    }

    async fn attempt_file(
        &self,
        file: &RemoteFile,
        place: &Path,
        pace: &mut DownloadPace,
        on_bytes: &impl Fn(u64),
    ) -> Result<(), DownloadAttempt> {
        let address = &file.address;
        let here = |error: io::Error| DownloadAttempt::Never(cannot_store(place)(error));
        let mut have = length(place);
        if have > file.bytes {
            remove(place).map_err(DownloadAttempt::Never)?;
            have = 0;
        }
        if have == file.bytes && have > 0 {
            return Ok(());
        }
        let mut request = self.get(address);
        if have > 0 {
            request = request.header(RANGE, format!("bytes={have}-"));
        }
        let response = request.send().await.map_err(|error| of_request(&error, address))?;
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE || !continues(&response, have) {
            remove(place).map_err(DownloadAttempt::Never)?;
            return Err(DownloadAttempt::Again("it does not go on where it was cut off".to_owned()));
        }
        let mut response = check_status(response, address)?;
        let goes_on = response.status() == StatusCode::PARTIAL_CONTENT;
        let mut to = OpenOptions::new();
        let mut to =
            to.create(true).write(true).append(goes_on).truncate(!goes_on).open(place).map_err(here)?;
        have = if goes_on { have } else { 0 };
        while let Some(chunk) = response.chunk().await.map_err(|error| of_request(&error, address))? {
            have += chunk.len() as u64;
            if have > file.bytes {
                drop(to);
                remove(place).map_err(DownloadAttempt::Never)?;
                return Err(DownloadAttempt::Never(Failure::Wrong(format!(
                    "{address} is larger than Debian's signed list says ({} bytes): the mirror is damaged or a server in between \
                     changes files; nothing of it is used",
                    file.bytes
                ))));
            }
            to.write_all(&chunk).map_err(here)?;
            on_bytes(have);
            pace.came(chunk.len(), Instant::now(), address).map_err(too_slow)?;
        }
        match have == file.bytes {
            true => Ok(()),
            false => Err(DownloadAttempt::Again(format!("it ended after {have} of {} bytes", file.bytes))),
        }
    }

    async fn rest(&self, address: &str, attempt: DownloadAttempt, tries: u32) -> Result<(), Failure> {
        match attempt {
            DownloadAttempt::Never(failure) => Err(failure),
            DownloadAttempt::Again(reason) if tries >= self.limits.tries => {
                Err(Failure::Unreachable(format!(
                    "cannot download {address}: {reason} ({tries} attempts); what was downloaded is kept, so try again, or set {} to \
                 another mirror",
                    super::settings::MIRROR
                )))
            }
            DownloadAttempt::Again(reason) => {
                log::debug!("{address}: {reason}");
                tokio::time::sleep(self.limits.pause * 2u32.pow(tries.min(6))).await;
                Ok(())
            }
        }
    }
}

fn tls() -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore::empty();
    let text = certificates().unwrap_or_default();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(text.as_bytes()).flatten());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn too_slow(sentence: String) -> DownloadAttempt {
    DownloadAttempt::Never(Failure::Unreachable(sentence))
}

/// Whether a partial answer begins where the file ends.
fn continues(response: &Response, have: u64) -> bool {
    let range =
        response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok()).unwrap_or_default();
    response.status() != StatusCode::PARTIAL_CONTENT || range.starts_with(&format!("bytes {have}-"))
}

fn check_status(response: Response, address: &str) -> Result<Response, DownloadAttempt> {
    let status = response.status();
    if status == StatusCode::OK || status == StatusCode::PARTIAL_CONTENT {
        return Ok(response);
    }
    let answer = format!("the answer was {status}");
    Err(match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            DownloadAttempt::Never(Failure::Missing(format!("cannot download {address}: {answer}")))
        }
        StatusCode::PROXY_AUTHENTICATION_REQUIRED => DownloadAttempt::Never(Failure::Unreachable(format!(
            "cannot download {address}: the proxy wants a password: give it in the proxy's address (http://USER:PASSWORD@HOST)"
        ))),
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => DownloadAttempt::Again(answer),
        _ if status.is_server_error() => DownloadAttempt::Again(answer),
        _ => DownloadAttempt::Never(Failure::Unreachable(format!(
            "cannot download {address}: {answer}; is the mirror's address right, and may this machine use it?"
        ))),
    })
}

/// What a failed request says: certificates do not become right by waiting.
fn of_request(error: &reqwest::Error, address: &str) -> DownloadAttempt {
    let reason = innermost(error);
    if error.is_redirect() {
        return DownloadAttempt::Never(Failure::Unreachable(format!(
            "cannot download {address}: it leads from one address to the next without an end"
        )));
    }
    if reason.contains("certificate") || reason.contains("UnknownIssuer") {
        return DownloadAttempt::Never(Failure::Unreachable(format!(
            "cannot download {address}: the server's certificate is not trusted here ({reason}); where a proxy puts its own in \
             place, set SSL_CERT_FILE to a file with the certificate of its authority"
        )));
    }
    DownloadAttempt::Again(if error.is_timeout() { format!("no answer in time ({reason})") } else { reason })
}

/// The reason lies at the bottom: no such host, refused, reset.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn length(place: &Path) -> u64 {
    fs::metadata(place).map_or(0, |it| it.len())
}

fn remove(place: &Path) -> Result<(), Failure> {
    if_there(fs::remove_file(place)).map_err(cannot_store(place))
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

pub(super) fn cannot_store(place: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| {
        let full = if is_full(&error) { "the disk is full: " } else { "" };
        Failure::Here(format!(
            "cannot store {}: {full}{error}; make room there, or set FENCEPOST_CACHE to a folder elsewhere",
            place.display()
        ))
    }
}

/// SHA-256, in hexadecimal digits.
pub(super) async fn hash_of(file: &Path) -> io::Result<String> {
    let file = file.to_owned();
    let hashed = tokio::task::spawn_blocking(move || content_hash(&file)).await;
    hashed.map_err(io::Error::other)?.map(|hash| hex(&hash))
}
