//! What a run makes so that its servers speak TLS (`--tls`) and ask for a password (`--auth`): certificates,
//! a user, a password. New for each run, and not from its seed: nothing judged depends on them.

use crate::access::{Access, Secret, TlsFiles};
use crate::options::Options;
use fencepost_cluster::{ClusterError, Node};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

/// The folder of these files in each node: in memory, of the node alone, where no fault of disks reaches.
pub(crate) const FOLDER: &str = "/run/access";
pub(crate) const USER: &str = "fencepost";

pub struct RunAccess {
    password: Option<Secret>,
    certificates: Option<Certificates>,
}

pub struct AccessFile {
    pub(crate) name: &'static str,
    pub(crate) content: String,
}

impl AccessFile {
    pub(crate) fn new(name: &'static str, content: impl Into<String>) -> AccessFile {
        AccessFile { name, content: content.into() }
    }
}

struct Certificates {
    ca: String,
    server: Certified,
    client: Certified,
}

struct Certified {
    certificate: String,
    key: String,
}

impl RunAccess {
    /// What these options ask for, for servers at these addresses; none for nothing. Errors: no certificates.
    pub fn make(options: &Options, addresses: &[Ipv4Addr]) -> Result<Option<RunAccess>, ClusterError> {
        if !options.tls && !options.auth {
            return Ok(None);
        }
        let password = options.auth.then(|| Secret::new(format!("{:032x}", rand::random::<u128>())));
        let certificates = options.tls.then(|| Certificates::make(addresses)).transpose();
        let certificates = certificates.map_err(|error| {
            ClusterError::new(format!("the certificates of --tls cannot be made: {error}"))
        })?;
        Ok(Some(RunAccess { password, certificates }))
    }

    pub fn of_client(&self) -> Access {
        let file = |name: &str| Some(format!("{FOLDER}/{name}"));
        Access {
            user: self.password.is_some().then(|| USER.to_owned()),
            password: self.password.clone(),
            tls: self.is_tls().then(|| TlsFiles {
                ca: file("ca.pem"),
                certificate: file("client.pem"),
                key: file("client.key"),
            }),
        }
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.certificates.is_some()
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_ref().map(Secret::reveal)
    }

    /// Writes what a client needs into its node. Errors: the node takes no files.
    pub async fn give_to_client(&self, node: &dyn Node) -> Result<(), ClusterError> {
        let certificates = self.certificates.iter().flat_map(|made| {
            [
                AccessFile::new("ca.pem", &made.ca),
                AccessFile::new("client.pem", &made.client.certificate),
                AccessFile::new("client.key", &made.client.key),
            ]
        });
        write(node, certificates.collect()).await?;
        if self.is_tls() {
            // libpq takes no key that others can read. Without this command, it says so itself.
            let _ =
                node.exec(&["chmod", "600", &format!("{FOLDER}/client.key")], Duration::from_secs(5)).await;
        }
        Ok(())
    }

    /// Writes what a server needs into its node; `own` are its kind's files. Errors: the node takes no files.
    pub async fn give_to_server(&self, node: &dyn Node, own: Vec<AccessFile>) -> Result<(), ClusterError> {
        self.give_to_client(node).await?;
        let mut files = own;
        if let Some(made) = &self.certificates {
            let Certified { certificate, key } = &made.server;
            files.push(AccessFile::new("server.pem", certificate));
            files.push(AccessFile::new("server.key", key));
            // ZooKeeper wants both in one file.
            files.push(AccessFile::new("server-all.pem", format!("{key}{certificate}")));
        }
        if let Some(password) = self.password() {
            files.push(AccessFile::new("user", USER));
            files.push(AccessFile::new("password", password));
        }
        write(node, files).await
    }

    /// Writes the access into a storage's node, for questions about sequencers. Gives the path.
    pub async fn give_to_storage(&self, node: &dyn Node) -> Result<String, ClusterError> {
        self.give_to_client(node).await?;
        let access = serde_json::to_string(&self.of_client()).map_err(|error| error.to_string())?;
        write(node, vec![AccessFile::new("access.json", access)]).await?;
        Ok(format!("{FOLDER}/access.json"))
    }
}

async fn write(node: &dyn Node, files: Vec<AccessFile>) -> Result<(), ClusterError> {
    for file in files {
        node.put(&format!("{FOLDER}/{}", file.name), file.content.as_bytes()).await?;
    }
    Ok(())
}

impl Certificates {
    /// They are valid for ever, so that no fault of clocks makes one expire.
    fn make(addresses: &[Ipv4Addr]) -> Result<Certificates, rcgen::Error> {
        let mut authority = named("Fencepost: the authority of one run");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut server = named("servers");
        server.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let addresses = addresses.iter().chain([&Ipv4Addr::LOCALHOST]);
        server.subject_alt_names =
            addresses.map(|address| rcgen::SanType::IpAddress(IpAddr::V4(*address))).collect();
        let mut client = named("clients");
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certified = |params: CertificateParams| {
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &authority)?;
            Ok::<_, rcgen::Error>(Certified { certificate: certificate.pem(), key: key.serialize_pem() })
        };
        let (server, client) = (certified(server)?, certified(client)?);
        Ok(Certificates { ca: authority.pem(), server, client })
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    // From Python 3.13 on, clients refuse a certificate that does not say which key signed it.
    params.use_authority_key_identifier_extension = true;
    params.distinguished_name.push(DnType::CommonName, name);
    params
}
