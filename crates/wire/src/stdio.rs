//! Standard input and output as streams that wait like connections: tokio's take two thread switches a line.
//! A terminal or a file is left to tokio: what is set on it is set for the shell, too.

use std::fs::{File, FileType};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream as StdUnixStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

pub fn stdin() -> Box<dyn AsyncRead + Send + Unpin> {
    let of = |fd: OwnedFd| -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
        Ok(match file_type(&fd)? {
            kind if kind.is_fifo() => Box::new(pipe::Receiver::from_owned_fd(fd)?),
            kind if kind.is_socket() => Box::new(socket(fd)?),
            _ => Box::new(tokio::io::stdin()),
        })
    };
    let fd = io::stdin().as_fd().try_clone_to_owned();
    fd.and_then(of).unwrap_or_else(|_| Box::new(tokio::io::stdin()))
}

pub fn stdout() -> Box<dyn AsyncWrite + Send + Unpin> {
    let of = |fd: OwnedFd| -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
        Ok(match file_type(&fd)? {
            kind if kind.is_fifo() => Box::new(pipe::Sender::from_owned_fd(fd)?),
            kind if kind.is_socket() => Box::new(socket(fd)?),
            _ => Box::new(tokio::io::stdout()),
        })
    };
    let fd = io::stdout().as_fd().try_clone_to_owned();
    fd.and_then(of).unwrap_or_else(|_| Box::new(tokio::io::stdout()))
}

fn file_type(fd: &OwnedFd) -> io::Result<FileType> {
    Ok(File::from(fd.try_clone()?).metadata()?.file_type())
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let stream = StdUnixStream::from(fd);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
