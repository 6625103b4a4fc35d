//! A lock on one Redis: a key with a TTL, deleted only by the process that set it. Without any library.

use fencepost_client::{Env, Error, Grant, Lock, Removal};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const COMPARE_AND_DELETE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

struct RedisLock {
    env: Env,
    server: SocketAddr,
    /// Of the latest grant: no other has it.
    value: String,
    grants: u64,
}

impl Lock for RedisLock {
    fn acquire(&mut self, key: &str, ttl: Duration, timeout: Duration) -> Result<Option<Grant>, Error> {
        let env = self.env.clone();
        let ttl_ms = ttl.as_millis().to_string();
        let granted = env.poll(timeout, |left| {
            self.grants += 1;
            self.value = format!("{}-{}-{}", self.env.client, self.env.process, self.grants);
            let reply = self.redis(left, &["SET", key, &self.value, "NX", "PX", &ttl_ms])?;
            let grant = Grant { unique: Some(self.value.clone()), ..Grant::default() };
            Ok((reply == "+OK").then_some(grant))
        })?;
        match granted {
            Some(grant) => Ok(Some(grant)),
            None => Err(Error::NotAcquired("each SET was answered with no".to_owned())),
        }
    }

    fn release(&mut self, key: &str, timeout: Duration) -> Result<Removal, Error> {
        let reply = self.redis(timeout, &["EVAL", COMPARE_AND_DELETE, "1", key, &self.value])?;
        Ok(Removal::from(reply == ":1"))
    }
}

impl RedisLock {
    /// Sends one command on a connection of its own, and returns the first line of the reply.
    fn redis(&self, timeout: Duration, words: &[&str]) -> Result<String, Error> {
        let mut stream = match TcpStream::connect_timeout(&self.server, timeout) {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err(Error::Certain(format!("unreachable: nothing was sent: {error}")));
            }
            Err(error) => return Err(error.into()),
        };
        stream.set_read_timeout(Some(timeout))?;
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        stream.write_all(request.as_bytes())?;
        let mut reply = String::new();
        BufReader::new(stream).read_line(&mut reply)?;
        match reply.trim() {
            "" => Err(Error::Unknown("the connection was closed before the reply".to_owned())),
            error if error.starts_with('-') => Err(Error::Certain(format!("refused: {error}"))),
            reply => Ok(reply.to_owned()),
        }
    }
}

fn main() {
    fencepost_client::run(&[], |env: Env| {
        let server = env.servers[0].address.parse()?;
        Ok(RedisLock { env, server, value: String::new(), grants: 0 })
    });
}
