//! What a nemesis is: a value that describes it, how its faults are drawn, and how one of them is made ready.

use crate::fault::Fault;
use crate::options::NemesisOptions;
use crate::plan::aim::{Aim, DrawnAim};
use crate::plan::topology::{ServerFaults, Topology};
use fencepost_cluster::Capability;
use fencepost_history::{Refusal, Stream, read_fields};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::time::Duration;

/// What there is to know about a nemesis before any of its faults is injected.
#[derive(Clone, Copy, Debug)]
pub struct NemesisDescription {
    /// As on the command line.
    pub name: &'static str,
    /// One line for `fencepost list`.
    pub about: &'static str,
    /// What it does to a node, in a word; two of one kind on one node are refused. None: they add up.
    pub kind: Option<&'static str>,
    pub takes_down: bool,
    /// What a driver must offer for it.
    pub needs: &'static [Capability],
    pub needs_one_of: &'static [Capability],
    /// Whether each server's data must lie on a disk that can be broken ([`crate::prepare_disk`]).
    pub prepares_disks: bool,
    /// Options of the command line that shape its faults, and not those of every nemesis: `restart-after`.
    pub options: &'static [&'static str],
    /// Whether a drawn fault waits for the next acquire, since it matters only to the holder of that moment.
    pub awaits_holder: bool,
    /// Whether it ends its targets. The storage keeps its data in memory, and must not be ended.
    pub ends_targets: bool,
    /// Whether clients among its targets end for good: unlike a server, a client is not started again.
    pub ends_clients: bool,
    pub servers_only: bool,
    /// Whether it acts on the packets between nodes, so that it can be aimed at a flow.
    pub on_packets: bool,
    /// Whether servers inject it into themselves, by an order that not every service has.
    pub by_order: bool,
    /// Whether it changes what names stand for: its targets are clients that connect by name.
    pub by_name: bool,
    /// Whether a user's command can inject and heal its faults of servers that exist without the run.
    pub by_hook: bool,
    /// Whether its parameters are groups of nodes that it parts, instead of targets and their peers.
    pub parts_groups: bool,
    /// The aims of three of four drawn faults. A run takes them in turns, the most harmful ones first.
    pub aims: &'static [Aim],
}

impl NemesisDescription {
    pub(crate) const fn new(name: &'static str, about: &'static str) -> NemesisDescription {
        NemesisDescription {
            name,
            about,
            kind: Some(name),
            takes_down: false,
            needs: &[Capability::Signal],
            needs_one_of: &[],
            prepares_disks: false,
            options: &[],
            awaits_holder: false,
            ends_targets: false,
            ends_clients: false,
            servers_only: false,
            on_packets: false,
            by_order: false,
            by_name: false,
            by_hook: false,
            parts_groups: false,
            aims: &[],
        }
    }

    /// Refuses to draw faults from options that are not given. Errors: which are missing.
    pub fn check_options(&self, options: &NemesisOptions) -> Result<(), Refusal> {
        match self.options.contains(&"fault-command") && options.fault_command.is_none() {
            true => Err(Refusal::new(format!(
                "{} carries out commands of yours: give --fault-command, --heal-command and --observe-command",
                self.name
            ))),
            false => Ok(()),
        }
    }

    /// Refuses servers that it cannot do anything to. Errors: why not.
    pub fn check_servers(&self, topology: &Topology) -> Result<(), Refusal> {
        if self.servers_only && !self.reaches_servers(topology.server_faults) {
            return Err(Refusal::new(format!(
                "{} is a fault of servers that the run starts itself, and those of --servers exist without it; {}",
                self.name,
                what_remains(topology.server_faults)
            )));
        }
        if self.by_name && (!topology.by_name || topology.server_faults != ServerFaults::All) {
            return Err(Refusal::new(format!(
                "{} changes what the names of servers stand for, and clients here connect by address: give --by-name",
                self.name
            )));
        }
        match self.by_order && topology.orders_of(self.name).is_empty() {
            true => Err(Refusal::new(format!(
                "{} is an order that these servers do not have: docs/nemeses.md says which do",
                self.name
            ))),
            false => Ok(()),
        }
    }

