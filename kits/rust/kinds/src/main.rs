//! A lock of any kind on one Redis, without a library but one for TLS: the holders are members of a sorted
//! set. Each member says how many may hold the lock beside it, and its score until when it holds it, by the
//! server's clock.

use fencepost_client::{Env, Error, Grant, Lock, Removal, TlsFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Removes holders whose time is over; before the next two.
const CLEAN: &str = "local now = redis.call('time')
now = now[1] * 1000 + math.floor(now[2] / 1000)
for _, key in ipairs(KEYS) do redis.call('zremrangebyscore', key, '-inf', now) end
";

/// Adds a holder to each key if none of those there, nor it, is then one too many.
const TAKE: &str = "for _, key in ipairs(KEYS) do
  local most = tonumber(ARGV[2])
  for _, holder in ipairs(redis.call('zrange', key, 0, -1)) do
    most = math.min(most, tonumber(string.match(holder, '%d+')))
  end
  if redis.call('zcard', key) >= most then return 0 end
end
for _, key in ipairs(KEYS) do redis.call('zadd', key, now + ARGV[3], ARGV[1]) end
return 1";

/// Adds what a holder acquires again, for as long as it has the lock.
const TAKE_AGAIN: &str = "local score = redis.call('zscore', KEYS[1], ARGV[1])
return score and redis.call('zadd', KEYS[1], score, ARGV[2]) or 0";

const GIVE_BACK: &str = "local removed = 0
for _, key in ipairs(KEYS) do removed = removed + redis.call('zrem', key, ARGV[1]) end
return removed";

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
    /// For a writer, or the only holder.
    fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        self.take(&[key], 1, ttl, timeout)
    }

    /// For a reader, of a lock with kind = "read-write".
    fn acquire_shared(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        self.take(&[key], ANY_NUMBER, ttl, timeout)
    }

    /// For one of the permits, of a lock with kind = "semaphore".
    fn acquire_permit(
        &mut self,
        key: &str,
        permits: u64,
        ttl: Duration,
        timeout: Duration,
    ) -> Result<Option<Grant>, Error> {
        self.take(&[key], permits, ttl, timeout)
    }

    /// For all of these names, or none, of a lock with kind = "several".
    fn acquire_all(&mut self, keys: &[&str], ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        self.take(keys, 1, ttl, timeout)
    }

    /// For the holder once more, of a lock with kind = "reentrant".
    fn reenter(&mut self, key: &str, _ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        let again = format!("{}+", self.value);
        if self.script(timeout, &format!("{CLEAN}{TAKE_AGAIN}"), &[key], &[&self.value, &again])? == 0 {
            return Ok(None);
        }
        self.value = again;
        Ok(Some(Grant::default()))
    }

    /// Gives back what was acquired last, of a lock that is held more than once.
    fn leave(&mut self, key: &str, timeout: Duration) -> Result<Removal, Error> {
        if self.script(timeout, GIVE_BACK, &[key], &[&self.value])? == 0 {
            return Err(Error::NotHeld("its time was over".to_owned()));
        }
        self.value.pop();
        Ok(Removal::Unknown)
    }

    fn release(&mut self, key: &str, timeout: Duration) -> Result<Removal, Error> {
        self.release_all(&[key], timeout)
    }

    fn release_all(&mut self, keys: &[&str], timeout: Duration) -> Result<Removal, Error> {
        let removed = self.script(timeout, GIVE_BACK, keys, &[&self.value])?;
        Ok(Removal::from(removed == keys.len()))
    }
}

impl RedisLock {
    /// A grant where fewer than `most` hold each of these names, each of whom bears one more.
    fn take(&mut self, keys: &[&str], most: u64, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        let env = self.env.clone();
        let (most_text, ttl_ms) = (most.to_string(), ttl.as_millis().to_string());
        let script = format!("{CLEAN}{TAKE}");
        let granted = env.poll(timeout, |left| {
            self.grants += 1;
            self.value = format!("{most}:{}-{}-{}", self.env.client, self.env.process, self.grants);
            let taken = self.script(left, &script, keys, &[&self.value, &most_text, &ttl_ms])?;
            Ok((taken == 1).then(Grant::default))
        })?;
        match granted {
            Some(grant) => Ok(Some(grant)),
            None => Err(Error::NotAcquired("each attempt was answered with no".to_owned())),
        }
    }

    /// Runs a script, which gives a number: the reply is `:1`.
    fn script(&self, timeout: Duration, script: &str, keys: &[&str], words: &[&str]) -> Result<usize, Error> {
        let count = keys.len().to_string();
        let reply = self.redis(timeout, &[&["EVAL", script, &count][..], keys, words].concat())?;
        Ok(reply.trim_start_matches(':').parse()?)
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
