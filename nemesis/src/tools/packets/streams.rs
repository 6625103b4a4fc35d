//! Whether connections to another node last: short streams of TCP, sent back by a listener there.

use super::engine::PacketsError;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// A listener that is not connected to ends by itself.
const LISTENS: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

const PATIENCE: Duration = Duration::from_secs(1);

/// A connection that gives no answer for so long is silent.
const SILENCE: Duration = Duration::from_millis(300);

/// Sends back what comes for 10 seconds at a port that is free, and gives it.
pub fn listen() -> Result<u16, PacketsError> {
    let failed = |error: io::Error| PacketsError(format!("no port could be listened at: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let until = Instant::now() + LISTENS;
    std::thread::Builder::new()
        .name("streams".to_owned())
        .spawn(move || {
            while Instant::now() < until {
                match listener.accept() {
                    // One after the other: each is waited for by the node that opens it.
                    Ok((stream, _)) => drop(send_back(stream)),
                    Err(_) => std::thread::sleep(LOOK),
                }
            }
        })
        .map_err(failed)?;
    Ok(port)
}

fn send_back(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(LISTENS))?;
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {
        stream.write_all(&byte)?;
    }
    Ok(())
}

/// So many connections, over each of which one byte goes there and back.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Streams {
    pub to: Ipv4Addr,
    pub port: u16,
    pub count: u16,
}

impl Streams {
    /// Gives how many of them were not reset. Another error than a reset is one.
    pub fn run(&self) -> Result<u16, PacketsError> {
        let mut lasted = 0;
        for _ in 0..self.count {
            match self.one() {
                Ok(()) => lasted += 1,
                Err(error) if is_reset(&error) => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
        Ok(lasted)
    }

    /// A connection over which something went.
    pub fn open(&self) -> Result<TcpStream, PacketsError> {
        self.used().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> PacketsError {
        PacketsError(format!("a connection to {}:{} failed: {error}", self.to, self.port))
    }

    fn used(&self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect_timeout(&(self.to, self.port).into(), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(&[1])?;
        stream.read_exact(&mut [0])?;
        Ok(stream)
    }

    fn one(&self) -> io::Result<()> {
        let stream = self.used()?;
        let _ = stream.shutdown(Shutdown::Both);
        Ok(())
    }
}

/// Whether nothing comes back over a connection, not even its end.
pub fn is_silent(mut stream: &TcpStream) -> bool {
    use io::ErrorKind::{TimedOut, WouldBlock};
    let asked = stream.set_read_timeout(Some(SILENCE)).and_then(|()| stream.write_all(&[1]));
    let answer = asked.and_then(|()| stream.read(&mut [0]));
    answer.is_err_and(|error| matches!(error.kind(), TimedOut | WouldBlock))
}

fn is_reset(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof)
}
