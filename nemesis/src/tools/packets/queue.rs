//! The kernel's queue of packets (NFQUEUE), over netlink, with the messages of
//! `linux/netfilter/nfnetlink_queue.h`. The crate `nfq` gives no file descriptor to wait on, but the emulator
//! must wait for packets and for held ones that fall due, and answers one packet a call.

use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt,
    socket, sockopt,
};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Room for a packet with all its attributes; segments that are still to be cut come with up to 64 KiB.
const MESSAGE_BYTES: usize = 128 * 1024;

/// So many packets are read with one system call. Their room costs memory only as far as it is written to.
const MESSAGES: usize = 64;

pub(super) struct Inbox(Vec<u8>);

impl Inbox {
    pub fn new() -> Inbox {
        Inbox(vec![0; MESSAGES * MESSAGE_BYTES])
    }
}

/// How many packets the kernel holds for us at most; netem gets the same limit. Beyond that they are lost.
pub(super) const HELD_MAX: u32 = 100_000;

const BUFFER_BYTES: usize = 8 * 1024 * 1024;

/// An IP header without options, all that deciding takes.
const HEADER_BYTES: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// The header. Long sends of TCP stay in one piece until the card cuts them, as under netem.
    Headers,
    /// All of it, cut to size and with its checksum: what a copy needs.
    Whole,
}

#[derive(Debug)]
pub(super) struct Packet {
    pub id: u32,
    pub destination: Ipv4Addr,
    /// Length on the wire, from the IP header on.
    pub length: usize,
    /// All of it, if the queue shows whole packets.
    pub whole: Option<Vec<u8>>,
}

/// A queue of this node's network. Closing it loses the packets that wait in it.
#[derive(Debug)]
pub(super) struct Queue {
    socket: OwnedFd,
    number: u16,
}

impl Queue {
    /// Takes the queue of that number; fails where another program has it.
    pub fn open(number: u16) -> io::Result<Queue> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkNetFilter,
        )?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
        // Forcing needs root of the machine itself; without it the limit of the machine applies.
        if setsockopt(&socket, sockopt::RcvBufForce, &BUFFER_BYTES).is_err() {
            setsockopt(&socket, sockopt::RcvBuf, &BUFFER_BYTES)?;
        }
        let queue = Queue { socket, number };
        queue.ask(&[(libc::NFQA_CFG_CMD, &[libc::NFQNL_CFG_CMD_BIND as u8, 0, 0, 0])])?;
        queue.ask(&[(libc::NFQA_CFG_QUEUE_MAXLEN, &HELD_MAX.to_be_bytes())])?;
        queue.show(Show::Headers)?;
        Ok(queue)
    }

    pub fn show(&self, what: Show) -> io::Result<()> {
        let gso = libc::NFQA_CFG_F_GSO as u32;
        let (bytes, flags) = match what {
            Show::Headers => (HEADER_BYTES, gso),
            Show::Whole => (0xffff, 0),
        };
        let mut copy = bytes.to_be_bytes().to_vec();
        copy.push(libc::NFQNL_COPY_PACKET as u8);
        // No answer is asked for: it would come among the packets.
        self.send(&configuration(
            self.number,
            0,
            &[
                (libc::NFQA_CFG_PARAMS, &copy),
                (libc::NFQA_CFG_MASK, &gso.to_be_bytes()),
                (libc::NFQA_CFG_FLAGS, &flags.to_be_bytes()),
            ],
        ))
    }

    /// Reads what has come in since, without waiting; gives whether there may be more.
    pub fn receive(&self, inbox: &mut Inbox, packets: &mut Vec<Packet>) -> io::Result<bool> {
        match self.read(inbox) {
            Ok(lengths) => {
                let rooms = inbox.0.chunks(MESSAGE_BYTES);
                let filled = rooms.zip(lengths).map_while(|(room, length)| room.get(..length?));
                let mut read = 0;
                for bytes in filled {
                    read += 1;
                    packets.extend(messages(bytes).filter_map(packet));
                }
                Ok(read == MESSAGES)
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN) => Ok(false),
                // The kernel had more packets than room: it lost some, as a full line does.
                Some(libc::ENOBUFS | libc::EINTR) => Ok(true),
                _ => Err(error),
            },
        }
    }

    /// Fills the rooms of the inbox, one message each, without waiting; gives the length of each.
    fn read(&self, inbox: &mut Inbox) -> io::Result<[Option<usize>; MESSAGES]> {
        let mut rooms = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MESSAGES];
        // SAFETY: all zero is a header without an address, without parts and without control data.
        let mut headers: [libc::mmsghdr; MESSAGES] = unsafe { std::mem::zeroed() };
        for ((room, header), bytes) in
            rooms.iter_mut().zip(&mut headers).zip(inbox.0.chunks_mut(MESSAGE_BYTES))
        {
            *room = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            header.msg_hdr.msg_iov = room;
            header.msg_hdr.msg_iovlen = 1;
        }
        let (socket, none) = (self.socket.as_raw_fd(), std::ptr::null_mut());
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: each header points to a room of its own, which outlives the call and no other code knows.
        let count = unsafe { libc::recvmmsg(socket, headers.as_mut_ptr(), MESSAGES as u32, flags, none) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        let mut lengths = [None; MESSAGES];
        for (length, header) in lengths.iter_mut().zip(&headers).take(count) {
            *length = Some(header.msg_len as usize);
        }
        Ok(lengths)
    }

    /// Lets the packet of that number go on, and all that came before it and still wait.
    pub fn pass_up_to(&self, id: u32) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(32);
        let header = [(libc::NF_ACCEPT as u32).to_be_bytes(), id.to_be_bytes()].concat();
        let attributes: &[(i32, &[u8])] = &[(libc::NFQA_VERDICT_HDR, &header)];
        append(&mut bytes, libc::NFQNL_MSG_VERDICT_BATCH, self.number, 0, attributes);
        self.send(&bytes)
    }

    /// Lets packets go on (true), or loses them (false).
    pub fn judge(&self, verdicts: &[(u32, bool)]) -> io::Result<()> {
        // Some hundred at a time: the kernel copies the whole of it into one buffer.
        for part in verdicts.chunks(256) {
            let mut bytes = Vec::with_capacity(part.len() * 32);
            for (id, passes) in part {
                let verdict = if *passes { libc::NF_ACCEPT } else { libc::NF_DROP } as u32;
                let header = [verdict.to_be_bytes(), id.to_be_bytes()].concat();
                append(
                    &mut bytes,
                    libc::NFQNL_MSG_VERDICT,
                    self.number,
                    0,
                    &[(libc::NFQA_VERDICT_HDR, &header)],
                );
            }
            self.send(&bytes)?;
        }
        Ok(())
    }

    /// Sends a setting and waits for the kernel's answer. Only before packets come: it would eat one.
    fn ask(&self, attributes: &[(i32, &[u8])]) -> io::Result<()> {
        self.send(&configuration(self.number, libc::NLM_F_ACK, attributes))?;
        let mut answer = [0; 1024];
        let bytes = recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        let refused = messages(&answer[..bytes]).find(|message| message.kind == libc::NLMSG_ERROR as u16);
        let code =
            refused.and_then(|message| message.body.first_chunk().copied()).map_or(0, i32::from_ne_bytes);
        if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(-code)) }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        send(self.socket.as_raw_fd(), bytes, MsgFlags::empty())?;
        Ok(())
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

