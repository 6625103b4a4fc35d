//! The kernel's queue of packets (NFQUEUE), spoken to over netlink.
//!
//! The crate `nfq` does the same, but gives no file descriptor to wait on, and the emulator must wait for packets and
//! for the time when held ones fall due; and it answers one packet a system call, where this answers many.
//! The messages are those of the kernel's `linux/netfilter/nfnetlink_queue.h`.

use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, setsockopt, socket, sockopt,
};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Room for a packet with all its attributes; segments that are still to be cut come with up to 64 KiB.
pub(super) const MESSAGE_BYTES: usize = 128 * 1024;

/// How many packets the kernel holds for us at most; netem is told the same. Beyond that they are lost.
pub(super) const HELD_MAX: u32 = 100_000;

/// What the socket may hold of packets that were not read yet.
const BUFFER_BYTES: usize = 8 * 1024 * 1024;

/// An IP header without options, all that deciding takes.
const HEADER_BYTES: u32 = 20;

/// How much of each packet the kernel shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Show {
    /// The header. Long sends of TCP stay in one piece until the card cuts them, as under netem.
    Headers,
    /// All of it, cut to size and with its checksum: what a copy needs.
    Whole,
}

/// A packet that waits for its verdict.
#[derive(Debug)]
pub(super) struct Packet {
    pub id: u32,
    pub destination: Ipv4Addr,
    /// Length on the wire, from the IP header on.
    pub length: usize,
    /// All of it, if the queue shows whole packets.
    pub whole: Option<Vec<u8>>,
}

/// A queue of this network namespace. Closing it loses the packets that wait in it.
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
        let command = [libc::NFQNL_CFG_CMD_BIND as u8, 0, 0, 0];
        queue.configure(&[(libc::NFQA_CFG_CMD, &command)])?;
        queue.configure(&[(libc::NFQA_CFG_QUEUE_MAXLEN, &HELD_MAX.to_be_bytes())])?;
        queue.show(Show::Headers)?;
        Ok(queue)
    }

    /// Changes how much of the packets to come is shown.
    pub fn show(&self, what: Show) -> io::Result<()> {
        let (bytes, flags) = match what {
            Show::Headers => (HEADER_BYTES, libc::NFQA_CFG_F_GSO as u32),
            Show::Whole => (0xffff, 0),
        };
        let mut copy = bytes.to_be_bytes().to_vec();
        copy.push(libc::NFQNL_COPY_PACKET as u8);
        self.configure(&[
            (libc::NFQA_CFG_PARAMS, &copy),
            (libc::NFQA_CFG_MASK, &(libc::NFQA_CFG_F_GSO as u32).to_be_bytes()),
            (libc::NFQA_CFG_FLAGS, &flags.to_be_bytes()),
        ])
    }

    /// Reads what has come in since, without waiting, and gives whether there may be more.
    pub fn receive(&self, buffer: &mut [u8], packets: &mut Vec<Packet>) -> io::Result<bool> {
        match recv(self.socket.as_raw_fd(), buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(bytes) => packets.extend(messages(&buffer[..bytes]).filter_map(packet)),
            Err(nix::Error::EAGAIN) => return Ok(false),
            // The kernel had more packets than room: it dropped some, as a full line does.
            Err(nix::Error::ENOBUFS | nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Lets packets go on (true), or loses them.
    pub fn judge(&self, verdicts: &[(u32, bool)]) -> io::Result<()> {
        // Some hundred in one message: the kernel copies the whole of it into one buffer.
        for part in verdicts.chunks(256) {
            let mut bytes = Vec::with_capacity(part.len() * 32);
            for (id, passes) in part {
                let verdict = if *passes { libc::NF_ACCEPT } else { libc::NF_DROP } as u32;
                let header = [verdict.to_be_bytes(), id.to_be_bytes()].concat();
                let attributes: [(i32, &[u8]); 1] = [(libc::NFQA_VERDICT_HDR, &header)];
                append(&mut bytes, libc::NFQNL_MSG_VERDICT, self.number, 0, &attributes);
            }
            send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
        }
        Ok(())
    }

    /// Sends a setting and waits for the kernel's word on it. Only before packets are read: it eats them else.
    fn configure(&self, attributes: &[(i32, &[u8])]) -> io::Result<()> {
        let mut bytes = Vec::new();
        append(&mut bytes, libc::NFQNL_MSG_CONFIG, self.number, libc::NLM_F_ACK, attributes);
        send(self.socket.as_raw_fd(), &bytes, MsgFlags::empty())?;
        Ok(())
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
