//! The project's own network emulator: a thread takes packets from the kernel's queue and lets each go on at
//! its time. If it ends, the kernel loses what it held and lets the rest pass (`--queue-bypass`).

use super::chain::Chain;
use super::engine::{ImpairmentTable, PacketsEngine, PacketsError};
use super::fate::{Counts, Link};
use super::impairment::Impairment;
use super::queue::{Inbox, Packet, Queue, Show};
use super::segment::{Segment, connection};
use nix::libc;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeSpec;
use parking_lot::Mutex;
use rand::rngs::SmallRng;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The queue's number, unlikely to be anybody else's in a node's network.
const QUEUE: u16 = 20_011;

/// Packets taken in at once before the due ones get their turn.
const AT_ONCE: usize = 64;

/// While packets come faster than this one by one, they are waited for so long and taken in together, as
/// network cards do: else this thread and the server it slows down would only take turns on the processor.
const GATHERING: Duration = Duration::from_micros(100);

pub(super) struct Emulator {
    chain: Chain,
    worker: Option<Worker>,
}

struct Worker {
    shared: Arc<Mutex<SharedEmulator>>,
    wake_sender: UnixStream,
    thread: JoinHandle<io::Result<()>>,
}

#[derive(Default)]
struct SharedEmulator {
    links: HashMap<Ipv4Addr, Link>,
    stop: bool,
}

impl Emulator {
    pub fn new() -> Emulator {
        Emulator { chain: Chain::new(QUEUE), worker: None }
    }

    pub fn try_out() -> Result<(), PacketsError> {
        Queue::open(QUEUE)
            .map_err(|error| PacketsError(format!("the kernel gives no packet queue (NFQUEUE): {error}")))?;
        Chain::new(QUEUE).try_out()
    }

    fn start(&mut self) -> Result<&Worker, PacketsError> {
        let failed = |error: io::Error| PacketsError(format!("the packet emulator did not start: {error}"));
        if self.worker.as_ref().is_some_and(|worker| worker.thread.is_finished()) {
            self.stop()?;
        }
        match self.worker {
            Some(ref worker) => Ok(worker),
            None => Ok(self.worker.insert(Worker::start().map_err(failed)?)),
        }
    }

    fn stop(&mut self) -> Result<(), PacketsError> {
        let Some(worker) = self.worker.take() else { return Ok(()) };
        worker.shared.lock().stop = true;
        worker.ring();
        match worker.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(PacketsError(format!("the packet emulator broke down: {error}"))),
            Err(_) => Err(PacketsError("the packet emulator panicked".to_owned())),
        }
    }
}

impl PacketsEngine for Emulator {
    fn apply(&mut self, table: &ImpairmentTable) -> Result<(), PacketsError> {
        if table.is_empty() {
            // First the rules, so that no packet comes any more to a queue that is being closed.
            let unruled = self.chain.apply([]);
            self.stop()?;
            return unruled;
        }
        let worker = self.start()?;
        {
            let mut shared = worker.shared.lock();
            shared.links.retain(|address, _| table.contains_key(address));
            for (address, impairment) in table {
                let link = shared.links.entry(*address).or_insert_with(|| Link::new(Impairment::default()));
                link.set(*impairment);
            }
        }
        worker.ring();
        self.chain.apply(table.keys().copied())
    }

    fn counts(&self) -> Result<BTreeMap<Ipv4Addr, Counts>, PacketsError> {
        let Some(worker) = &self.worker else { return Ok(BTreeMap::new()) };
        if worker.thread.is_finished() {
            return Err(PacketsError(
                "the packet emulator broke down, and packets pass untouched".to_owned(),
            ));
        }
        Ok(worker.shared.lock().links.iter().map(|(address, link)| (*address, link.counts)).collect())
    }

    fn is_gone(&self) -> Result<bool, PacketsError> {
        Ok(self.worker.is_none() && self.chain.is_gone()?)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // A drop has no caller to report an error to.
        let _ = self.apply(&ImpairmentTable::new());
    }
}

