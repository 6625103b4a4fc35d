//! A read-write lock and a semaphore on one Redis, without a library but one for TLS: the holders are members
//! of a sorted set. Each member says how many may hold the lock beside it, and its score until when it holds
//! it, by the server's clock.

use fencepost_client::{Env, Error, Grant, Lock, Removal, TlsFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Removes holders whose time is over, and adds one if none of them, nor it, is then one too many.
const TAKE: &str = "local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
local most = tonumber(ARGV[2])
for _, holder in ipairs(redis.call('zrange', KEYS[1], 0, -1)) do
  most = math.min(most, tonumber(string.match(holder, '%d+')))
end
if redis.call('zcard', KEYS[1]) >= most then return 0 end
redis.call('zadd', KEYS[1], now + ARGV[3], ARGV[1])
return 1";

const ANY_NUMBER: u64 = 1_000_000_000;

struct RedisLock {
    env: Env,
    server: SocketAddr,
    /// None: the server speaks no TLS.
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// The member of the latest grant.
    value: String,
    grants: u64,
}

impl Lock for RedisLock {
    /// For a writer.
    fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        self.take(key, 1, ttl, timeout)
    }

    /// For a reader, of a lock with kind = "read-write".
    fn acquire_shared(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        self.take(key, ANY_NUMBER, ttl, timeout)
    }

    /// For one of the permits, of a lock with kind = "semaphore".
    fn acquire_permit(
        &mut self,
        key: &str,
        permits: u64,
        ttl: Duration,
        timeout: Duration,
    ) -> Result<Option<Grant>, Error> {
        self.take(key, permits, ttl, timeout)
    }

    fn release(&mut self, key: &str, timeout: Duration) -> Result<Removal, Error> {
        let reply = self.redis(timeout, &["ZREM", key, &self.value])?;
        Ok(Removal::from(reply == ":1"))
    }
}

impl RedisLock {
    /// A grant where fewer than `most` hold it, each of whom bears one more.
    fn take(&mut self, key: &str, most: u64, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        let env = self.env.clone();
        let (most_text, ttl_ms) = (most.to_string(), ttl.as_millis().to_string());
        let granted = env.poll(timeout, |left| {
            self.grants += 1;
            self.value = format!("{most}:{}-{}-{}", self.env.client, self.env.process, self.grants);
            let reply = self.redis(left, &["EVAL", TAKE, "1", key, &self.value, &most_text, &ttl_ms])?;
            Ok((reply == ":1").then(Grant::default))
        })?;
        match granted {
            Some(grant) => Ok(Some(grant)),
            None => Err(Error::NotAcquired("each attempt was answered with no".to_owned())),
        }
    }

    /// Sends one command on a connection of its own, after a login if there is a password, and returns the
    /// first line of the reply.
    fn redis(&self, timeout: Duration, words: &[&str]) -> Result<String, Error> {
        let stream = match TcpStream::connect_timeout(&self.server, timeout) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err(Error::Certain(format!("unreachable: nothing was sent: {error}")));
            }
            Err(error) => return Err(error.into()),
        };
        stream.set_read_timeout(Some(timeout))?;
        let mut stream: Box<dyn ReadWrite> = match &self.tls {
            None => Box::new(stream),
            Some((config, name)) => {
                let tls = ClientConnection::new(config.clone(), name.clone()).map_err(std::io::Error::other)?;
                Box::new(StreamOwned::new(tls, stream))
            }
        };
        let access = &self.env.access;
        let login = access.user.as_deref().zip(access.password.as_deref());
        let login = login.map(|(user, password)| request(&["AUTH", user, password]));
        stream.write_all((login.clone().unwrap_or_default() + &request(words)).as_bytes())?;
        stream.flush()?;
        let mut replies = BufReader::new(stream);
        let mut reply = String::new();
        if login.is_some() {
            replies.read_line(&mut reply)?;
            if reply != "+OK\r\n" {
                return Err(Error::Certain("unreachable: the server does not take the password".to_owned()));
            }
            reply.clear();
        }
        replies.read_line(&mut reply)?;
        match reply.trim() {
            "" => Err(Error::Unknown("the connection was closed before the reply".to_owned())),
            error if error.starts_with('-') => Err(Error::Certain(format!("refused: {error}"))),
            reply => Ok(reply.to_owned()),
        }
    }
}

/// A command, as it is sent.
fn request(words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    request
}

/// A connection, by TLS or without.
trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

/// What the handshake needs, from the files of the access.
fn tls(files: &TlsFiles) -> Result<Arc<ClientConfig>, Error> {
    let mut trusted = RootCertStore::empty();
    let ca = files.ca.as_deref().ok_or_else(|| Error::Certain("unreachable: there is no authority".to_owned()))?;
    for authority in CertificateDer::pem_file_iter(ca)? {
        trusted.add(authority?)?;
    }
    let config = ClientConfig::builder().with_root_certificates(trusted);
    Ok(Arc::new(match (&files.certificate, &files.key) {
        (Some(certificate), Some(key)) => {
            let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key)?)?
        }
        _ => config.with_no_client_auth(),
    }))
}

fn main() {
    fencepost_client::run(&[], |env: Env| {
        let (server, name) = (env.servers[0].address.parse()?, env.servers[0].tls_name.clone());
        let tls = match &env.access.tls {
            Some(files) => Some((tls(files)?, ServerName::try_from(name)?)),
            None => None,
        };
        Ok(RedisLock { env, server, tls, value: String::new(), grants: 0 })
    });
}
