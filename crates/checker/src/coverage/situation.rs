use serde::{Deserialize, Serialize};
use std::fmt;

/// The part that a fault's target played for the lock when the fault came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetRole {
    /// The client of a process that held a key, or was releasing it.
    Holder,
    /// The client of a process that was acquiring a key that it did not hold.
    Waiter,
    /// Any other client.
    Idle,
    /// A server that had granted the current hold, or granted the acquire that was in flight.
    Granting,
    /// Another server, of a lock that names the servers that granted.
    OtherServer,
    Leader,
    /// A server that did not lead, of a service that has a leader.
    Follower,
    /// A server of which none of these is known.
    Server,
    Storage,
}

impl TargetRole {
    pub const ALL: [TargetRole; 9] = [
        TargetRole::Holder,
        TargetRole::Waiter,
        TargetRole::Idle,
        TargetRole::Granting,
        TargetRole::OtherServer,
        TargetRole::Leader,
        TargetRole::Follower,
        TargetRole::Server,
        TargetRole::Storage,
    ];

    /// As reports write it: `holder's client`.
    pub fn words(self) -> &'static str {
        match self {
            TargetRole::Holder => "holder's client",
            TargetRole::Waiter => "waiter's client",
            TargetRole::Idle => "idle client",
            TargetRole::Granting => "granting server",
            TargetRole::OtherServer => "other server",
            TargetRole::Leader => "leader",
            TargetRole::Follower => "follower",
            TargetRole::Server => "server",
            TargetRole::Storage => "storage",
        }
    }
}

/// What was going on around a key when a fault came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockPhase {
    Free,
    /// Some process was acquiring the key, and none held it.
    Acquiring,
    /// A process held it, and was doing none of the following.
    Held,
    /// Its holder had sent a write that was not answered yet.
    Writing,
    /// Its holder's lease was being prolonged: asked for, and not reported yet.
    Renewing,
    /// Its holder had begun to release, and was not answered yet.
    Releasing,
}

impl LockPhase {
    pub const ALL: [LockPhase; 6] = [
        LockPhase::Free,
        LockPhase::Acquiring,
        LockPhase::Held,
        LockPhase::Writing,
        LockPhase::Renewing,
        LockPhase::Releasing,
    ];

    /// As reports write it: `acquire in flight`.
    pub fn words(self) -> &'static str {
        match self {
            LockPhase::Free => "free",
            LockPhase::Acquiring => "acquire in flight",
            LockPhase::Held => "held",
            LockPhase::Writing => "write in flight",
            LockPhase::Renewing => "renewing",
            LockPhase::Releasing => "releasing",
        }
    }
}

/// A fault, the role of its target, and the phase of the lock's life.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Situation {
    pub fault: String,
    pub role: TargetRole,
    pub phase: LockPhase,
}

impl fmt::Display for Situation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} × {} × {}", self.fault, self.role.words(), self.phase.words())
    }
}
