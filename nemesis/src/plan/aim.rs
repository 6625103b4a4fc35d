//! What drawn faults are aimed at: a role and a moment of the lock's life. Three of four have an aim.

use crate::plan::distributions::{around_ttl, millis};
use crate::plan::roles::{LEADER, Role};
use crate::plan::topology::{RecipePoint, Topology};
use crate::plan::trigger::Trigger;
use fencepost_history::{Kind, Stream, f};
use rand::RngExt;
use rand::seq::IndexedRandom;
use std::time::Duration;

/// A moment of a lock's life that a drawn fault waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Granted,
    /// A process is granted the lock, and will use it for a good part of the TTL.
    GrantedForLong,
    /// A process has read, and will write so much later that a fault can come between.
    BeforeWrite,
    Releasing,
    /// A process begins to acquire: a majority is being collected.
    Collecting,
    /// A process is between two steps of its acquire, while no other has the lock.
    AcquirePoint,
    /// A process that holds the lock is between two steps of its recipe.
    HolderPoint,
    /// A process has read, and will write a little later.
    Read,
}

/// A section that lasts this part of the TTL leaves a fault the time to matter.
const LONG: f64 = 0.4;
/// A write this long after the read comes after the injection; this part of the TTL, where that is shorter.
const WRITE: Duration = Duration::from_millis(150);
const WRITE_TTLS: f64 = 0.25;
/// A write that comes so long after the read mostly comes after what a healing sets free; so much of the TTL,
/// where that is shorter. Not longer, or the reader that a guard will remember has written by then.
const SOON: Duration = Duration::from_millis(8);
const SOON_TTLS: f64 = 0.05;

impl Moment {
    fn triggers(self, topology: &Topology) -> Vec<Trigger> {
        let at = |point: &RecipePoint| Trigger {
            point: Some(point.name.clone()),
            free: point.is_acquiring,
            ..Trigger::of(f::AT)
        };
        let points = |is_acquiring| {
            topology.points.iter().filter(move |point| point.is_acquiring == is_acquiring).map(at)
        };
        let at_most_ms = |time: Duration, ttls| Some(millis(time.min(topology.ttl.mul_f64(ttls))));
        let section_ms = Some(millis(topology.ttl.mul_f64(LONG)));
        let of = |f: &str, kind: Kind| Trigger::of(f).with_kind(kind);
        let trigger = match self {
            Moment::AcquirePoint => return points(true).collect(),
            Moment::HolderPoint => return points(false).collect(),
            Moment::BeforeWrite | Moment::Read if topology.storage.is_none() => return Vec::new(),
            Moment::Granted => of(f::ACQUIRE, Kind::Ok),
            Moment::GrantedForLong => Trigger { section_ms, ..of(f::ACQUIRE, Kind::Ok) },
            Moment::Read => Trigger { write_ms: at_most_ms(SOON, SOON_TTLS), ..of(f::READ, Kind::Ok) },
            Moment::BeforeWrite => {
                Trigger { write_ms: at_most_ms(WRITE, WRITE_TTLS), ..of(f::READ, Kind::Ok) }
            }
            Moment::Releasing => of(f::RELEASE, Kind::Invoke),
            Moment::Collecting => of(f::ACQUIRE, Kind::Invoke),
        };
        vec![trigger]
    }
}

/// The other end of a flow that a fault of packets is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherEnd {
    Storage,
    Servers,
    ServersAndStorage,
    Followers,
    Majority,
    /// A minority of the servers with half of the clients, so that each side may believe that it is all.
    OtherHalf,
}

impl OtherEnd {
    pub(crate) fn has_storage(self) -> bool {
        matches!(self, OtherEnd::Storage | OtherEnd::ServersAndStorage)
    }

    /// Its nodes, some of which may be roles; none where this run has no such nodes.
    fn names(self, topology: &Topology) -> Option<Vec<String>> {
        let storage = || topology.storage.iter().cloned().collect::<Vec<_>>();
        let names = match self {
            OtherEnd::Storage => storage(),
            OtherEnd::Servers => topology.servers.clone(),
            OtherEnd::ServersAndStorage if topology.storage.is_none() => Vec::new(),
            OtherEnd::ServersAndStorage => [topology.servers.clone(), storage()].concat(),
            OtherEnd::Majority if topology.servers.len() >= 3 => {
                topology.servers.iter().take(topology.majority()).cloned().collect()
            }
            OtherEnd::OtherHalf if topology.servers.len() >= 3 && !topology.has_leader => {
                topology.servers.clone()
            }
            OtherEnd::Majority | OtherEnd::OtherHalf => Vec::new(),
            OtherEnd::Followers => match topology.servers.len() {
                servers @ 2.. if topology.has_leader => {
                    vec![format!("{}:{}", Role::Follower.name(), servers - 1)]
                }
                _ => Vec::new(),
            },
        };
        (!names.is_empty()).then_some(names)
    }
}

