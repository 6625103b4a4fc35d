//! Hears from the engine when the kernel has killed a program of a node for the memory that it took.

use super::labels::filter_of_run;
use crate::agent_node::AgentNode;
use crate::protocol::NodeLimits;
use bollard::Docker;
use bollard::query_parameters::EventsOptionsBuilder;
use futures_util::StreamExt;
use std::collections::HashMap;
use std::sync::Weak;

pub(super) type LimitedNodes = HashMap<String, (Weak<AgentNode>, NodeLimits)>;

/// Ends the programs of a node after the kernel has killed one. Goes on until the engine ends the connection.
pub(super) async fn watch(docker: Docker, run: String, nodes: LimitedNodes) {
    let mut filters = filter_of_run(&run);
    filters.insert("event", vec!["oom".to_owned()]);
    let mut events = docker.events(Some(EventsOptionsBuilder::default().filters(&filters).build()));
    while let Some(Ok(event)) = events.next().await {
        let container = event.actor.and_then(|actor| actor.id).unwrap_or_default();
        let node = nodes.get(&container).and_then(|(node, limits)| Some((node.upgrade()?, *limits)));
        if let Some((node, limits)) = node {
            node.ran_out_of_memory(limits).await;
        }
    }
}
