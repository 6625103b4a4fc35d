//! Servers that send clients on to each other name addresses that only nodes reach. On their way to programs
//! of this machine the addresses of nodes, 198.18.5.0/24, become addresses of this machine, 127.18.5.0/24, at
//! the same ports, and back.
//!
//! Both texts are equally long, so that nothing of the protocol has to be known: no length in it changes.

use std::io;
use std::net::Ipv4Addr;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};

/// How the addresses of a network of nodes begin, inside and on this machine: `198.18.5.` and `127.18.5.`.
#[derive(Clone, Debug)]
pub(super) struct Translation {
    inside: Vec<u8>,
    here: Vec<u8>,
}

pub(super) fn stand_in(node: Ipv4Addr) -> Ipv4Addr {
    let [_, second, third, host] = node.octets();
    Ipv4Addr::new(127, second, third, host)
}

impl Translation {
    pub(super) fn of(node: Ipv4Addr) -> Translation {
        let network = |address: Ipv4Addr| {
            let [first, second, third, _] = address.octets();
            format!("{first}.{second}.{third}.").into_bytes()
        };
        Translation { inside: network(node), here: network(stand_in(node)) }
    }

    /// Carries bytes between a program of this machine and a server, and the end of each direction.
    pub(super) async fn carry(
        &self,
        program: impl AsyncRead + AsyncWrite,
        server: impl AsyncRead + AsyncWrite,
    ) -> io::Result<()> {
        let ((from_program, to_program), (from_server, to_server)) = (split(program), split(server));
        let requests = copy(from_program, to_server, &self.here, &self.inside);
        let answers = copy(from_server, to_program, &self.inside, &self.here);
        tokio::try_join!(requests, answers).map(drop)
    }
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    text: &[u8],
    other: &[u8],
) -> io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let is_over = from.read_buf(&mut bytes).await? == 0;
        replace(&mut bytes, text, other);
        // What may be the beginning of the text waits for the rest. No message of these servers ends so.
        let kept = if is_over { 0 } else { begun(&bytes, text) };
        let passed = bytes.len() - kept;
        to.write_all(&bytes[..passed]).await?;
        to.flush().await?;
        bytes.drain(..passed);
        if is_over {
            return to.shutdown().await;
        }
    }
}

/// Both texts are equally long.
fn replace(bytes: &mut [u8], text: &[u8], other: &[u8]) {
    let mut at = 0;
    while at + text.len() <= bytes.len() {
        match bytes[at..].starts_with(text) {
            true => {
                bytes[at..at + text.len()].copy_from_slice(other);
                at += text.len();
            }
            false => at += 1,
        }
    }
}

/// How many of the last bytes are the beginning of the text.
fn begun(bytes: &[u8], text: &[u8]) -> usize {
    let longest = bytes.len().min(text.len() - 1);
    (1..=longest).rev().find(|length| bytes.ends_with(&text[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_translated_both_ways_wherever_the_bytes_are_cut() {
        let translation = Translation::of(Ipv4Addr::new(198, 18, 5, 2));
        let (mut program, inner) = tokio::io::duplex(1 << 16);
        let (outer, mut server) = tokio::io::duplex(1 << 16);
        let carried = tokio::spawn(async move { translation.carry(inner, outer).await });
        let moved = b"-MOVED 8718 198.18.5.3:6379\r\n*2\r\n$10\r\n198.18.5.4\r\n$11\r\n198.18.51.4\r\n";
        for byte in moved {
            server.write_all(&[*byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        program.write_all(b"CLUSTER MEET 127.18.5.4 6379\r\nSET k 127.0.0.1\r\n").await.unwrap();
        program.shutdown().await.unwrap();
        server.shutdown().await.unwrap();
        let (mut answers, mut requests) = (String::new(), String::new());
        program.read_to_string(&mut answers).await.unwrap();
        server.read_to_string(&mut requests).await.unwrap();
        assert_eq!(
            answers,
            "-MOVED 8718 127.18.5.3:6379\r\n*2\r\n$10\r\n127.18.5.4\r\n$11\r\n198.18.51.4\r\n"
        );
        assert_eq!(requests, "CLUSTER MEET 198.18.5.4 6379\r\nSET k 127.0.0.1\r\n");
        carried.await.unwrap().unwrap();
    }

    #[test]
    fn only_what_may_be_an_address_waits() {
        for (bytes, waits) in [("+PONG\r\n", 0), ("x198.1", 5), ("198.18.5", 8), ("198.19", 2), ("198.20", 0)]
        {
            assert_eq!(begun(bytes.as_bytes(), b"198.18.5."), waits, "{bytes}");
        }
    }
}
