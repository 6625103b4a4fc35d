//! What the nodes of a driver can do, which faults build on.

/// What a driver offers on this machine; a nemesis that needs more is refused before anything starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    Signal,
    /// Stopping a process to change its clock (ptrace).
    Ptrace,
    /// Packet filter inside a node (iptables).
    PacketFilter,
    /// A FUSE file system under a node's data folder.
    Fuse,
    /// The kernel's network emulator (tc … netem).
    Netem,
    /// Queueing packets to a program (iptables … NFQUEUE).
    PacketQueue,
}

impl Capability {
    pub const ALL: [Capability; 6] = [
        Capability::Signal,
        Capability::Ptrace,
        Capability::PacketFilter,
        Capability::Fuse,
        Capability::Netem,
        Capability::PacketQueue,
    ];
}