impl Worker {
    fn start() -> io::Result<Worker> {
        let (wake_sender, wake_receiver) = UnixStream::pair()?;
        wake_sender.set_nonblocking(true)?;
        wake_receiver.set_nonblocking(true)?;
        let shared = Arc::new(Mutex::new(SharedEmulator::default()));
        let event_loop = EventLoop {
            queue: Queue::open(QUEUE)?,
            copies: raw_socket()?,
            wake_receiver,
            shared: shared.clone(),
            held: BinaryHeap::new(),
            originals: 0,
            showing: Show::Headers,
            begun: Instant::now(),
            taken: 0,
            random: rand::make_rng(),
        };
        let thread =
            std::thread::Builder::new().name("packets".to_owned()).spawn(move || event_loop.run())?;
        Ok(Worker { shared, wake_sender, thread })
    }

    fn ring(&self) {
        // Full: then it rings already.
        let _ = (&self.wake_sender).write(&[1]);
    }
}

/// Makes this thread wake when it asked to, even where servers and clients keep every core busy. Without the
/// right to do so (in most nodes) packets are late by what the machine's load makes of it.
fn raise_timer_precision() {
    // By default a sleeper may be woken 50 µs late.
    let _ = nix::sys::prctl::set_timerslack(1);
    let first = libc::sched_param { sched_priority: 1 };
    // SAFETY: the kernel only reads `first`; 0 is this very thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const first) };
}

/// Sends packets as they are, past the emulator's own rule.
fn raw_socket() -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)?;
    setsockopt(&socket, sockopt::Mark, &super::chain::COPY_MARK)?;
    Ok(socket)
}

struct EventLoop {
    queue: Queue,
    copies: OwnedFd,
    wake_receiver: UnixStream,
    shared: Arc<Mutex<SharedEmulator>>,
    held: BinaryHeap<Reverse<HeldPacket>>,
    /// How many of those held are in the kernel's keeping.
    originals: usize,
    showing: Show,
    begun: Instant,
    /// Packets taken in so far; those that fall due together leave in this order.
    taken: u64,
    random: SmallRng,
}

/// A packet that waits for its time. Ordered by that, then by arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct HeldPacket {
    due_ns: u64,
    order: u64,
    destination: Ipv4Addr,
    form: PacketForm,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PacketForm {
    /// The packet of that number, in the kernel's keeping.
    Original(u32),
    Copy(Vec<u8>),
}

