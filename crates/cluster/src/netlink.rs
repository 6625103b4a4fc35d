//! The few requests to the kernel's rtnetlink that nodes need: a bridge, pairs of virtual cables, addresses, routes.
//!
//! Written out by hand, so that no `ip` need be installed and eleven nodes are wired up in milliseconds.

use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

const HEADER: usize = 16;
const VETH_INFO_PEER: u16 = 1;

/// A connection to the rtnetlink of the network namespace in which it was opened.
pub(crate) struct Netlink(OwnedFd);

impl Netlink {
    pub(crate) fn open() -> io::Result<Netlink> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkRoute,
        )?;
        Ok(Netlink(socket))
    }

    /// A bridge, up. Gives its index.
    pub(crate) fn add_bridge(&self, name: &str) -> io::Result<u32> {
        let mut message = Message::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        message.link(0, true);
        message.text(libc::IFLA_IFNAME, name);
        message.nested(libc::IFLA_LINKINFO, |info| info.text(libc::IFLA_INFO_KIND, "bridge"));
        self.request(message)?;
        index(name)
    }

    /// A virtual cable: one end, `name`, up and on the bridge; the other is `peer` in the network of process `pid`.
    pub(crate) fn add_cable(&self, name: &str, bridge: u32, peer: &str, pid: u32) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        message.link(0, true);
        message.text(libc::IFLA_IFNAME, name);
        message.number(libc::IFLA_MASTER, bridge);
        message.nested(libc::IFLA_LINKINFO, |info| {
            info.text(libc::IFLA_INFO_KIND, "veth");
            info.nested(libc::IFLA_INFO_DATA, |data| {
                data.nested(VETH_INFO_PEER, |end| {
                    end.link(0, false);
                    end.text(libc::IFLA_IFNAME, peer);
                    end.number(libc::IFLA_NET_NS_PID, pid);
                });
            });
        });
        self.request(message)
    }

    pub(crate) fn set_up(&self, name: &str) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWLINK, 0);
        message.link(index(name)?, true);
        self.request(message)
    }

    pub(crate) fn add_address(&self, name: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        let family = u8::try_from(libc::AF_INET).expect("a small number");
        message.0.extend([family, prefix, 0, 0]);
        message.0.extend(index(name)?.to_ne_bytes());
        message.attribute(libc::IFA_LOCAL, &address.octets());
        message.attribute(libc::IFA_ADDRESS, &address.octets());
        self.request(message)
    }

    /// Makes an address one that is not reached from here, and to which no answer goes.
    pub(crate) fn make_unreachable(&self, address: Ipv4Addr) -> io::Result<()> {
        let mut message = Message::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_REPLACE);
        let family = u8::try_from(libc::AF_INET).expect("a small number");
        let (length, no_source, service) = (32, 0, 0);
        message.0.extend([family, length, no_source, service]);
        message.0.extend([
            libc::RT_TABLE_MAIN,
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_UNIVERSE,
            libc::RTN_UNREACHABLE,
        ]);
        message.0.extend([0; 4]);
        message.attribute(libc::RTA_DST, &address.octets());
        self.request(message)
    }

    fn request(&self, message: Message) -> io::Result<()> {
        sendto(self.0.as_raw_fd(), &message.finish(), &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
        let mut answer = [0; 4096];
        let length = recv(self.0.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        // Every request asks for an acknowledgement, which is an error of number 0.
        match answer[..length].get(HEADER..HEADER + 4) {
            Some(&[a, b, c, d]) => match i32::from_ne_bytes([a, b, c, d]) {
                0 => Ok(()),
                error => Err(io::Error::from_raw_os_error(-error)),
            },
            _ => Err(io::Error::other("the kernel's answer is cut off")),
        }
    }
}

fn index(name: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(name)?)
}

/// A request that is being written.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: i32) -> Message {
        let flags = flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK;
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(u16::try_from(flags).expect("flags of 16 bits").to_ne_bytes());
        bytes.resize(HEADER, 0);
        Message(bytes)
    }

    /// The fixed part of a message about an interface.
    fn link(&mut self, index: u32, up: bool) {
        let up = if up { libc::IFF_UP } else { 0 };
        self.0.extend([0; 4]);
        self.0.extend(index.to_ne_bytes());
        self.0.extend(up.to_ne_bytes());
        self.0.extend(up.to_ne_bytes());
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(4 + value.len()).expect("attributes are short");
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.pad();
    }

    fn text(&mut self, kind: u16, text: &str) {
        self.attribute(kind, &[text.as_bytes(), &[0]].concat());
    }

    fn number(&mut self, kind: u16, number: u32) {
        self.attribute(kind, &number.to_ne_bytes());
    }

    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message(Vec::new());
        fill(&mut inner);
        self.attribute(kind, &inner.0);
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).expect("messages are short");
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}
