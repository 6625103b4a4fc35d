//! Servers that exist already: used through doors, under a prefix of the run, with nothing left on them.

mod announcement;
mod hook;

use crate::settings::existing_options::{PASSWORD, Place};
use crate::settings::validation::RunSpec;
use crate::stop::Stop;
use announcement::PREFIX;
use anyhow::{Context, Result, anyhow, bail};
use async_trait::async_trait;
use fencepost_cluster::{ClusterError, Door, Node};
use fencepost_history::is_too_long;
use fencepost_history::run::read_bounded;
use fencepost_locks::protocol::Server;
use fencepost_locks::{Access, ExistingService, LockService, Secret, TlsFiles};
use fencepost_nemesis::{ExistingServers, HookAction, Readiness};
use futures_util::future::{join_all, try_join_all};
use nix::fcntl::OFlag;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

const ANSWER: Duration = Duration::from_millis(700);
const POLL: Duration = Duration::from_millis(50);

/// After this, what was still under way to a server has arrived there.
const SETTLED: Duration = Duration::from_millis(200);

/// The folder of the files of TLS, in the nodes of clients.
const FOLDER: &str = "/run/access";

const PASSWORD_MAX: u64 = 4096;

/// The longest file of certificates or of a key, in bytes.
const FILE_MAX: u64 = 1 << 20;

pub(crate) struct Existing {
    service: &'static LockService,
    servers: Vec<(Place, Server)>,
    access: Access,
    /// The words of the command for faults, with `{action}`, `{server}` and `{host}` in them.
    hook: Option<Vec<String>>,
    pub(crate) prefix: String,
}

impl Existing {
    /// The servers that these options name; none where the run starts its own. Errors: an unreadable file.
    pub(crate) async fn of(spec: &RunSpec, run: &str) -> Result<Option<Arc<Existing>>> {
        let options = &spec.options.existing;
        if !options.are_used() {
            return Ok(None);
        }
        let service = spec.lock.service;
        let places = options.places(service.port())?;
        let file = |path: &Option<PathBuf>| path.as_deref().map(readable).transpose();
        let tls = TlsFiles {
            ca: file(&options.servers_ca)?,
            certificate: file(&options.servers_certificate)?,
            key: file(&options.servers_key)?,
        };
        let access = Access {
            user: options.user(&places),
            password: password(options.password_file.as_deref()).await?,
            tls: places.iter().any(|place| place.tls).then_some(tls),
        };
        let servers = places.into_iter().enumerate().map(|(at, place)| {
            let tls_name = place.tls.then(|| place.host.trim_matches(['[', ']']).to_owned());
            let server = Server { name: format!("n{}", at + 1), address: place.to_string(), tls_name };
            (place, server)
        });
        let hook = options.hook_words()?;
        // Another machine may have a run of this name.
        let prefix = format!("{PREFIX}{run}-{:08x}/", rand::random::<u32>());
        Ok(Some(Arc::new(Existing { service, servers: servers.collect(), access, hook, prefix })))
    }

