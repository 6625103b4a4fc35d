//! The memory in which the kernel keeps what was sent over sockets and not read yet, by `sock_diag`
//! (sock_diag(7)) of all sockets of the node's network.

use nix::libc;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::collections::HashMap;
use std::os::fd::AsRawFd;

const BY_FAMILY: u16 = 20;
const HEADER: usize = 16;
const STATES: u32 = u32::MAX;

/// What to ask of a family for the memory, and where its answers begin to hold attributes.
struct Question {
    request: Vec<u8>,
    answer_length: usize,
    held: fn(&Attributes) -> u64,
}

type Attributes<'a> = HashMap<u16, &'a [u8]>;

/// Bytes that all sockets of this network hold; what cannot be asked for counts nothing.
pub(super) fn socket_memory() -> u64 {
    let streams = [libc::AF_INET, libc::AF_INET6]
        .into_iter()
        .flat_map(|family| [libc::IPPROTO_TCP, libc::IPPROTO_UDP].map(|protocol| internet(family, protocol)));
    streams.chain([local()]).filter_map(|question| ask(&question)).sum()
}

/// `inet_diag_req_v2`: family, protocol, extensions, states, and the empty name of a socket.
fn internet(family: i32, protocol: i32) -> Question {
    const MEMORY: u16 = 7; // INET_DIAG_SKMEMINFO
    let small = |number: i32| u8::try_from(number).expect("a small number");
    let mut request = vec![small(family), small(protocol), 1 << (MEMORY - 1), 0];
    request.extend(STATES.to_ne_bytes());
    request.extend([0; 48]);
    Question { request, answer_length: 72, held: |attributes| queued(attributes.get(&MEMORY)) }
}

/// `unix_diag_req`: family, protocol, states, a socket's number, what to show, a cookie.
fn local() -> Question {
    const SHOW: u32 = 0x04 | 0x10 | 0x20; // UDIAG_SHOW_PEER, UDIAG_SHOW_RQLEN, UDIAG_SHOW_MEMINFO
    let mut request = vec![u8::try_from(libc::AF_UNIX).expect("a small number"), 0, 0, 0];
    for number in [STATES, 0, SHOW, u32::MAX, u32::MAX] {
        request.extend(number.to_ne_bytes());
    }
    Question { request, answer_length: 16, held: held_locally }
}

/// What was sent counts for the sender. Once that is gone, it is held for the receiver, which only says how
/// many bytes may be read; what many small messages take besides is at most the room that a sender has.
fn held_locally(attributes: &Attributes) -> u64 {
    let (peer, lengths, memory) = (2, 4, 5); // UNIX_DIAG_PEER, UNIX_DIAG_RQLEN, UNIX_DIAG_MEMINFO
    let figures = attributes.get(&memory);
    let to_read = attributes.get(&lengths).and_then(|lengths| number(lengths, 0)).unwrap_or(0);
    // A sender that is gone has no number any more.
    let has_sender = attributes.get(&peer).and_then(|peer| number(peer, 0)).is_some_and(|peer| peer > 0);
    let left_behind = match to_read > 0 && !has_sender {
        true => to_read.max(figures.and_then(|figures| number(figures, ROOM_TO_SEND)).unwrap_or(0)),
        false => 0,
    };
    queued(figures) + u64::from(left_behind)
}

fn ask(question: &Question) -> Option<u64> {
    let socket =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)
            .ok()?;
    let length = u32::try_from(HEADER + question.request.len()).ok()?;
    let flags = u16::try_from(libc::NLM_F_REQUEST | libc::NLM_F_DUMP).ok()?;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(&question.request);
    send(socket.as_raw_fd(), &message, MsgFlags::empty()).ok()?;
    let (mut bytes, mut answer) = (0, vec![0; 64 << 10]);
    loop {
        let length = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).ok()?;
        let mut rest = answer.get(..length).filter(|rest| !rest.is_empty())?;
        while let Some(length) =
            number(rest, 0).map(|length| length as usize).filter(|length| *length >= HEADER)
        {
            let kind = u16::from_ne_bytes([*rest.get(4)?, *rest.get(5)?]);
            if kind != BY_FAMILY {
                return (i32::from(kind) == libc::NLMSG_DONE).then_some(bytes);
            }
            let attributes = rest.get(HEADER + question.answer_length..length).unwrap_or_default();
            bytes += (question.held)(&by_kind(attributes));
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
    }
}

fn by_kind(mut attributes: &[u8]) -> Attributes<'_> {
    let mut found = Attributes::new();
    while let [a, b, c, d, ..] = attributes {
        let (length, kind) = (usize::from(u16::from_ne_bytes([*a, *b])), u16::from_ne_bytes([*c, *d]));
        let Some(value) = attributes.get(4..length) else { break };
        found.insert(kind, value);
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    found
}

/// Figures of `sk_meminfo`: to be read, sent, to be sent, the backlog; and the socket's room to send.
const TO_READ: usize = 0;
const SENT: usize = 8;
const ROOM_TO_SEND: usize = 12;
const TO_SEND: usize = 20;
const BACKLOG: usize = 28;

fn queued(figures: Option<&&[u8]>) -> u64 {
    let of = |at| figures.and_then(|figures| number(figures, at)).map_or(0, u64::from);
    of(TO_READ) + of(SENT).max(of(TO_SEND)) + of(BACKLOG)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_was_sent_and_not_read_is_counted() {
        let before = socket_memory();
        let mut pairs: Vec<(Option<UnixStream>, UnixStream)> = Vec::new();
        for _ in 0..64 {
            let (from, to) = UnixStream::pair().unwrap();
            from.set_nonblocking(true).unwrap();
            while (&from).write(&[1; 32 << 10]).is_ok() {}
            pairs.push((Some(from), to));
        }
        let held = socket_memory().saturating_sub(before);
        assert!(held > 64 * (64 << 10), "{held}");
        for (from, _) in &mut pairs {
            drop(from.take());
        }
        let left_behind = socket_memory().saturating_sub(before);
        assert!(left_behind > 64 * (64 << 10), "{left_behind}");
    }

    #[test]
    fn attributes_are_read_to_their_end() {
        let figures = [10_u32, 99, 20, 99, 99, 25, 99, 3].map(u32::to_ne_bytes).concat();
        let attribute = |kind: u16, value: &[u8]| {
            let length = u16::try_from(4 + value.len()).unwrap();
            [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
        };
        let all = [attribute(3, &[1, 2, 3, 4]), attribute(5, &figures)].concat();
        let found = by_kind(&all);
        assert_eq!((found.len(), queued(found.get(&5)), queued(None)), (2, 38, 0));
        assert_eq!(by_kind(&[9, 9, 9, 9]).len(), 0);
    }
}
