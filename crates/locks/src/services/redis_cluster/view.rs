//! What servers say of their cluster: which one is the primary of the locks' shard.

use super::configuration::SLOT;
use crate::services::redis::ask::{ask, fail_over};
use fencepost_cluster::{ClusterError, Node};
use futures_util::future::join_all;
use std::ops::RangeInclusive;
use std::sync::Arc;

#[derive(Debug, PartialEq)]
pub(super) struct Member {
    pub(super) id: String,
    pub(super) address: String,
    flags: Vec<String>,
    primary: String,
    epoch: u64,
    pub(super) has_slot: bool,
}

impl Member {
    /// `ID IP:PORT@BUS,… FLAGS PRIMARY PING PONG EPOCH LINK SLOTS…`
    fn read(line: &str) -> Option<Member> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, address, flags, primary, _, _, epoch, _, slots @ ..] = words.as_slice() else { return None };
        Some(Member {
            id: (*id).to_owned(),
            address: address.split(':').next()?.to_owned(),
            flags: flags.split(',').map(str::to_owned).collect(),
            primary: (*primary).to_owned(),
            epoch: epoch.parse().ok()?,
            has_slot: slots.iter().filter_map(|slots| range(slots)).any(|slots| slots.contains(&SLOT)),
        })
    }

    pub(super) fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    pub(super) fn is_other_primary(&self) -> bool {
        self.is("master") && !self.is("myself")
    }
}

/// `0-5460` or `5461`. One in brackets is being moved, and still belongs to this server.
fn range(slots: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

pub(super) fn members(lines: &[String]) -> Vec<Member> {
    lines.iter().filter_map(|line| Member::read(line)).collect()
}

/// Of the servers that claim to be the primary, that of the newest epoch: a replaced one may not know it.
fn newest(views: &[Vec<Member>]) -> Option<&Member> {
    let own = views.iter().flatten().filter(|member| member.is("myself"));
    own.filter(|member| member.is("master") && member.has_slot).max_by_key(|member| member.epoch)
}

async fn views(nodes: &[Arc<dyn Node>]) -> Vec<Vec<Member>> {
    let answers = join_all(nodes.iter().map(|node| ask(node, &["CLUSTER", "NODES"]))).await;
    answers.into_iter().flatten().map(|lines| members(&lines)).collect()
}

/// The place of the primary of the locks' shard. None while none says that it is.
pub(super) async fn leader(nodes: &[Arc<dyn Node>]) -> Option<usize> {
    let views = views(nodes).await;
    place(nodes, newest(&views)?)
}

fn place(nodes: &[Arc<dyn Node>], member: &Member) -> Option<usize> {
    nodes.iter().position(|node| node.address().to_string() == member.address)
}

/// Lets a replica replace its primary, with that one's help, so that nothing is lost (`CLUSTER FAILOVER`).
pub(super) async fn transfer(nodes: &[Arc<dyn Node>]) -> Result<(), ClusterError> {
    let views = views(nodes).await;
    let primary = newest(&views)
        .ok_or_else(|| ClusterError::new("no server says that it is the primary of the locks' shard"))?;
    let replicas = views.iter().flatten().filter(|own| own.is("myself") && own.primary == primary.id);
    let places = replicas.filter_map(|replica| place(nodes, replica));
    let replicas: Vec<_> = places.map(|place| &nodes[place]).collect();
    fail_over(replicas, "replica", &["CLUSTER", "FAILOVER"]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(lines: &[&str]) -> Vec<Member> {
        members(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_primary_of_the_newest_epoch_counts_and_only_by_its_own_word() {
        let old = ["a 198.18.0.3:6379@16379 myself,master - 0 0 2 connected 5461-10921"];
        let new = [
            "a 198.18.0.3:6379@16379,,shard-id=5 master,fail - 0 0 2 connected",
            "b 198.18.0.6:6379@16379,,shard-id=5 myself,master - 0 0 4 connected 5461-8717 8718 8720-10921",
        ];
        let address = |views: &[Vec<Member>]| newest(views).map(|member| member.address.clone());
        assert_eq!(address(&[view(&old), view(&new)]).as_deref(), Some("198.18.0.6"));
        assert_eq!(address(&[view(&old)]).as_deref(), Some("198.18.0.3"), "as long as no other says so");
        let heard = ["b 198.18.0.6:6379@16379 master - 0 0 4 connected 5461-10921"];
        assert_eq!(address(&[view(&heard), Vec::new()]), None, "it has not said so itself");
        let without = ["b 198.18.0.6:6379@16379 myself,master - 0 0 4 connected 5461-8717 8719-10921"];
        assert_eq!(address(&[view(&without)]), None, "its slot is not among them");
    }

    #[test]
    fn what_a_line_says_of_a_server() {
        assert_eq!(Member::read("(error) ERR This instance has cluster support disabled"), None);
        let replica = Member::read("e 198.18.0.6:6379@16379 slave a 0 1 2 connected").unwrap();
        assert!(replica.is("slave") && !replica.has_slot && replica.primary == "a");
        // A slot that is leaving is still there.
        let line = "a 198.18.0.3:6379@16379 master - 0 0 2 connected 5461-10921 [8718->-c]";
        assert!(Member::read(line).unwrap().has_slot);
    }
}
