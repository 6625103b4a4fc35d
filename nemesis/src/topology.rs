//! The nodes of a run that a fault can be injected into, by name.

use crate::draws::subset;
use fencepost_history::Stream;
use rand::RngExt;
use std::time::Duration;

/// In place of a server's name in a plan: the leader at the moment of the injection, as the servers say. Any fault can be
/// aimed so.
pub const LEADER: &str = "leader";

/// The nodes that there are to put under a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    pub servers: Vec<String>,
    pub clients: Vec<String>,
    /// What the lock protects, where the workload has it.
    pub storage: Option<String>,
    /// Whether one of the servers leads, so that a fault can be aimed at [`LEADER`].
    pub has_leader: bool,
    pub ttl: Duration,
}

impl Topology {
    /// Refuses a target that does not exist here.
    ///
    /// # Errors
    /// One sentence, with the names that there are.
    pub fn check_target(&self, name: &str) -> Result<(), String> {
        match name {
            LEADER if self.has_leader => Ok(()),
            LEADER => Err(format!(
                "none of these servers leads, each stands for itself; name one ({})",
                self.servers.join(", ")
            )),
            _ => self.check_name(name),
        }
    }

    /// Refuses a name that no node has here.
    ///
    /// # Errors
    /// One sentence, with the names that there are.
    pub fn check_name(&self, name: &str) -> Result<(), String> {
        let known = || self.servers.iter().chain(&self.clients).chain(&self.storage);
        if known().any(|known| known == name) {
            return Ok(());
        }
        let all: Vec<&str> = known().map(String::as_str).collect();
        Err(format!("there is no node {name} in this run (there are: {})", all.join(", ")))
    }

    /// Some of the servers, from one to all; none where there are no servers.
    pub(crate) fn draw_servers(&self, random: &mut Stream) -> Option<Vec<String>> {
        let count = self.servers.len();
        (count > 0).then(|| subset(&self.servers, random.random_range(1..=count), random))
    }

    /// The leader; where each server stands for itself, as in Redlock, a drawn one: it is its own leader.
    pub(crate) fn draw_leader(&self, random: &mut Stream) -> Option<Vec<String>> {
        let drawn = subset(&self.servers, 1, random);
        match self.has_leader {
            true => Some(vec![LEADER.to_owned()]),
            false => (!drawn.is_empty()).then_some(drawn),
        }
    }
}
