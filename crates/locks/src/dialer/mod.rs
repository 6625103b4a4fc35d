//! How a built-in client connects to servers, plainly or by TLS, and why a server cannot be reached so.

use crate::access::{Access, TlsFiles};
use crate::error::ClientError;
use crate::protocol::{Hello, Server};
use futures_util::future::join_all;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, ConfigBuilder, RootCertStore};
use std::error::Error as StdError;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub(crate) type Stream = Box<dyn Socket>;

pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

const PROBE: Duration = Duration::from_secs(1);
/// How long a server may take to refuse a certificate.
const REFUSAL: Duration = Duration::from_millis(200);

/// Opens connections as the hello says. Clones share what was read from files.
#[derive(Clone, Default)]
pub(crate) struct Dialer {
    pub(crate) access: Arc<Access>,
    tls: Option<Arc<ClientConfig>>,
}

impl Dialer {
    pub(crate) fn of(hello: &Hello) -> Result<Dialer, ClientError> {
        Dialer::new(hello.access.as_ref())
    }

    /// [`Dialer::of`], once servers that answer have shown that they speak so, where the hello has an access.
    /// Errors: a bad file of the access, or a server can never be reached so: a sentence about the first.
    pub(crate) async fn checked(hello: &Hello) -> Result<Dialer, ClientError> {
        let dialer = Dialer::of(hello)?;
        if hello.access.is_some() {
            dialer.check(&hello.servers).await?;
        }
        Ok(dialer)
    }

    pub(crate) fn new(access: Option<&Access>) -> Result<Dialer, ClientError> {
        let access = access.cloned().unwrap_or_default();
        let tls = access.tls.as_ref().map(config).transpose()?.map(Arc::new);
        Ok(Dialer { access: Arc::new(access), tls })
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// With this protocol named in the handshake: what speaks HTTP/2 wants that.
    pub(crate) fn speaking(mut self, protocol: &str) -> Dialer {
        if let Some(tls) = &mut self.tls {
            Arc::make_mut(tls).alpn_protocols = vec![protocol.as_bytes().to_vec()];
        }
        self
    }

    pub(crate) fn tls(&self) -> Option<ClientConfig> {
        self.tls.as_deref().cloned()
    }

    /// Connects, and does the handshake of TLS where that is wanted. Where the server can never be reached
    /// so, the error is a sentence that says why, of the kind [`ErrorKind::PermissionDenied`].
    pub(crate) async fn dial(&self, server: &Server) -> std::io::Result<Stream> {
        let stream = TcpStream::connect(&server.address).await?;
        stream.set_nodelay(true)?;
        self.secured(server, stream).await
    }

    /// [`Dialer::dial`] on a connection to the server.
    pub(crate) async fn secured(&self, server: &Server, stream: TcpStream) -> std::io::Result<Stream> {
        let Some(tls) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(tls_name(server).to_owned())
            .map_err(|_| denied(format!("`{}` is no name that a certificate can have", tls_name(server))))?;
        match TlsConnector::from(tls.clone()).connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => Err(explained(server, error)),
        }
    }

    /// Whether servers speak as this client does; silence shows nothing. Errors: the first that never will.
    pub(crate) async fn check(&self, servers: &[Server]) -> Result<(), ClientError> {
        let checks = servers.iter().map(|server| timeout(PROBE, self.check_one(server)));
        for checked in join_all(checks).await {
            if let Ok(Err(error)) = checked
                && error.kind() == ErrorKind::PermissionDenied
            {
                return Err(ClientError::Environment(error.to_string()));
            }
        }
        Ok(())
    }

    async fn check_one(&self, server: &Server) -> std::io::Result<()> {
        if !self.is_tls() {
            return match speaks_tls(&server.address).await? {
                true => Err(denied(format!("{} speaks TLS, and the client does not", place(server)))),
                false => Ok(()),
            };
        }
        let mut stream = self.dial(server).await?;
        // A server that does not take the certificate says so after the handshake; one that takes it waits.
        match timeout(REFUSAL, stream.read_u8()).await {
            Ok(Err(error)) => Err(explained(server, error)),
            _ => Ok(()),
        }
    }
}

pub(crate) fn tls_name(server: &Server) -> &str {
    let host = server.address.rsplit_once(':').map_or(&*server.address, |(host, _)| host);
    server.tls_name.as_deref().unwrap_or(host.trim_matches(['[', ']']))
}

pub(crate) fn place(server: &Server) -> String {
    match &*server.name {
        "" => server.address.clone(),
        name => format!("{name} ({})", server.address),
    }
}

fn denied(sentence: String) -> Error {
    Error::new(ErrorKind::PermissionDenied, sentence)
}

