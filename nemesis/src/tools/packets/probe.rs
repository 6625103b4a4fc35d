//! Measures the way to another node by ICMP echoes, which its kernel answers whatever its programs do.

use super::engine::PacketsError;
use super::segment::checksum;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    pub to: Ipv4Addr,
    pub count: u16,
    /// Time from one to the next, in milliseconds.
    pub gap_ms: f64,
    /// Length of each on the wire, from the IP header on, 28 to 1500 bytes.
    pub bytes: usize,
    /// How long to wait for answers after the last was sent, in milliseconds; less, if all have come before.
    pub patience_ms: u64,
}

/// What came back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Echoes {
    pub sent: u64,
    pub answered: u64,
    /// Answers beyond the first to an echo.
    pub duplicates: u64,
    /// Answers that came after that to a later echo.
    pub overtaken: u64,
    /// Round trips of the first answers, in milliseconds; none where there were none.
    pub median_ms: Option<f64>,
    pub least_ms: Option<f64>,
    pub most_ms: Option<f64>,
}

impl Echoes {
    /// All of these together; of the medians the median.
    pub(crate) fn sum(all: &[Echoes]) -> Echoes {
        let total = |count: fn(&Echoes) -> u64| all.iter().map(count).sum();
        let mut medians: Vec<f64> = all.iter().filter_map(|echoes| echoes.median_ms).collect();
        medians.sort_unstable_by(f64::total_cmp);
        Echoes {
            sent: total(|echoes| echoes.sent),
            answered: total(|echoes| echoes.answered),
            duplicates: total(|echoes| echoes.duplicates),
            overtaken: total(|echoes| echoes.overtaken),
            median_ms: medians.get(medians.len() / 2).copied(),
            least_ms: all.iter().filter_map(|echoes| echoes.least_ms).min_by(f64::total_cmp),
            most_ms: all.iter().filter_map(|echoes| echoes.most_ms).max_by(f64::total_cmp),
        }
    }
}

const IP_BYTES: usize = 20;
const ICMP_BYTES: usize = 8;

const ANSWERS_BYTES: usize = 8 << 20;

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

impl Probe {
    /// Sends the echoes and waits for the answers. Needs the right to open raw sockets.
    pub fn run(&self) -> Result<Echoes, PacketsError> {
        let failed = |error: Errno| PacketsError(format!("{} could not be probed: {error}", self.to));
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Inet, SockType::Raw, flags, SockProtocol::Icmp).map_err(failed)?;
        // Where this program gets no time for a while, answers wait here; those for which there is no room
        // would count as lost. Without the right to so much room, the kernel's own has to do.
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &ANSWERS_BYTES);
        let mut running =
            Running { probe: self, socket, ident: rand::random(), sent: Vec::new(), answers: Vec::new() };
        let begun = Instant::now();
        for number in 0..self.count {
            running
                .listen_until(begun + Duration::from_secs_f64(self.gap_ms * f64::from(number) / 1e3), false)
                .map_err(failed)?;
            running.send(number).map_err(failed)?;
        }
        running
            .listen_until(Instant::now() + Duration::from_millis(self.patience_ms), true)
            .map_err(failed)?;
        Ok(running.echoes())
    }
}

struct Running<'a> {
    probe: &'a Probe,
    socket: OwnedFd,
    /// Tells our answers from those to other probes of this node.
    ident: u16,
    sent: Vec<Instant>,
    /// Number of the echo and round trip, in the order of arrival.
    answers: Vec<(u16, Duration)>,
}

impl Running<'_> {
    fn send(&mut self, number: u16) -> nix::Result<()> {
        let length = self.probe.bytes.clamp(IP_BYTES + ICMP_BYTES, 1500) - IP_BYTES;
        let mut echo = vec![0; length];
        echo[0] = ECHO_REQUEST;
        echo[4..6].copy_from_slice(&self.ident.to_be_bytes());
        echo[6..8].copy_from_slice(&number.to_be_bytes());
        let sum = checksum(&[&echo]);
        echo[2..4].copy_from_slice(&sum.to_be_bytes());
        self.sent.push(Instant::now());
        let to = SockaddrIn::from(SocketAddrV4::new(self.probe.to, 0));
        match sendto(self.socket.as_raw_fd(), &echo, &to, MsgFlags::empty()) {
            // A packet that this node's own filter or full queues dropped: lost like any other.
            Ok(_) | Err(Errno::EPERM | Errno::ENOBUFS | Errno::EAGAIN) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Collects answers until then, or until all have come if that is enough.
    fn listen_until(&mut self, end: Instant, all_suffice: bool) -> nix::Result<()> {
        loop {
            self.read()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || (all_suffice && self.answered() == self.sent.len()) {
                return Ok(());
            }
            let mut ends = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match ppoll(&mut ends, Some(TimeSpec::from_duration(left)), None) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn read(&mut self) -> nix::Result<()> {
        let mut bytes = [0; 2048];
        loop {
            let length = match recv(self.socket.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
                Ok(length) => length,
                Err(Errno::EAGAIN) => return Ok(()),
                // News of an unreachable address: no answer, and that is all there is to it.
                Err(Errno::EHOSTUNREACH | Errno::ENETUNREACH | Errno::ECONNREFUSED | Errno::EINTR) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let now = Instant::now();
            let Some(number) = self.answer_to(&bytes[..length]) else { continue };
            if let Some(sent) = self.sent.get(usize::from(number)) {
                self.answers.push((number, now - *sent));
            }
        }
    }

    fn answer_to(&self, packet: &[u8]) -> Option<u16> {
        let icmp = packet.get(usize::from(packet.first()? & 0xf) * 4..)?;
        let source: [u8; 4] = packet.get(12..16)?.try_into().ok()?;
        let ident = u16::from_be_bytes(icmp.get(4..6)?.try_into().ok()?);
        let ours = icmp[0] == ECHO_REPLY && ident == self.ident && Ipv4Addr::from(source) == self.probe.to;
        ours.then(|| Some(u16::from_be_bytes(icmp.get(6..8)?.try_into().ok()?)))?
    }

    fn answered(&self) -> usize {
        self.first_answers().len()
    }

    fn first_answers(&self) -> BTreeMap<u16, Duration> {
        // Later entries of a map replace earlier ones: the first answer is put in last.
        self.answers.iter().rev().copied().collect()
    }

    fn echoes(&self) -> Echoes {
        let first = self.first_answers();
        let mut newest = 0;
        let mut overtaken = 0;
        for (number, _) in &self.answers {
            overtaken += u64::from(*number < newest);
            newest = newest.max(*number);
        }
        let mut round_trips: Vec<f64> = first.values().map(|time| time.as_secs_f64() * 1e3).collect();
        round_trips.sort_unstable_by(f64::total_cmp);
        let at = |index: usize| round_trips.get(index).map(|ms| (ms * 1e3).round() / 1e3);
        Echoes {
            sent: self.sent.len() as u64,
            answered: first.len() as u64,
            duplicates: (self.answers.len() - first.len()) as u64,
            overtaken,
            median_ms: at(round_trips.len() / 2),
            least_ms: at(0),
            most_ms: at(round_trips.len().wrapping_sub(1)),
        }
    }
}