    fn service(&self) -> Result<&'static dyn ExistingService> {
        self.service.existing.ok_or_else(|| anyhow!("{} always starts its servers", self.service.name))
    }

    /// Checks, before anything is started, whether all servers are what the lock needs. Gives their versions,
    /// and the prefix, by which a user finds what a killed run left. Errors: which server is not, and why.
    pub(crate) async fn look(&self) -> Result<Vec<String>> {
        let service = self.service()?;
        let about = |server: &Server, rest: String| anyhow!("{} ({}) {rest}", server.name, server.address);
        let asked = self.servers.iter().map(|(_, server)| async move {
            let version = service.version(server, &self.access).await.map_err(|rest| about(server, rest))?;
            Ok::<_, anyhow::Error>(format!("{version} on {} ({})", server.name, server.address))
        });
        let mut said = try_join_all(asked).await?;
        said.push(format!("keys that begin with {}", self.prefix));
        for server in self.keepers(service) {
            let key = format!("{}tried", self.prefix);
            service.try_write(server, &self.access, &key).await.map_err(|rest| about(server, rest))?;
        }
        Ok(said)
    }

    /// Opens a door to each server, in these nodes in turn. The run ends with a door that closes by itself.
    pub(crate) async fn open_doors(&self, nodes: &[Arc<dyn Node>], stop: &Arc<Stop>) -> Result<JoinSet<()>> {
        let mut doors = JoinSet::new();
        for (node, (place, _)) in nodes.iter().zip(&self.servers) {
            let door = Door::open(node, self.service.port(), &place.to_string()).await?;
            let (name, stop) = (node.name().to_owned(), stop.clone());
            doors.spawn(async move {
                door.closed().await;
                stop.fail(format!(
                    "the way to the server {name} is gone: the program in its node ended; its log says why"
                ));
            });
        }
        Ok(doors)
    }

    /// What clients are to know of the servers, besides their addresses; none where there is nothing.
    pub(crate) fn access(&self) -> Option<Access> {
        let inside = |file: &Option<String>, name: &str| file.as_ref().map(|_| format!("{FOLDER}/{name}"));
        let tls = self.access.tls.as_ref().map(|files| TlsFiles {
            ca: inside(&files.ca, "ca.pem"),
            certificate: inside(&files.certificate, "client.pem"),
            key: inside(&files.key, "client.key"),
        });
        Some(Access { tls, ..self.access.clone() }).filter(|access| *access != Access::default())
    }

    pub(crate) fn tls_name(&self, server: &str) -> Option<String> {
        self.find(server).ok()?.1.tls_name.clone()
    }

    pub(crate) async fn put_files(&self, clients: &[Arc<dyn Node>]) -> Result<()> {
        let (Some(outside), Some(inside)) = (&self.access.tls, self.access().and_then(|access| access.tls))
        else {
            return Ok(());
        };
        let files = [
            (&outside.ca, &inside.ca),
            (&outside.certificate, &inside.certificate),
            (&outside.key, &inside.key),
        ];
        for (from, to) in files {
            let (Some(from), Some(to)) = (from, to) else { continue };
            let content = tokio::fs::read(from).await.with_context(|| format!("cannot read {from}"))?;
            try_join_all(clients.iter().map(|node| node.put(to, &content))).await?;
        }
        Ok(())
    }

    /// Removes the keys of the run. Gives a sentence for each server on which that failed.
    pub(crate) async fn remove_keys(&self) -> Vec<String> {
        let Ok(service) = self.service() else { return Vec::new() };
        let removed = self.keepers(service).map(|server| async move {
            // Twice: a request may still have been under way.
            for pause in [Duration::ZERO, SETTLED] {
                sleep(pause).await;
                if let Err(rest) = service.remove(server, &self.access, &self.prefix).await {
                    return Some(format!(
                        "the keys of the run, which begin with {}, are still on {} ({}), which {rest}; remove them there",
                        self.prefix, server.name, server.address
                    ));
                }
            }
            None
        });
        join_all(removed).await.into_iter().flatten().collect()
    }

    /// The servers that have all keys between them.
    fn keepers(&self, service: &dyn ExistingService) -> impl Iterator<Item = &Server> {
        let count = if service.shares_keys() { 1 } else { self.servers.len() };
        self.servers.iter().take(count).map(|(_, server)| server)
    }

    fn find(&self, name: &str) -> Result<&(Place, Server), ClusterError> {
        let found = self.servers.iter().find(|(_, server)| server.name == name);
        found.ok_or_else(|| ClusterError::new(format!("there is no server {name}")))
    }
}

#[async_trait]
impl ExistingServers for Existing {
    async fn act(&self, server: &str, action: HookAction) -> Result<(), ClusterError> {
        let (place, _) = self.find(server)?;
        match &self.hook {
            Some(words) => hook::call(words, place, action).await,
            None => Err(ClusterError::new(format!("no --server-hook can {} {server}", action.name()))),
        }
    }