struct Message<'a> {
    kind: u16,
    body: &'a [u8],
}

/// Length of the header of a netlink message, and of netfilter's after it.
const NETLINK_HEADER: usize = 16;
const NETFILTER_HEADER: usize = 4;

fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let body = bytes.get(NETLINK_HEADER..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some(Message { kind, body })
    })
}

fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (i32, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let number = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
        Some((i32::from(number), value))
    })
}

fn packet(message: Message<'_>) -> Option<Packet> {
    if message.kind != message_type(libc::NFQNL_MSG_PACKET) {
        return None;
    }
    let (mut id, mut length, mut payload) = (None, None, None);
    for (number, value) in attributes(message.body.get(NETFILTER_HEADER..)?) {
        match number {
            libc::NFQA_PACKET_HDR => id = Some(u32::from_be_bytes(*value.first_chunk()?)),
            libc::NFQA_CAP_LEN => length = Some(u32::from_be_bytes(*value.first_chunk()?) as usize),
            libc::NFQA_PAYLOAD => payload = Some(value),
            _ => {}
        }
    }
    let (id, payload) = (id?, payload?);
    let destination: [u8; 4] = payload.get(16..20)?.try_into().ok()?;
    // The kernel tells the length only of what it cut.
    let whole = length.is_none().then(|| payload.to_vec());
    Some(Packet { id, destination: destination.into(), length: length.unwrap_or(payload.len()), whole })
}

fn configuration(queue: u16, flags: i32, attributes: &[(i32, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    append(&mut bytes, libc::NFQNL_MSG_CONFIG, queue, flags, attributes);
    bytes
}

fn append(bytes: &mut Vec<u8>, kind: i32, queue: u16, flags: i32, attributes: &[(i32, &[u8])]) {
    let start = bytes.len();
    bytes.extend([0; 4]);
    bytes.extend(message_type(kind).to_ne_bytes());
    bytes.extend(((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
    // Sequence and port: no code reads them.
    bytes.extend([0; 8]);
    bytes.extend([libc::AF_UNSPEC as u8, libc::NFNETLINK_V0 as u8]);
    bytes.extend(queue.to_be_bytes());
    for (number, value) in attributes {
        bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
        bytes.extend((*number as u16).to_ne_bytes());
        bytes.extend(*value);
        bytes.resize(start + aligned(bytes.len() - start), 0);
    }
    let length = ((bytes.len() - start) as u32).to_ne_bytes();
    bytes[start..start + 4].copy_from_slice(&length);
}

fn message_type(kind: i32) -> u16 {
    (libc::NFNL_SUBSYS_QUEUE << 8 | kind) as u16
}

/// Netlink pads everything to four bytes.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}
