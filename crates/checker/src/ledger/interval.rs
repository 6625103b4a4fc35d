use crate::prose::seconds;

/// Why a moment is a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Asked,
    Answered,
    /// The library's own word dates the granted attempt, less how late answers were in this run.
    Validity {
        doubt_ns: u64,
    },
    /// Until then this process's hold of the lock cannot have ended.
    HeldBy {
        process: u64,
    },
    /// No server could be reached then: all were down, or the client was parted from them.
    NoServer,
    /// The lease of the grant, counted from its earliest beginning, is over then.
    LeaseOfGrant,
    /// The same, counted from its latest beginning: the answer.
    LeaseOfAnswer,
    /// The lease, counted from the last renewal that is known.
    LeaseOfRenewal,
    ReleaseBegan,
    /// The answer to it was recorded then, or the history has none.
    ReleaseEnded,
    LossReported,
    /// The grant can have ended no earlier than it began.
    Granted,
    LastSign,
    FaultBegan {
        id: u64,
    },
    /// The healing of a fault began then: before, all servers were stopped, and ended nothing.
    FaultHealing {
        id: u64,
    },
    FaultOver {
        id: u64,
    },
    ServerEnded,
    /// The machine gave nodes hardly any time from then on.
    MachineStalled,
    /// The process acquired the lock once more.
    Reacquired,
    /// The process of a lock that was lost released or acquired it again then, or was over.
    GivenBack,
    /// Nothing says more.
    Open,
}

impl Reason {
    /// A clause for a table.
    pub fn in_words(self) -> String {
        match self {
            Reason::Asked => "the acquire was invoked".to_owned(),
            Reason::Answered => "its answer came".to_owned(),
            Reason::Validity { doubt_ns } => {
                format!("the reported validity, less {} (the latest answer of this run)", seconds(doubt_ns))
            }
            Reason::HeldBy { process } => format!("process {process} held it until then"),
            Reason::NoServer => "no server could be reached".to_owned(),
            Reason::LeaseOfGrant => "the TTL, from the earliest moment of the grant".to_owned(),
            Reason::LeaseOfAnswer => "the TTL, from the answer".to_owned(),
            Reason::LeaseOfRenewal => "the TTL, from the last renewal".to_owned(),
            Reason::ReleaseBegan => "the release was invoked".to_owned(),
            Reason::ReleaseEnded => "the release was answered".to_owned(),
            Reason::LossReported => "the library reported the loss".to_owned(),
            Reason::Granted => "not before the grant".to_owned(),
            Reason::LastSign => "the last sign of the process".to_owned(),
            Reason::FaultBegan { id } => format!("fault {id} began"),
            Reason::FaultHealing { id } => {
                format!("the healing of fault {id} began: all servers were stopped")
            }
            Reason::FaultOver { id } => format!("fault {id} was healed"),
            Reason::ServerEnded => "a server ended by itself".to_owned(),
            Reason::MachineStalled => "the machine stalled".to_owned(),
            Reason::GivenBack => "the process let go of what was lost, or was over".to_owned(),
            Reason::Reacquired => "the process acquired it again".to_owned(),
            Reason::Open => "nothing says more".to_owned(),
        }
    }
}

/// A moment, in nanoseconds of the history, and why it is a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    pub ns: u64,
    pub why: Reason,
}

impl Bound {
    pub(crate) fn new(ns: u64, why: Reason) -> Bound {
        Bound { ns, why }
    }

    #[must_use]
    pub(crate) fn or_later(self, other: Bound) -> Bound {
        if other.ns > self.ns { other } else { self }
    }
}

/// The moments between which something happened, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub earliest: Bound,
    pub latest: Bound,
}

impl Interval {
    pub(crate) fn new(earliest: Bound, latest: Bound) -> Interval {
        Interval { earliest, latest }
    }

    pub(crate) fn of_acquire(invoke_ns: u64, from_ns: u64) -> Interval {
        Interval::new(Bound::new(invoke_ns, Reason::Asked), Bound::new(from_ns, Reason::Answered))
    }
}