pub(crate) fn wrong_password(server: &Server, access: &Access, words: &str) -> Error {
    let place = place(server);
    denied(match (&access.user, &access.password) {
        (_, None) => format!("{place} asks for a password, and the client has none ({words})"),
        (Some(user), _) => format!("{place} does not take the password of the user {user} ({words})"),
        (None, _) => format!("{place} does not take the password ({words})"),
    })
}

fn config(files: &TlsFiles) -> Result<ClientConfig, ClientError> {
    let bad =
        |path: &str, why: String| ClientError::Environment(format!("the file {path} of the access: {why}"));
    let mut roots = RootCertStore::empty();
    let Some(ca) = &files.ca else {
        let why = "the access names no `ca`, and the built-in clients trust no other authority";
        return Err(ClientError::Environment(why.to_owned()));
    };
    for certificate in certificates(ca).map_err(|why| bad(ca, why))? {
        roots.add(certificate).map_err(|error| bad(ca, error.to_string()))?;
    }
    let config = trusting(roots).map_err(|error| ClientError::Environment(error.to_string()))?;
    let (Some(certificate), Some(key)) = (&files.certificate, &files.key) else {
        return Ok(config.with_no_client_auth());
    };
    let chain = certificates(certificate).map_err(|why| bad(certificate, why))?;
    let key_in = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, error.to_string()))?;
    config.with_client_auth_cert(chain, key_in).map_err(|error| bad(certificate, error.to_string()))
}

fn trusting(roots: RootCertStore) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots))
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err("it has no certificate in PEM".to_owned()),
        Ok(found) => Ok(found),
        Err(error) => Err(error.to_string()),
    }
}

/// With the sentence that a mistake in the set-up of TLS needs; any other error as it is.
pub(crate) fn explained(server: &Server, error: Error) -> Error {
    denial(server, &error).map_or(error, denied)
}

/// Why the server can never be reached so, where a connection failed by a mistake in the set-up of TLS.
pub(crate) fn denial(server: &Server, error: &(dyn StdError + 'static)) -> Option<String> {
    Some(format!("{} {}", place(server), tls_mistake(server, tls_error(error)?)?))
}

fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    if let Some(tls) = error.downcast_ref::<rustls::Error>() {
        return Some(tls);
    }
    // The source of an `io::Error` is that of the error in it, not the error itself.
    match error.downcast_ref::<Error>().and_then(Error::get_ref) {
        Some(inner) => tls_error(inner),
        None => error.source().and_then(tls_error),
    }
}

/// What is wrong, where it is the set-up and no fault.
fn tls_mistake(server: &Server, error: &rustls::Error) -> Option<String> {
    let name = tls_name(server);
    Some(match error {
        rustls::Error::InvalidMessage(_) => "does not speak TLS, and the client does".to_owned(),
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "has a certificate that has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "has a certificate that is not valid yet".to_owned()
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "has a certificate of an authority that the client does not trust".to_owned()
            }
            CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
                format!(
                    "has a certificate without a subjectAltName, and clients go by nothing else: {}",
                    remedy(name)
                )
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("has a certificate for another name than {name}")
            }
            // The library has no name for it in its own terms.
            CertificateError::Other(why) if why.to_string().starts_with("UnsupportedCertVersion") => {
                format!(
                    "has a certificate of version 1, which cannot have a subjectAltName: {}",
                    remedy(name)
                )
            }
            other => format!("has a certificate that the client does not take: {other}"),
        },
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "asks for a certificate of the client, and the client has none".to_owned()
        }
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied,
        ) => format!("does not take the certificate of the client ({error})"),
        rustls::Error::AlertReceived(_) | rustls::Error::PeerIncompatible(_) => {
            format!("and the client agree on no way to speak TLS ({error})")
        }
        _ => return None,
    })
}

fn remedy(name: &str) -> String {
    let kind = if name.parse::<std::net::IpAddr>().is_ok() { "IP" } else { "DNS" };
    format!(
        "issue one of version 3 with subjectAltName={kind}:{name} (openssl x509 -req takes it from a file by -extfile)"
    )
}

/// Whether what listens there answers the first message of TLS with one of TLS.
async fn speaks_tls(address: &str) -> std::io::Result<bool> {
    /// The types of records that a server's first one can be: an alert, or part of the handshake.
    const FIRST: [u8; 2] = [0x15, 0x16];
    let config = trusting(RootCertStore::empty()).map_err(Error::other)?.with_no_client_auth();
    let name = ServerName::try_from("localhost").map_err(Error::other)?;
    let mut hello = Vec::new();
    rustls::ClientConnection::new(Arc::new(config), name).map_err(Error::other)?.write_tls(&mut hello)?;
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(&hello).await?;
    let mut first = [0; 2];
    stream.read_exact(&mut first).await?;
    Ok(FIRST.contains(&first[0]) && first[1] == 3)
}

#[cfg(test)]
mod tests;
