//! Servers that a test starts itself, on this machine and not in a node: for runs on servers that exist
//! already.

use super::nodes::state;
use super::waiting::await_until;
use fencepost_cluster::{DEFAULT_SUITE, DriverOptions, image_store};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// The secret of every server here, which must come out nowhere.
pub const PASSWORD: &str = "correct-horse-battery-staple";

/// A server, and a folder of its own. Both are gone with it.
pub struct ByHand {
    child: Child,
    _folder: tempfile::TempDir,
    pub port: u16,
}

impl Drop for ByHand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ByHand {
    fn start(port: u16, program: &str, arguments: &[String]) -> ByHand {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = program_of_root(program);
        command.args(arguments).current_dir(folder.path());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut server = ByHand { child: child.expect("the server starts"), _folder: folder, port };
        await_until(&format!("{program} listens"), || {
            let ended = server.child.try_wait().expect("it is ours");
            assert!(ended.is_none(), "{program} ended before it listened: {ended:?}");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        server
    }

    /// The process, for hooks.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// The letter of its state in /proc: `T` while it is stopped.
    pub fn state(&self) -> char {
        state(self.child.id()).expect("it runs")
    }

    /// A Redis that speaks plainly, and asks for no password.
    pub fn redis() -> ByHand {
        let port = free_port();
        let words = format!("--port {port} --bind 127.0.0.1 --save '' --appendonly no");
        ByHand::start(port, "redis-server", &split(&words))
    }

    /// A Redis that speaks TLS, and has the user `limited`, who has the rights that docs/your-own-cluster.md
    /// names, and the user `reader`, who may not write.
    pub fn redis_with_tls(tls: &Certificates) -> ByHand {
        let (port, folder) = (free_port(), tls.folder.path().display());
        let users = tls.folder.path().join("users.acl");
        let may = "+ping +info +client +auth +set +get +del +eval +scan +pexpire +incr +wait";
        let text = format!(
            "user default on >{PASSWORD} ~* &* +@all\nuser limited on >{PASSWORD} ~fencepost/* {may}\n\
             user reader on >{PASSWORD} ~fencepost/* +ping +info +client +auth +get +scan\n"
        );
        std::fs::write(&users, text).expect("a writable folder");
        let words = format!(
            "--port 0 --tls-port {port} --bind 127.0.0.1 --save '' --tls-cert-file {folder}/server.pem \
             --tls-key-file {folder}/server.key --tls-ca-cert-file {folder}/ca.pem --tls-auth-clients yes --aclfile {folder}/users.acl"
        );
        ByHand::start(port, "redis-server", &split(&words))
    }

    /// What this Redis holds, and how it is set up, as its administrator sees it.
    pub fn redis_dump(&self, tls: Option<&Certificates>) -> String {
        let mut command = self.redis_cli(tls);
        command.stderr(Stdio::null());
        let keys = "local all = redis.call('keys', '*'); table.sort(all); local found = {}; \
            for _, key in ipairs(all) do found[#found + 1] = key .. '=' .. redis.call('get', key) end; return found";
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("redis-cli starts");
        let orders = format!("EVAL \"{keys}\" 0\nCONFIG GET *\n");
        child.stdin.take().expect("piped").write_all(orders.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        String::from_utf8(output.stdout).expect("text")
    }

    fn redis_cli(&self, tls: Option<&Certificates>) -> Command {
        let mut command = program_of_root("redis-cli");
        command.args(["-p", &self.port.to_string()]);
        if let Some(tls) = tls {
            let file = |name: &str| tls.folder.path().join(name);
            command.arg("--tls").arg("--cacert").arg(file("ca.pem")).env("REDISCLI_AUTH", PASSWORD);
            command.arg("--cert").arg(file("client.pem")).arg("--key").arg(file("client.key"));
        }
        command
    }

    /// Sets a key that is not the run's.
    pub fn redis_set(&self, tls: Option<&Certificates>) {
        let set = self
            .redis_cli(tls)
            .args(["set", "fencepost-of-others", "precious"])
            .output()
            .expect("redis-cli starts");
        assert!(String::from_utf8_lossy(&set.stdout).contains("OK"), "{set:?}");
    }

    /// One member of etcd that speaks TLS, with a user `limited`, who may use keys under `fencepost/` alone,
    /// and the key of somebody else. The second number is the port of its gateway, without TLS, for the test.
    pub fn etcd_with_tls(tls: &Certificates) -> (ByHand, u16) {
        let (port, gateway, peer) = (free_port(), free_port(), free_port());
        let folder = tls.folder.path().display();
        let words = format!(
            "--data-dir data --listen-client-urls https://127.0.0.1:{port},http://127.0.0.1:{gateway} \
             --advertise-client-urls https://127.0.0.1:{port} --listen-peer-urls http://127.0.0.1:{peer} \
             --initial-advertise-peer-urls http://127.0.0.1:{peer} --initial-cluster default=http://127.0.0.1:{peer} \
             --cert-file {folder}/server.pem --key-file {folder}/server.key --trusted-ca-file {folder}/ca.pem \
             --bcrypt-cost 4"
        );
        let etcd = ByHand::start(port, "etcd", &split(&words));
        let order = |path: &str, body: &str| {
            let answer = ask_etcd(gateway, path, body, None);
            assert!(answer.contains("header"), "{path}: {answer}");
        };
        let serves = || ask_etcd(gateway, "kv/range", r#"{"key":"aw=="}"#, None).contains("header");
        await_until("etcd serves", serves);
        // `fencepost` and `fencepost-of-others`; the range from `fencepost/` to `fencepost0`.
        order("kv/put", r#"{"key":"ZmVuY2Vwb3N0LW9mLW90aGVycw==","value":"cHJlY2lvdXM="}"#);
        for (user, role) in [("root", "root"), ("limited", "limited")] {
            order("auth/user/add", &format!(r#"{{"name":"{user}","password":"{PASSWORD}"}}"#));
            order("auth/role/add", &format!(r#"{{"name":"{role}"}}"#));
            order("auth/user/grant", &format!(r#"{{"user":"{user}","role":"{role}"}}"#));
        }
        let may = r#"{"permType":"READWRITE","key":"ZmVuY2Vwb3N0Lw==","range_end":"ZmVuY2Vwb3N0MA=="}"#;
        order("auth/role/grant", &format!(r#"{{"name":"limited","perm":{may}}}"#));
        order("auth/enable", "{}");
        (etcd, gateway)
    }
}

/// All keys and values of etcd, as its administrator sees them.
pub fn etcd_dump(gateway: u16) -> String {
    let login = ask_etcd(
        gateway,
        "auth/authenticate",
        &format!(r#"{{"name":"root","password":"{PASSWORD}"}}"#),
        None,
    );
    let login: serde_json::Value = serde_json::from_str(&login).expect("a token");
    let token = login["token"].as_str().expect("a token");
    let all = ask_etcd(gateway, "kv/range", r#"{"key":"AA==","range_end":"AA=="}"#, Some(token));
    let all: serde_json::Value = serde_json::from_str(&all).expect("JSON");
    all["kvs"].to_string()
}

/// The body of the answer of etcd's gateway.
fn ask_etcd(gateway: u16, path: &str, body: &str, token: Option<&str>) -> String {
    let mut answer = String::new();
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", gateway)) else { return answer };
    let token = token.map(|token| format!("Authorization: {token}\r\n")).unwrap_or_default();
    let request = format!(
        "POST /v3/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{token}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
    match (answer.find('{'), answer.rfind('}')) {
        (Some(begin), Some(end)) => answer[begin..=end].to_owned(),
        _ => String::new(),
    }
}

/// An authority, and what it signed: files in PEM.
pub struct Certificates {
    pub folder: tempfile::TempDir,
}

impl Certificates {
    pub fn make() -> Certificates {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let write =
            |name: &str, text: String| std::fs::write(folder.path().join(name), text).expect("writable");
        let key = || KeyPair::generate().expect("a key");
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "the authority of a test");
        let authority = CertifiedIssuer::self_signed(authority, key()).expect("a certificate");
        write("ca.pem", authority.pem());
        for name in ["server", "client"] {
            let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
            let (params, key) = (CertificateParams::new(names).expect("names"), key());
            write(&format!("{name}.pem"), params.signed_by(&key, &authority).expect("a certificate").pem());
            write(&format!("{name}.key"), key.serialize_pem());
        }
        Certificates { folder }
    }

    /// The options by which a run uses them.
    pub fn options(&self) -> String {
        let folder = self.folder.path().display();
        format!(
            "--servers-ca {folder}/ca.pem --servers-certificate {folder}/client.pem --servers-key {folder}/client.key"
        )
    }
}

/// A port on which nothing listens. Not one that the kernel draws for connections: one of those may get it
/// before the server does.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = u16::try_from(std::process::id() % 10_000).expect("below 10,000");
    let ports = std::iter::repeat_with(|| 10_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000);
    let mut free = ports.filter(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok());
    free.next().expect("a free port")
}

fn split(words: &str) -> Vec<String> {
    words.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
}

/// A program of Debian's packages, with the libraries that it was built with, outside of any node.
fn program_of_root(name: &str) -> Command {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let options = DriverOptions::new().expect("this program's path");
        // A thread of its own: a test may have a runtime already.
        let made = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            let packages = ["redis-server", "redis-tools", "etcd-server"];
            runtime.block_on(image_store::root_with(&packages, DEFAULT_SUITE, &options))
        });
        let root = made.join().expect("no panic").expect("the packages of servers");
        // It stays for as long as this program.
        Box::leak(Box::new(root)).folder().to_owned()
    });
    let libraries = ROOT.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    let program = ROOT.join("usr/bin").join(name);
    // That of Go is static.
    if name == "etcd" {
        return Command::new(program);
    }
    let mut command = Command::new(loader(&libraries));
    command.arg("--library-path").arg(&libraries).arg(program);
    command
}

fn loader(libraries: &Path) -> PathBuf {
    let is_loader = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("ld-linux-") && name.contains(".so")
    };
    let files = std::fs::read_dir(libraries).expect("libraries").flatten().map(|entry| entry.path());
    files.into_iter().find(is_loader).expect("a loader of programs")
}
