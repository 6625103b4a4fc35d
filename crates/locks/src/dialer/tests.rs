//! What a client says of servers that it can never reach as it is set up, on real handshakes.

use super::*;
use crate::access::Secret;
use crate::services::redis::node::RedisDialer;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::UnixTime;
use rustls::server::WebPkiClientVerifier;
use std::path::Path;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key, both in PEM.
fn certified(by: &Authority, name: &str, shape: impl FnOnce(&mut CertificateParams)) -> (String, String) {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    shape(&mut params);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, by).unwrap().pem(), key.serialize_pem())
}

/// A server with this certificate, which wants one of the client by this authority; it never says anything.
async fn tls_server((certificate, key): &(String, String), clients: Option<&Authority>) -> Server {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let config = match clients {
        None => config.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    let _ = stream.read_u8().await;
                }
            });
        }
    });
    Server { name: "n1".to_owned(), address, tls_name: None }
}

/// A server that answers whatever it reads with this.
async fn plain_server(answer: &'static str) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut read = [0; 1024];
                while let Ok(length @ 1..) = stream.read(&mut read).await {
                    // Several commands may come at once, each of which begins with its count of words.
                    let commands = read[..length].iter().filter(|byte| **byte == b'*').count().max(1);
                    let _ = stream.write_all(answer.repeat(commands).as_bytes()).await;
                }
            });
        }
    });
    Server { name: "n1".to_owned(), address, tls_name: None }
}

fn file(folder: &Path, name: &str, content: &str) -> Option<String> {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    Some(path.to_str().unwrap().to_owned())
}

/// What a client says of the server that trusts this authority, and has a certificate of its own or none;
/// without the address, which differs from run to run.
async fn says(server: &Server, trusted: &Authority, own: Option<&(String, String)>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = own.map_or((None, None), |(certificate, key)| {
        (file(folder.path(), "client.pem", certificate), file(folder.path(), "client.key", key))
    });
    let ca = file(folder.path(), "ca.pem", &trusted.pem());
    let access = Access { tls: Some(TlsFiles { ca, certificate, key }), ..Access::default() };
    said(Dialer::new(Some(&access)).unwrap().check(std::slice::from_ref(server)).await, server)
}

fn said(checked: Result<(), ClientError>, server: &Server) -> String {
    match checked {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.to_string().replace(&server.address, "ADDRESS"),
    }
}

#[tokio::test]
async fn a_certificate_that_the_client_does_not_take_is_named_with_the_reason() {
    let (ours, foreign) = (authority(), authority());
    let good = certified(&ours, "127.0.0.1", |_| {});
    let expired = certified(&ours, "127.0.0.1", |params| params.not_after = date_time_ymd(2020, 1, 1));
    let early = certified(&ours, "127.0.0.1", |params| params.not_before = date_time_ymd(2500, 1, 1));
    let other = certified(&ours, "other.example", |_| {});
    for (certificate, trusted, expected) in [
        (&good, &ours, "ok"),
        (&good, &foreign, "n1 (ADDRESS) has a certificate of an authority that the client does not trust"),
        (&expired, &ours, "n1 (ADDRESS) has a certificate that has expired"),
        (&early, &ours, "n1 (ADDRESS) has a certificate that is not valid yet"),
        (&other, &ours, "n1 (ADDRESS) has a certificate for another name than 127.0.0.1"),
    ] {
        let server = tls_server(certificate, None).await;
        assert_eq!(says(&server, trusted, None).await, expected);
    }
    let named = Server { tls_name: Some("other.example".to_owned()), ..tls_server(&other, None).await };
    assert_eq!(says(&named, &ours, None).await, "ok");
}