impl EventLoop {
    fn run(mut self) -> io::Result<()> {
        raise_timer_precision();
        let mut inbox = Inbox::new();
        let mut taken = self.begun;
        loop {
            self.release(self.now_ns())?;
            let woken = self.wait()?;
            if taken.elapsed() < GATHERING {
                std::thread::sleep(GATHERING);
            }
            taken = Instant::now();
            self.take_in(&mut inbox)?;
            if woken && self.apply_changes()? {
                while self.take_in(&mut inbox)? {}
                return self.release(u64::MAX);
            }
        }
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn release(&mut self, now_ns: u64) -> io::Result<()> {
        let mut verdicts = Vec::new();
        while self.held.peek().is_some_and(|Reverse(next)| next.due_ns <= now_ns) {
            let Some(Reverse(held)) = self.held.pop() else { break };
            match held.form {
                PacketForm::Original(id) => {
                    self.originals -= 1;
                    verdicts.push((id, true));
                }
                PacketForm::Copy(bytes) => self.send_copy(&bytes, held.destination),
            }
        }
        // Numbers wrap around.
        let in_order = verdicts.is_sorted_by(|(one, _), (next, _)| next.wrapping_sub(*one) as i32 > 0);
        match verdicts.last() {
            // One word for all, where none of those before the last is to wait, nor to be overtaken.
            Some((last, _)) if self.originals == 0 && in_order => self.queue.pass_up_to(*last),
            _ => self.queue.judge(&verdicts),
        }
    }

    fn send_copy(&self, bytes: &[u8], destination: Ipv4Addr) {
        let to = SockaddrIn::from(std::net::SocketAddrV4::new(destination, 0));
        // A copy that cannot be sent (no route any more) is one that the network lost.
        let _ = sendto(self.copies.as_raw_fd(), bytes, &to, MsgFlags::empty());
    }

    /// Waits for packets, for the next to fall due, or for a wake-up; gives whether it was a wake-up.
    fn wait(&self) -> io::Result<bool> {
        let next = self.held.peek().map(|Reverse(next)| next.due_ns.saturating_sub(self.now_ns()));
        let timeout = next.map(|ns| TimeSpec::from_duration(Duration::from_nanos(ns)));
        let mut ends = [
            PollFd::new(self.queue.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.wake_receiver.as_fd(), PollFlags::POLLIN),
        ];
        match ppoll(&mut ends, timeout, None) {
            Ok(_) => Ok(ends[1].any().unwrap_or(true)),
            Err(nix::Error::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes in some of the waiting packets, and decides about each; gives whether as many as fit came.
    fn take_in(&mut self, inbox: &mut Inbox) -> io::Result<bool> {
        let mut packets = Vec::new();
        while packets.len() < AT_ONCE && self.queue.receive(inbox, &mut packets)? {}
        let (full, now_ns) = (packets.len() >= AT_ONCE, self.now_ns());
        let (mut lost, now) = (Vec::new(), Instant::now());
        let shared = self.shared.clone();
        let mut shared = shared.lock();
        for packet in packets {
            let Packet { id, destination, length, whole } = packet;
            let Some(link) = shared.links.get_mut(&destination) else {
                self.hold(now_ns, destination, PacketForm::Original(id));
                continue;
            };
            let connection = whole.as_deref().filter(|_| link.impairment.idle_ms > 0).and_then(connection);
            if connection.is_some_and(|(ports, opens)| link.forgets(now, ports, opens)) {
                lost.push((id, false));
                continue;
            }
            // A link without faults of its own looks inside for copies only.
            let looked_into = whole.as_deref().filter(|_| link.impairment.needs_emulator());
            let segment = looked_into.and_then(Segment::with_data);
            let of_data =
                segment.and_then(|segment| link.fate_of_data(now_ns, segment.ports(), &mut self.random));
            let fate = of_data.unwrap_or_else(|| link.fate(now_ns, length, &mut self.random));
            if let Some(segment) = segment.filter(|_| fate.reset) {
                self.send_copy(&segment.reset(), destination);
            }
            match fate.due_ns {
                Some(due_ns) => self.hold(due_ns, destination, PacketForm::Original(id)),
                None => lost.push((id, false)),
            }
            if let (Some(due_ns), Some(bytes)) = (fate.copy_due_ns, whole) {
                self.hold(due_ns, destination, PacketForm::Copy(bytes));
            }
        }
        drop(shared);
        self.queue.judge(&lost)?;
        Ok(full)
    }

    fn hold(&mut self, due_ns: u64, destination: Ipv4Addr, form: PacketForm) {
        self.taken += 1;
        self.originals += usize::from(matches!(form, PacketForm::Original(_)));
        self.held.push(Reverse(HeldPacket { due_ns, order: self.taken, destination, form }));
    }

    /// Does what the tool asks for; gives whether that is to stop.
    fn apply_changes(&mut self) -> io::Result<bool> {
        while (&self.wake_receiver).read(&mut [0; 64]).is_ok_and(|bytes| bytes > 0) {}
        let shared = self.shared.clone();
        let shared = shared.lock();
        let looks_inside = |link: &Link| link.impairment.duplicate > 0.0 || link.impairment.needs_emulator();
        let show = if shared.links.values().any(looks_inside) { Show::Whole } else { Show::Headers };
        if show != self.showing {
            self.queue.show(show)?;
            self.showing = show;
        }
        // Healed links let go of what they hold.
        let held = std::mem::take(&mut self.held).into_vec();
        self.held = held
            .into_iter()
            .map(|Reverse(mut held)| {
                if !shared.links.contains_key(&held.destination) {
                    held.due_ns = 0;
                }
                Reverse(held)
            })
            .collect();
        Ok(shared.stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_first_goes_on_first_and_of_what_is_due_together_the_earlier_packet() {
        let held = |due_ns, order, id| HeldPacket {
            due_ns,
            order,
            destination: Ipv4Addr::LOCALHOST,
            form: PacketForm::Original(id),
        };
        let mut all =
            BinaryHeap::from([held(7, 1, 9), held(5, 3, 1), held(5, 2, 8), held(6, 4, 2)].map(Reverse));
        let ids = std::iter::from_fn(|| all.pop()).map(|Reverse(held)| match held.form {
            PacketForm::Original(id) => id,
            PacketForm::Copy(_) => unreachable!("there is none"),
        });
        assert_eq!(ids.collect::<Vec<_>>(), [8, 1, 2, 9]);
    }
}
