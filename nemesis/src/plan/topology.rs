//! The nodes of a run that a fault can be injected into, by name.

use crate::plan::distributions::subset;
use crate::plan::roles::{LEADER, Role, RoleTarget};
use fencepost_history::prose::{nearest, unknown};
use fencepost_history::{Refusal, Stream};
use rand::RngExt;
use std::time::Duration;

/// The nodes that there are to put under a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    pub servers: Vec<String>,
    pub clients: Vec<String>,
    /// What the lock protects, where the workload has it.
    pub storage: Option<String>,
    /// Whether one of the servers leads, so that a fault can be aimed at the leader and the followers.
    pub has_leader: bool,
    /// What its servers can be ordered to do: the nemesis, and what it orders (`error-replies:readonly`).
    pub orders: &'static [&'static str],
    /// Points between two steps of the recipe at which a client can be slow.
    pub points: Vec<RecipePoint>,
    /// How long a lock stays taken whose holder is gone: its TTL, with what the service adds to that.
    pub ttl: Duration,
    pub server_faults: ServerFaults,
    /// Whether clients connect to servers by their names, which their nodes resolve.
    pub by_name: bool,
}

/// What can be done to the servers of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerFaults {
    /// Everything: the run started them.
    #[default]
    All,
    /// They exist without the run, and a command of the user stops and ends them.
    ByHook,
    /// They exist without the run. The packets between them and its clients are all that it can touch.
    Packets,
}

/// A point between two steps of a recipe: a notice `at` of the history names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecipePoint {
    pub name: String,
    /// Who passes it is acquiring the lock, and does not hold it yet.
    pub is_acquiring: bool,
}

impl Topology {
    /// Refuses a target that is neither a node here nor a role. Errors: with those that exist.
    pub fn check_target(&self, name: &str) -> Result<(), Refusal> {
        match RoleTarget::parse(name) {
            Some(target) => self.check_role(target, name).map_or(Ok(()), |why| Err(Refusal::new(why))),
            None if self.nodes().any(|known| known == name) => Ok(()),
            None => Err(Refusal::new(unknown_target(name, self))),
        }
    }

    pub fn players(&self, role: Role) -> &[String] {
        if role.is_of_clients() { &self.clients } else { &self.servers }
    }

    /// The nodes that a target may stand for: those that may play a role, or the node itself.
    pub fn candidates(&self, target: &str) -> Vec<String> {
        match RoleTarget::parse(target) {
            Some(target) => self.players(target.role).to_vec(),
            None => vec![target.to_owned()],
        }
    }

    /// Why no node can play a role; none where one can. `text` is how it was written.
    fn check_role(&self, target: RoleTarget, text: &str) -> Option<String> {
        let candidates = self.players(target.role);
        let kind = if target.role.is_of_clients() { "clients" } else { "servers" };
        match target.role {
            _ if candidates.is_empty() => {
                return Some(format!("no node can be the {text}: this run has no {kind}"));
            }
            Role::Leader | Role::Follower if !self.has_leader => {
                return Some(format!(
                    "none of these servers leads, each stands for itself; name one ({})",
                    self.servers.join(", ")
                ));
            }
            Role::Follower if candidates.len() == 1 => {
                return Some("there is no follower: this run has one server".to_owned());
            }
            _ => {}
        }
        match (target.role, target.count) {
            (_, None) | (Role::Leader, Some(1)) => None,
            (Role::Leader, _) => Some(format!("one server leads at a time: write leader instead of {text}")),
            (_, Some(count)) if (1..=candidates.len()).contains(&count) => None,
            _ => Some(format!(
                "the number in {text} must be from 1 to {}, the number of {kind} in this run",
                candidates.len()
            )),
        }
    }

    pub(crate) fn orders_of(&self, nemesis: &str) -> Vec<&'static str> {
        let orders = self.orders.iter().filter_map(|order| order.split_once(':'));
        orders.filter(|(of, _)| *of == nemesis).map(|(_, what)| what).collect()
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &String> {
        self.servers.iter().chain(&self.clients).chain(&self.storage)
    }

    /// The fewest servers without which no majority remains that knows of a lock.
    pub fn majority(&self) -> usize {
        self.servers.len() / 2 + 1
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

/// Refuses a name that is neither a node nor a role, with the nearest right one where there is one.
fn unknown_target(name: &str, topology: &Topology) -> String {
    let nodes: Vec<&str> = topology.nodes().map(String::as_str).collect();
    let bare = name.split(':').next().unwrap_or(name);
    // Names of nodes differ by a digit: the nearest of them is no better than any other.
    let roles = Role::ALL.map(Role::name);
    match nearest(bare, &roles) {
        Some(_) if bare.len() > 3 => unknown("target", bare, &roles),
        _ => format!("there is no node {name} in this run (there are: {})", nodes.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::topology;

    #[test]
    fn a_role_that_no_node_can_play_is_refused() {
        let led = Topology { has_leader: true, ..topology(3, 2) };
        for text in
            ["holder", "waiter:2", "granting", "granting:3", "leader", "follower:2", "n1", "c1", "storage"]
        {
            assert_eq!(led.check_target(text), Ok(()), "{text}");
        }
        let refused = |text, topology: &Topology| topology.check_target(text).unwrap_err().sentence;
        assert_eq!(refused("holdr", &led), "unknown target \"holdr\": did you mean \"holder\"?");
        assert_eq!(
            refused("n9", &led),
            "there is no node n9 in this run (there are: n1, n2, n3, c1, c2, storage)"
        );
        let number = "the number in granting:4 must be from 1 to 3, the number of servers in this run";
        assert_eq!(refused("granting:4", &led), number);
        assert!(refused("granting:x", &led).contains("must be from 1 to 3"));
        assert!(refused("follower", &topology(3, 2)).contains("none of these servers leads"));
        assert!(refused("granting", &topology(0, 2)).contains("this run has no servers"));
        assert!(refused("leader:2", &led).contains("one server leads at a time"));
    }
}