/// What a nemesis can be aimed at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Aim {
    pub role: Role,
    pub other_end: Option<OtherEnd>,
    pub moments: &'static [Moment],
    /// Shortest and longest fault, in TTLs: time for what the aim makes possible; none: the nemesis's.
    pub around: Option<(f64, f64)>,
    /// Moments at one of which it ends, if that comes before its time is over; none: when its time is over.
    pub until: &'static [Moment],
}

impl Aim {
    pub(crate) const fn at(role: Role, moments: &'static [Moment]) -> Aim {
        Aim { role, other_end: None, moments, around: None, until: &[] }
    }

    pub(crate) const fn between(role: Role, other_end: OtherEnd, moments: &'static [Moment]) -> Aim {
        Aim { role, other_end: Some(other_end), moments, around: None, until: &[] }
    }

    pub(crate) const fn lasting(self, around: (f64, f64)) -> Aim {
        Aim { around: Some(around), ..self }
    }

    pub(crate) const fn until(self, moments: &'static [Moment]) -> Aim {
        Aim { until: moments, ..self }
    }

    /// The targets, `granting` servers at most; none without a node of the role, or without another client.
    fn targets(&self, topology: &Topology, granting: usize) -> Option<Vec<String>> {
        let (servers, clients) = (topology.servers.len(), topology.clients.len());
        let granted = |count: usize| match servers {
            1 => Role::Granting.name().to_owned(),
            _ => format!("{}:{count}", Role::Granting.name()),
        };
        let target = match self.role {
            Role::Holder | Role::Waiter if clients > 1 => self.role.name().to_owned(),
            Role::Granting if servers > 0 => granted(granting),
            Role::Leader if topology.has_leader => LEADER.to_owned(),
            // Each server stands for itself, and leads for those whom it granted the lock.
            Role::Leader if servers > 0 => granted(1),
            Role::Follower if topology.has_leader && servers > 1 => Role::Follower.name().to_owned(),
            _ => return None,
        };
        Some(vec![target])
    }

    /// Whether it waits for a point of the recipe, which most recipes lack.
    pub(crate) fn is_at_point(&self) -> bool {
        self.moments.iter().any(|moment| matches!(moment, Moment::AcquirePoint | Moment::HolderPoint))
    }

    /// Its targets, other end and events in this run; none where the run lacks one of them.
    pub fn possible(&self, topology: &Topology) -> Option<PossibleAim> {
        let on = self.targets(topology, topology.majority())?;
        let peers = self.other_end.map_or(Some(Vec::new()), |end| end.names(topology))?;
        let moments: Vec<Trigger> =
            self.moments.iter().flat_map(|moment| moment.triggers(topology)).collect();
        let cuts_off = matches!(self.other_end, Some(OtherEnd::Majority | OtherEnd::OtherHalf));
        (!moments.is_empty()).then_some(PossibleAim { on, peers, moments, cuts_off })
    }
}

/// What an aim comes to in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PossibleAim {
    pub on: Vec<String>,
    /// For faults of packets, the other end of the flow; else empty.
    pub peers: Vec<String>,
    pub moments: Vec<Trigger>,
    /// Whether the other end is a part of the servers only.
    pub cuts_off: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DrawnAim {
    pub aim: Aim,
    pub on: Vec<String>,
    /// For faults of packets, the other end of the flow; else empty.
    pub peers: Vec<String>,
    pub then: Trigger,
    /// The event at which it ends, if that comes before its time is over.
    pub until: Option<Trigger>,
    /// How long the fault lasts; none: as long as it was drawn.
    pub length: Option<Duration>,
}

/// How often a fault is on a majority of the servers that granted: with fewer, the lock is not always free.
const MAJORITY: f64 = 0.75;

/// Which of the aims that a run allows is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichAim {
    Any,
    /// In turns, the one in that place of those that wait for no point. The first breaks most locks.
    InTurn(usize),
    /// One that waits for a point of the recipe, drawn.
    AtPoint,
}

/// Takes one of the aims that this run allows; none where it allows none such.
pub(crate) fn draw_aim(
    aims: &[Aim],
    which: WhichAim,
    topology: &Topology,
    random: &mut Stream,
) -> Option<DrawnAim> {
    let possible =
        aims.iter().filter(|aim| which == WhichAim::Any || aim.is_at_point() == (which == WhichAim::AtPoint));
    let possible: Vec<(&Aim, PossibleAim)> =
        possible.filter_map(|aim| Some((aim, aim.possible(topology)?))).collect();
    let (aim, PossibleAim { peers, moments, .. }) = match which {
        WhichAim::InTurn(turn) if !possible.is_empty() => &possible[turn % possible.len()],
        _ => possible.choose(random)?,
    };
    let majority = topology.majority();
    let granting = match random.random_bool(MAJORITY) {
        true => majority,
        false => random.random_range(1..=majority),
    };
    let length = aim.around.map(|(shortest, longest)| around_ttl(topology.ttl, shortest, longest, random));
    Some(DrawnAim {
        aim: **aim,
        on: aim.targets(topology, granting)?,
        peers: peers.clone(),
        then: moments.choose(random)?.clone(),
        until: aim.until.choose(random).and_then(|moment| moment.triggers(topology).pop()),
        length,
    })
}
