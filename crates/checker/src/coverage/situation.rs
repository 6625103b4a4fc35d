use serde::{Deserialize, Serialize};
use std::fmt;

fencepost_history::worded! {
    /// The part that a fault's target played for the lock when the fault came.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum TargetRole {
        /// The client of a process that held a key, or was releasing it.
        Holder = "holder's client",
        /// The client of a process that was acquiring a key that it did not hold.
        Waiter = "waiter's client",
        /// Any other client.
        Idle = "idle client",
        /// A server that had granted the current hold, or granted the acquire that was in flight.
        Granting = "granting server",
        /// Another server, of a lock that names the servers that granted.
        OtherServer = "other server",
        Leader = "leader",
        /// A server that did not lead, of a service that has a leader.
        Follower = "follower",
        /// A server of which none of these is known.
        Server = "server",
        Storage = "storage",
    }
    /// As reports write it: `holder's client`.
    pub fn words;
}

fencepost_history::worded! {
    /// What was going on around a key when a fault came.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum LockPhase {
        Free = "free",
        /// Some process was acquiring the key, and none held it.
        Acquiring = "acquire in flight",
        /// A process held it, and was doing none of the following.
        Held = "held",
        /// Its holder had sent a write that was not answered yet.
        Writing = "write in flight",
        /// Its holder's lease was being prolonged: asked for, and not reported yet.
        Renewing = "renewing",
        /// Its holder had begun to release, and was not answered yet.
        Releasing = "releasing",
    }
    /// As reports write it: `acquire in flight`.
    pub fn words;
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
