use crate::Event;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The name (`f`) of the event that describes the nodes of a run.
pub const NODES: &str = "nodes";

/// The name (`f`) of the event that lists the servers of the lock.
pub const SERVERS: &str = "servers";

/// The name (`f`) of the event that lists the nemeses of a run.
pub const NEMESES: &str = "nemeses";

/// The name (`f`) of the event of a node to which the machine gave hardly any time.
pub const STALLED: &str = "stalled";

/// For how long the machine gave a node's programs hardly any time, until the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalled {
    pub node: String,
    pub for_ms: u64,
}

/// The name of the storage among the nodes. Its replicas are `storage-2`, `storage-3`, ….
pub const STORAGE_NODE: &str = "storage";

/// Whether a node is the storage or a replica. A history without [`NODES`] has only the name.
pub fn is_storage(node: &str) -> bool {
    node.starts_with(STORAGE_NODE)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeKind {
    Client,
    Server,
    Storage,
}

/// The nodes of a run: the event [`NODES`]. Servers have an event of their own, [`SERVERS`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct RunNodes {
    /// The client that hosts each slot. A process belongs to the slot of its number modulo their count.
    pub slots: Vec<String>,
    /// The storage and its replicas; empty where the lock service itself keeps the data, or nothing does.
    pub storage: Vec<String>,
    /// Whether one of the servers leads the others.
    pub leader: bool,
    /// Which nodes the nemeses of the run can hit. One that is missing here is known by what it did hit.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hit_by: BTreeMap<String, Vec<NodeKind>>,
}

impl RunNodes {
    /// Reads the value of a [`NODES`]; none where the event is another.
    pub fn read(event: &Event) -> Option<RunNodes> {
        (event.f == NODES).then(|| RunNodes::deserialize(&*event.value).ok())?
    }

    /// The client that hosts a process; none in a history that does not say.
    pub fn client_of(&self, process: u64) -> Option<&str> {
        self.slots.get(usize::try_from(self.slot_of(process)).ok()?).map(String::as_str)
    }

    /// The slot of a process, which keeps it with another number; the number itself where that is unknown.
    pub fn slot_of(&self, process: u64) -> u64 {
        let slots = self.slots.len() as u64;
        if slots == 0 { process } else { process % slots }
    }

    /// How many clients there are.
    pub fn clients(&self) -> usize {
        crate::sorted_once(&self.slots).len()
    }

    pub fn is_client(&self, node: &str) -> bool {
        self.slots.iter().any(|client| client == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Process};
    use serde_json::json;

    fn nodes() -> RunNodes {
        RunNodes {
            slots: ["c1", "c2", "c3", "c1"].map(str::to_owned).to_vec(),
            storage: vec!["storage".to_owned()],
            leader: true,
            hit_by: [("pause".to_owned(), vec![NodeKind::Client, NodeKind::Server])].into(),
        }
    }

    #[test]
    fn nodes_are_read_from_an_event_as_they_were_recorded() {
        let value = json!(nodes());
        assert_eq!(value["hit-by"], json!({"pause": ["client", "server"]}));
        let (process, kind, f) = (Process::Nemesis, Kind::Info, NODES.into());
        let event =
            Event { index: 0, time: 0, process, kind, f, key: None, value: value.into(), error: None };
        assert_eq!(RunNodes::read(&event), Some(nodes()));
        assert_eq!(RunNodes::read(&Event { f: "servers".into(), ..event }), None);
    }

    #[test]
    fn a_process_is_hosted_by_the_client_of_its_slot() {
        let nodes = nodes();
        assert_eq!([0, 2, 3, 5].map(|process| nodes.client_of(process).unwrap()), ["c1", "c3", "c1", "c2"]);
        assert_eq!(nodes.clients(), 3);
        assert!(nodes.is_client("c2") && !nodes.is_client("n1"));
        assert_eq!(RunNodes::default().client_of(0), None);
    }
}
