//! The requests to rtnetlink that nodes need, by hand: no `ip` is installed, and it takes milliseconds.

use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, recv, sendto, socket,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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

    pub(crate) fn add_bridge(&self, name: &str) -> io::Result<u32> {
        let mut message = NetlinkMessage::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        message.link(0, true);
        message.text(libc::IFLA_IFNAME, name);
        message.nested(libc::IFLA_LINKINFO, |info| info.text(libc::IFLA_INFO_KIND, "bridge"));
        self.request(message)?;
        index(name)
    }

    /// A virtual cable from `name`, up and on the bridge, to `peer` in the network of process `pid`.
    pub(crate) fn add_cable(&self, name: &str, bridge: u32, peer: &str, pid: u32) -> io::Result<()> {
        let mut message = NetlinkMessage::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
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
        let mut message = NetlinkMessage::new(libc::RTM_NEWLINK, 0);
        message.link(index(name)?, true);
        self.request(message)
    }

    pub(crate) fn add_address(&self, name: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let mut message = NetlinkMessage::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        message.0.extend([family(libc::AF_INET), prefix, 0, 0]);
        message.0.extend(index(name)?.to_ne_bytes());
        message.attribute(libc::IFA_LOCAL, &address.octets());
        message.attribute(libc::IFA_ADDRESS, &address.octets());
        self.request(message)
    }

    /// Leaves only this namespace's network: no gateway, default route or IPv6 address, that engines set.
    pub(crate) fn close(&self, gateway: Ipv4Addr) -> io::Result<()> {
        self.make_unreachable(IpAddr::V4(gateway), 32)?;
        self.make_unreachable(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0)?;
        // Kernels without IPv6 refuse this; without an address there is no way out by it.
        let _ = self.make_unreachable(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);
        let table = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        for (address, prefix, interface) in table.lines().filter_map(ipv6_address) {
            self.remove_address(address, prefix, interface)?;
        }
        Ok(())
    }

    fn remove_address(&self, address: Ipv6Addr, prefix: u8, interface: u32) -> io::Result<()> {
        let mut message = NetlinkMessage::new(libc::RTM_DELADDR, 0);
        message.0.extend([family(libc::AF_INET6), prefix, 0, 0]);
        message.0.extend(interface.to_ne_bytes());
        message.attribute(libc::IFA_LOCAL, &address.octets());
        message.attribute(libc::IFA_ADDRESS, &address.octets());
        self.request(message)
    }

    /// A route to these addresses, in place of any that there is, that leads nowhere.
    fn make_unreachable(&self, address: IpAddr, prefix: u8) -> io::Result<()> {
        let mut message = NetlinkMessage::new(libc::RTM_NEWROUTE, libc::NLM_F_CREATE | libc::NLM_F_REPLACE);
        let (no_source, service) = (0, 0);
        let (family, octets) = match address {
            IpAddr::V4(address) => (family(libc::AF_INET), address.octets().to_vec()),
            IpAddr::V6(address) => (family(libc::AF_INET6), address.octets().to_vec()),
        };
        message.0.extend([family, prefix, no_source, service]);
        message.0.extend([
            libc::RT_TABLE_MAIN,
            libc::RTPROT_STATIC,
            libc::RT_SCOPE_UNIVERSE,
            libc::RTN_UNREACHABLE,
        ]);
        message.0.extend([0; 4]);
        if prefix > 0 {
            message.attribute(libc::RTA_DST, &octets);
        }
        self.request(message)
    }

    fn request(&self, message: NetlinkMessage) -> io::Result<()> {
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

fn family(number: i32) -> u8 {
    u8::try_from(number).expect("families have small numbers")
}

/// Address, length of prefix and interface in a line of /proc/net/if_inet6; none for the loopback's.
fn ipv6_address(line: &str) -> Option<(Ipv6Addr, u8, u32)> {
    let mut fields = line.split_whitespace();
    let address = Ipv6Addr::from(u128::from_str_radix(fields.next()?, 16).ok()?);
    let interface = u32::from_str_radix(fields.next()?, 16).ok()?;
    let prefix = u8::from_str_radix(fields.next()?, 16).ok()?;
    (!address.is_loopback()).then_some((address, prefix, interface))
}

fn index(name: &str) -> io::Result<u32> {
    Ok(nix::net::if_::if_nametoindex(name)?)
}

struct NetlinkMessage(Vec<u8>);

impl NetlinkMessage {
    fn new(kind: u16, flags: i32) -> NetlinkMessage {
        let flags = flags | libc::NLM_F_REQUEST | libc::NLM_F_ACK;
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(u16::try_from(flags).expect("flags of 16 bits").to_ne_bytes());
        bytes.resize(HEADER, 0);
        NetlinkMessage(bytes)
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

    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut NetlinkMessage)) {
        let mut inner = NetlinkMessage(Vec::new());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_ipv6_are_read() {
        let line = "fe80000000000000b8297dfffe910035 2c 40 20 80     eth0";
        let address = "fe80::b829:7dff:fe91:35".parse().unwrap();
        assert_eq!(ipv6_address(line), Some((address, 64, 44)));
        assert_eq!(ipv6_address("00000000000000000000000000000001 01 80 10 80       lo"), None);
    }
}