#[tokio::test]
async fn a_certificate_without_names_is_named_with_the_remedy() {
    let ours = authority();
    let nameless = certified(&ours, "127.0.0.1", |params| params.subject_alt_names.clear());
    let server = tls_server(&nameless, None).await;
    let remedy = "issue one of version 3 with subjectAltName=IP:127.0.0.1 (openssl x509 -req takes it from a file by -extfile)";
    assert_eq!(
        says(&server, &ours, None).await,
        format!(
            "n1 (ADDRESS) has a certificate without a subjectAltName, and clients go by nothing else: {remedy}"
        )
    );
    // Made by `openssl x509 -req` without extensions, which no library for tests makes.
    let first_version = CertificateDer::from_pem_slice(VERSION_1.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(ours.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let refused = verifier.verify_server_cert(&first_version, &[], &name, &[], UnixTime::now()).unwrap_err();
    assert_eq!(
        tls_mistake(&server, &refused).unwrap(),
        format!("has a certificate of version 1, which cannot have a subjectAltName: {remedy}")
    );
}

const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBIzCBywIULkkAPz9+e1fCP8pGKpFK1wBa6UYwCgYIKoZIzj0EAwIwFDESMBAG
A1UEAwwJYXV0aG9yaXR5MCAXDTI2MTEyNzE3NTEzMVoYDzIxMjYxMTAzMTc1MTMx
WjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC
AATC5nrxqb32YoBc1ytAAMPHBQ94UDI6DKL26Qz8KooEryWmu2pop5qC1nRefGS/
JZl01Len9anO2IVfvpjIXs3iMAoGCCqGSM49BAMCA0cAMEQCIFVdaF6Tkt8fXEpa
Kf2yVA+ZyFw/iVa+c0iw0J74Jf4lAiAUAm7X6nDdwSpmytpZ1z5UCiIsYAK4AyPj
8ynmJPVeQw==
-----END CERTIFICATE-----";

#[tokio::test]
async fn a_server_that_does_not_take_the_clients_certificate_is_named() {
    let (ours, foreign) = (authority(), authority());
    let server = tls_server(&certified(&ours, "127.0.0.1", |_| {}), Some(&ours)).await;
    let client = |by| certified(by, "client", |_| {});
    assert_eq!(says(&server, &ours, Some(&client(&ours))).await, "ok");
    assert_eq!(
        says(&server, &ours, None).await,
        "n1 (ADDRESS) asks for a certificate of the client, and the client has none"
    );
    let refused = says(&server, &ours, Some(&client(&foreign))).await;
    assert!(refused.starts_with("n1 (ADDRESS) does not take the certificate of the client"), "{refused}");
}

#[tokio::test]
async fn a_client_that_speaks_otherwise_than_the_server_says_so() {
    let ours = authority();
    let plain = plain_server("-ERR unknown command\r\n").await;
    assert_eq!(says(&plain, &ours, None).await, "n1 (ADDRESS) does not speak TLS, and the client does");
    let tls = tls_server(&certified(&ours, "127.0.0.1", |_| {}), None).await;
    let plainly = Dialer::new(Some(&Access::default())).unwrap();
    let checked = plainly.check(std::slice::from_ref(&tls)).await;
    assert_eq!(said(checked, &tls), "n1 (ADDRESS) speaks TLS, and the client does not");
    assert!(plainly.check(&[plain]).await.is_ok());
}

#[tokio::test]
async fn a_password_that_a_redis_does_not_take_is_refused_in_one_sentence() {
    let words = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    let server = plain_server(words).await;
    let password = Some(Secret::new("secret-of-the-test"));
    let access = Access { user: Some("fencepost".to_owned()), password, tls: None };
    let servers = vec![server.clone()];
    let hello = Hello { servers, access: Some(access), ..Hello::default() };
    let dialer = RedisDialer::of(&hello).await.unwrap();
    let error = dialer.dial(&server).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    let sentence = error.to_string();
    assert!(sentence.starts_with("n1 (127.0.0.1:"), "{sentence}");
    assert!(sentence.contains(" does not take the password of the user fencepost"), "{sentence}");
    assert!(!sentence.contains("secret-of-the-test"), "{sentence}");
}

#[test]
fn a_file_of_the_access_that_cannot_be_used_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let with = |ca: Option<String>| {
        let tls = Some(TlsFiles { ca, ..TlsFiles::default() });
        Dialer::new(Some(&Access { tls, ..Access::default() })).map(drop).unwrap_err().to_string()
    };
    let empty = file(folder.path(), "empty.pem", "no certificate");
    assert!(with(empty).ends_with("empty.pem of the access: it has no certificate in PEM"));
    assert!(with(Some("/nowhere/ca.pem".to_owned())).starts_with("the file /nowhere/ca.pem of the access: "));
    assert!(with(None).contains("names no `ca`"));
}