    async fn answers(&self, server: &str) -> bool {
        let (Ok((_, server)), Some(service)) = (self.find(server), self.service.existing) else {
            return false;
        };
        matches!(timeout(ANSWER, service.version(server, &self.access)).await, Ok(Ok(_)))
    }

    async fn connect(&self, server: &str) -> std::io::Result<TcpStream> {
        let place = self.find(server).map_err(|error| std::io::Error::other(error.0))?.0.to_string();
        timeout(ANSWER, TcpStream::connect(place)).await?
    }
}

#[async_trait]
impl Readiness for Existing {
    async fn await_serving(&self, server: &str) -> Result<(), ClusterError> {
        while self.find(server).is_ok() && !self.answers(server).await {
            sleep(POLL).await;
        }
        Ok(())
    }
}

/// The path of a file that can be read, as often as it is needed.
fn readable(path: &Path) -> Result<String> {
    // A pipe without a writer would be waited for.
    let opened = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file =
        opened.and_then(|file| file.metadata()).with_context(|| format!("cannot read {}", path.display()))?;
    if !file.is_file() || file.len() > FILE_MAX {
        bail!(
            "cannot read {}: certificates and keys are regular files of at most {} MiB, which are read more than once",
            path.display(),
            FILE_MAX >> 20
        );
    }
    let path = std::path::absolute(path)?;
    path.into_os_string().into_string().map_err(|path| anyhow!("the path {} is no text", path.display()))
}

/// The password, from the file or else from the environment; none where neither has one.
async fn password(file: Option<&Path>) -> Result<Option<Secret>> {
    let set = std::env::var(PASSWORD).ok().filter(|password| !password.is_empty());
    let Some(file) = file else { return Ok(set.map(Secret::new)) };
    if set.is_some() {
        bail!(
            "there are two passwords, in {PASSWORD} and in --password-file {}; leave one out",
            file.display()
        );
    }
    let cannot = || format!("cannot read the password file {}", file.display());
    let (to, read) = tokio::sync::oneshot::channel();
    let path = file.to_owned();
    // A thread that nothing waits for: a pipe may have no end, and the run is to end at a signal.
    let reading = move || drop(to.send(read_bounded(&path, PASSWORD_MAX)));
    std::thread::Builder::new().spawn(reading).with_context(cannot)?;
    let text = match read.await.with_context(cannot)? {
        Err(error) if is_too_long(&error) => String::new(),
        read => read.with_context(cannot)?,
    };
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Some(Secret::new(line))),
        _ => bail!(
            "the password file {} has no password in its first line, or more than {PASSWORD_MAX} bytes",
            file.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;

    #[tokio::test]
    async fn a_password_is_read_within_a_limit_and_from_a_pipe_until_it_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "hunter2\nmore\n").unwrap();
        assert_eq!(password(Some(&file)).await.unwrap(), Some(Secret::new("hunter2")));
        let endless = password(Some(Path::new("/dev/zero"))).await.unwrap_err().to_string();
        assert!(endless.contains("no password in its first line, or more than 4096 bytes"), "{endless}");
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        let waited = futures_util::FutureExt::now_or_never(password(Some(&pipe)));
        assert!(waited.is_none(), "it waits, and can be given up");
        let writing = {
            let pipe = pipe.clone();
            tokio::task::spawn_blocking(move || std::fs::write(pipe, "hunter2\n"))
        };
        // The reader that was given up may have taken it.
        writing.await.unwrap().unwrap();
    }

    #[test]
    fn a_certificate_on_a_pipe_or_without_an_end_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
        for path in [&*pipe, Path::new("/dev/zero"), folder.path()] {
            let refused = readable(path).unwrap_err().to_string();
            assert!(refused.contains("are regular files of at most 1 MiB"), "{refused}");
        }
        let long = folder.path().join("long");
        File::create(&long).unwrap().set_len(FILE_MAX + 1).unwrap();
        assert!(readable(&long).is_err());
        assert!(readable(Path::new("/etc/passwd")).is_ok());
    }
}
