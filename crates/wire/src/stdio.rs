//! Standard input and output as streams that wait like connections: tokio's take two thread switches a line.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

/// Standard input.
pub fn stdin() -> Box<dyn AsyncRead + Send + Unpin> {
    let Ok(fd) = std::io::stdin().as_fd().try_clone_to_owned() else { return Box::new(tokio::io::stdin()) };
    match kind(&fd) {
        StreamKind::Pipe => match pipe::Receiver::from_owned_fd(fd) {
            Ok(receiver) => Box::new(receiver),
            Err(_) => Box::new(tokio::io::stdin()),
        },
        StreamKind::Socket => match socket(fd) {
            Ok(stream) => Box::new(stream),
            Err(_) => Box::new(tokio::io::stdin()),
        },
        StreamKind::Other => Box::new(tokio::io::stdin()),
    }
}

/// Standard output.
pub fn stdout() -> Box<dyn AsyncWrite + Send + Unpin> {
    let Ok(fd) = std::io::stdout().as_fd().try_clone_to_owned() else { return Box::new(tokio::io::stdout()) };
    match kind(&fd) {
        StreamKind::Pipe => match pipe::Sender::from_owned_fd(fd) {
            Ok(sender) => Box::new(sender),
            Err(_) => Box::new(tokio::io::stdout()),
        },
        StreamKind::Socket => match socket(fd) {
            Ok(stream) => Box::new(stream),
            Err(_) => Box::new(tokio::io::stdout()),
        },
        StreamKind::Other => Box::new(tokio::io::stdout()),
    }
}

enum StreamKind {
    Pipe,
    Socket,
    /// A terminal or a file: what is set on it is set for the shell, too, so it is left alone.
    Other,
}

fn kind(fd: &OwnedFd) -> StreamKind {
    let Ok(file_type) = fd.try_clone().map(std::fs::File::from).and_then(|file| file.metadata()) else {
        return StreamKind::Other;
    };
    match file_type.file_type() {
        file_type if file_type.is_fifo() => StreamKind::Pipe,
        file_type if file_type.is_socket() => StreamKind::Socket,
        _ => StreamKind::Other,
    }
}

fn socket(fd: OwnedFd) -> std::io::Result<UnixStream> {
    let stream = StdUnixStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