    /// Refuses a target that does not exist, or that this fault cannot be injected into. Errors: why not.
    pub fn check_target(&self, name: &str, topology: &Topology) -> Result<(), Refusal> {
        topology.check_target(name)?;
        self.check_servers(topology)?;
        let all_servers = topology.candidates(name).iter().all(|node| topology.servers.contains(node));
        if self.servers_only && !all_servers {
            let servers = topology.servers.join(", ");
            return Err(Refusal::new(format!(
                "{} is a fault of servers, and {name} is none: name a server ({servers})",
                self.name
            )));
        }
        if self.by_name && topology.candidates(name).iter().any(|node| !topology.clients.contains(node)) {
            let clients = topology.clients.join(", ");
            return Err(Refusal::new(format!(
                "{} is a fault of clients, and {name} is none: name a client ({clients})",
                self.name
            )));
        }
        let are_servers = topology.candidates(name).iter().any(|node| topology.servers.contains(node));
        if are_servers && !self.reaches_servers(topology.server_faults) {
            return Err(Refusal::new(format!(
                "{} cannot be injected into {name}: the servers of --servers exist without the run; {}",
                self.name,
                what_remains(topology.server_faults)
            )));
        }
        if self.ends_targets && topology.storage.as_deref() == Some(name) {
            return Err(Refusal::new(format!(
                "{} would end the storage, which keeps its data in memory: what is lost then says nothing of the lock",
                self.name
            )));
        }
        Ok(())
    }

    /// Whether it can touch servers to which this can be done.
    pub(crate) fn reaches_servers(&self, possible: ServerFaults) -> bool {
        match possible {
            ServerFaults::All => true,
            ServerFaults::ByHook => self.by_hook || self.on_packets,
            ServerFaults::Packets => self.on_packets,
        }
    }

    pub(crate) fn reachable<'a>(&self, topology: &'a Topology) -> Cow<'a, Topology> {
        match self.reaches_servers(topology.server_faults) {
            true => Cow::Borrowed(topology),
            false => Cow::Owned(Topology { servers: Vec::new(), has_leader: false, ..topology.clone() }),
        }
    }

    /// What it needs and these capabilities lack, in words; none where it can run.
    pub fn unmet(&self, offered: &[Capability]) -> Option<String> {
        if let Some(missing) = self.needs.iter().find(|need| !offered.contains(need)) {
            return Some(format!("{missing:?}"));
        }
        let one_of = self.needs_one_of;
        let met = one_of.is_empty() || one_of.iter().any(|need| offered.contains(need));
        (!met).then(|| format!("one of {one_of:?}"))
    }
}

/// Faults of packets, of clients, and by a hook for existing servers; a test of the registry compares.
pub(crate) const REMAINING: [&str; 3] = [
    "partition, delay, loss, reorder, duplicate, slow, stall, reset, half-open",
    "clock-jump, clock-drift, clock-strobe, clock-freeze, pause, thread-pause, cpu, kill, terminate, command",
    "pause, kill",
];

fn what_remains(possible: ServerFaults) -> String {
    let [packets, clients, by_hook] = REMAINING;
    let by_hook = match possible {
        ServerFaults::ByHook => format!(", {by_hook} of servers by --server-hook"),
        _ => String::new(),
    };
    format!("there remain {packets} of packets, {clients} of clients{by_hook}")
}

/// What the command line says about nemeses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NemesisSettings {
    pub time_limit: Duration,
    /// Mean time between the end of a fault and the beginning of the next of the same nemesis.
    pub interval: Duration,
    pub options: NemesisOptions,
}

/// A drawn fault: its targets, how long it lasts, and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw<P = Map<String, Value>> {
    pub on: Vec<String>,
    pub length: Duration,
    pub parameters: P,
}

/// What faults are drawn from: whom they can hit, what was asked for, and chance.
pub struct Drawing<'a> {
    pub topology: &'a Topology,
    pub settings: &'a NemesisSettings,
    pub random: &'a mut Stream,
}

/// A nemesis, as plans and the engine use it: its parameters are those of a file.
pub trait Nemesis: Send + Sync {
    fn description(&self) -> NemesisDescription;
    /// Draws targets, length and parameters of a fault. None where this topology offers no target.
    fn draw(&self, topology: &Topology, settings: &NemesisSettings, random: &mut Stream) -> Option<Draw>;
    /// Draws a fault with the targets of this aim.
    fn draw_aimed(&self, aim: &DrawnAim, from: Drawing<'_>) -> Option<Draw>;
    /// Makes a fault ready; refuses parameters that it does not take.
    fn prepare(&self, on: &[String], parameters: &Map<String, Value>) -> Result<Box<dyn Fault>, Refusal>;
}

impl dyn Nemesis + '_ {
    /// The name, as on the command line.
    pub fn name(&self) -> &'static str {
        self.description().name
    }
}

/// A nemesis as it is written: its parameters are a struct, which is drawn, read from a plan, and recorded.
pub(crate) trait TypedNemesis: Send + Sync {
    type Parameters: Serialize + DeserializeOwned;
    fn description(&self) -> NemesisDescription;
    fn draw(&self, from: &mut Drawing<'_>) -> Option<Draw<Self::Parameters>>;
    /// Fits a drawn fault to what it is aimed at; its targets and its length are those of the aim already.
    /// What is drawn here must give the violation that the aim makes possible the time to happen.
    fn adapt_to_aim(
        &self,
        drawn: Draw<Self::Parameters>,
        _aim: &DrawnAim,
        _from: &mut Drawing<'_>,
    ) -> Draw<Self::Parameters> {
        drawn
    }
    fn read(&self, parameters: &Map<String, Value>) -> Result<Self::Parameters, Refusal> {
        read_fields(parameters)
    }
    fn prepare(&self, on: &[String], parameters: Self::Parameters) -> Result<Box<dyn Fault>, Refusal>;
}

type Prepare<P> = fn(&[String], P) -> Result<Box<dyn Fault>, Refusal>;

/// A nemesis as a row: what it is, and the functions that draw its faults and make one ready.
pub(crate) struct NemesisRow<P> {
    pub description: NemesisDescription,
    pub draw: fn(&mut Drawing<'_>) -> Option<Draw<P>>,
    pub adapt_to_aim: fn(Draw<P>, &DrawnAim, &mut Drawing<'_>) -> Draw<P>,
    pub prepare: Prepare<P>,
}

impl<P: Serialize + DeserializeOwned> TypedNemesis for NemesisRow<P> {
    type Parameters = P;

    fn description(&self) -> NemesisDescription {
        self.description
    }

    fn draw(&self, from: &mut Drawing<'_>) -> Option<Draw<P>> {
        (self.draw)(from)
    }

    fn adapt_to_aim(&self, drawn: Draw<P>, aim: &DrawnAim, from: &mut Drawing<'_>) -> Draw<P> {
        (self.adapt_to_aim)(drawn, aim, from)
    }

    fn prepare(&self, on: &[String], parameters: P) -> Result<Box<dyn Fault>, Refusal> {
        (self.prepare)(on, parameters)
    }
}

impl<N: TypedNemesis> Nemesis for N {
    fn description(&self) -> NemesisDescription {
        TypedNemesis::description(self)
    }

    fn draw(&self, topology: &Topology, settings: &NemesisSettings, random: &mut Stream) -> Option<Draw> {
        let topology = &*TypedNemesis::description(self).reachable(topology);
        TypedNemesis::draw(self, &mut Drawing { topology, settings, random }).map(untyped)
    }

    fn draw_aimed(&self, aim: &DrawnAim, from: Drawing<'_>) -> Option<Draw> {
        let topology = &*TypedNemesis::description(self).reachable(from.topology);
        let from = &mut Drawing { topology, ..from };
        let drawn = TypedNemesis::draw(self, from)?;
        let length = aim.length.unwrap_or(drawn.length);
        let drawn = Draw { on: aim.on.clone(), length, ..drawn };
        Some(untyped(self.adapt_to_aim(drawn, aim, from)))
    }

    fn prepare(&self, on: &[String], parameters: &Map<String, Value>) -> Result<Box<dyn Fault>, Refusal> {
        TypedNemesis::prepare(self, on, self.read(parameters)?)
    }
}

fn untyped<P: Serialize>(draw: Draw<P>) -> Draw {
    let Ok(Value::Object(mut parameters)) = serde_json::to_value(draw.parameters) else {
        unreachable!("parameters are a struct with named fields");
    };
    // What was not drawn is not written.
    parameters.retain(|_, value| !value.is_null());
    Draw { on: draw.on, length: draw.length, parameters }
}

#[derive(Clone, Copy, Debug, Default, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoParameters {}
