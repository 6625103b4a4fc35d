//! Which nodes lose the packets of which others, and the shapes that this takes.

use crate::plan::distributions::subset;
use crate::plan::topology::Topology;
use fencepost_history::prose::and;
use fencepost_history::{Refusal, Stream};
use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const GROUPS: &str = "groups";

/// Sets of nodes that a partition tears apart. A node that is in none is reached by all: a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Groups {
    /// At least two, without anyone in common.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Vec<String>>,
    /// With two groups: packets are lost on this way only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<OneWay>,
    /// Where no groups say it: at each node, the nodes whose packets it loses.
    #[serde(default, rename = "deaf", skip_serializing_if = "BTreeMap::is_empty")]
    pub drops_from: BTreeMap<String, BTreeSet<String>>,
}

/// Which packets a partition of two groups loses, if not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OneWay {
    ToFirst,
    ToSecond,
}

/// Reads which nodes are cut off from which: `c1|n4,n5` loses all packets between c1 and the two, `c1>n4,n5`
/// those from c1, `c1<n4,n5` those to c1; `|` may separate more than two groups. A name is a node's or a
/// role's. Errors: an unknown name, one in two groups, an empty group, or a single group.
pub fn parse_partition(text: &str, topology: &Topology) -> Result<Groups, Refusal> {
    parse("partition", text, topology)
}

pub(crate) struct Flow {
    pub(crate) first: Vec<String>,
    pub(crate) second: Vec<String>,
    pub(crate) one_way: Option<OneWay>,
}

/// The two ends of a flow: `holder > storage` is what the holder sends to the storage, `holder < n1` what n1
/// sends to the holder, `leader | follower` both. Errors: as [`parse_partition`], and three ends or more.
pub(crate) fn parse_flow(text: &str, topology: &Topology) -> Result<Flow, Refusal> {
    let Groups { groups, one_way, .. } = parse("flow", text, topology)?;
    match <[Vec<String>; 2]>::try_from(groups) {
        Ok([first, second]) => Ok(Flow { first, second, one_way }),
        Err(_) => {
            let sentence = format!("the flow `{text}` cannot be: it has two ends, like `holder > storage`");
            Err(Refusal::new(sentence))
        }
    }
}

fn parse(what: &str, text: &str, topology: &Topology) -> Result<Groups, Refusal> {
    let groups = Groups::of_text(text);
    let mut names = groups.groups.iter().flatten();
    if names.clone().any(String::is_empty) {
        let sentence = format!("the {what} `{text}` has an empty place where a node should be named");
        return Err(Refusal::new(sentence));
    }
    let checked = names.try_for_each(|name| topology.check_target(name)).and_then(|()| groups.check());
    checked.map_err(|why| Refusal::new(format!("the {what} `{text}` cannot be: {why}")))?;
    Ok(groups)
}

impl Groups {
    /// The groups that a text names, whatever they are called.
    pub(crate) fn of_text(text: &str) -> Groups {
        let (separator, one_way) = match text.chars().find(|sign| "|<>".contains(*sign)) {
            Some('<') => ('<', Some(OneWay::ToFirst)),
            Some('>') => ('>', Some(OneWay::ToSecond)),
            _ => ('|', None),
        };
        let names = |group: &str| group.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
        let groups = text.split(separator).map(names).collect();
        Groups { groups, one_way, drops_from: BTreeMap::new() }
    }

    /// The text that names these groups; none where no text does.
    pub(crate) fn text(&self) -> Option<String> {
        let separator = match self.one_way {
            Some(OneWay::ToFirst) => "<",
            Some(OneWay::ToSecond) => ">",
            None => "|",
        };
        let groups: Vec<String> = self.groups.iter().map(|group| group.join(",")).collect();
        let text = groups.join(separator);
        (Groups::of_text(&text) == *self).then_some(text)
    }

    /// Packets between the two are lost, both ways.
    pub(crate) fn apart(first: Vec<String>, second: Vec<String>) -> Groups {
        Groups { groups: vec![first, second], ..Groups::default() }
    }

    pub(crate) fn check(&self) -> Result<(), Refusal> {
        if self.groups.is_empty() && !self.drops_from.is_empty() && self.one_way.is_none() {
            return Ok(());
        }
        if self.groups.len() < 2 || self.groups.iter().any(Vec::is_empty) {
            let sentence = "it takes at least two groups, and a name in each, like `c1|n4,n5`";
            return Err(Refusal::at(GROUPS, sentence));
        }
        if self.one_way.is_some() && self.groups.len() != 2 {
            return Err(Refusal::at("one_way", "packets can be lost one way only between two groups"));
        }
        let mut known = BTreeSet::new();
        match self.groups.iter().flatten().find(|name| !known.insert(*name)) {
            Some(twice) => Err(Refusal::at(GROUPS, format!("{twice} stands in it twice"))),
            None => Ok(()),
        }
    }

    pub(crate) fn drops_from(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut drops_from = self.drops_from.clone();
        for (hearer, group) in self.groups.iter().enumerate() {
            for (speaker, others) in self.groups.iter().enumerate() {
                let spared = match self.one_way {
                    Some(OneWay::ToFirst) => hearer != 0,
                    Some(OneWay::ToSecond) => hearer != 1,
                    None => false,
                };
                if hearer == speaker || spared {
                    continue;
                }
                for name in group {
                    drops_from.entry(name.clone()).or_default().extend(others.iter().cloned());
                }
            }
        }
        drops_from
    }

    pub(crate) fn sentence(&self) -> String {
        let lost = |from: &str, to: &str| format!("packets from {from} to {to} were lost, and only those");
        let groups: Vec<String> = self.groups.iter().map(|group| and(group)).collect();
        match (&groups[..], self.one_way) {
            ([first, second], Some(OneWay::ToFirst)) => lost(second, first),
            ([first, second], Some(OneWay::ToSecond)) => lost(first, second),
            ([], _) => {
                let lost = |(node, others): (&String, &BTreeSet<String>)| {
                    let others: Vec<&String> = others.iter().collect();
                    format!("{node} lost what came from {}", and(&others))
                };
                self.drops_from.iter().map(lost).collect::<Vec<_>>().join("; ")
            }
            _ => format!("the network was cut between {}", groups.join(" | ")),
        }
    }

    /// "cut n1 n2 | n3 n4 n5"; long sides are counted.
    pub(crate) fn label(&self) -> String {
        let side = |group: &Vec<String>| match group.len() {
            0..=5 => group.join(" "),
            many => format!("{many} others"),
        };
        let sides: Vec<String> = self.groups.iter().map(side).collect();
        match sides.is_empty() {
            true => format!("cut {}", self.targets().join(" ")),
            false => format!("cut {}", sides.join(" | ")),
        }
    }

    /// The nodes that the fault is said to be on: the first group, or all.
    pub fn targets(&self) -> Vec<String> {
        match self.groups.first() {
            Some(first) => first.clone(),
            None => self.drops_from.keys().cloned().collect(),
        }
    }
}

/// Draws one of the shapes that this topology allows; none where there are no nodes to part.
pub(crate) fn draw(topology: &Topology, random: &mut Stream) -> Option<Groups> {
    let mut shapes: Vec<fn(&Topology, &mut Stream) -> Option<Groups>> = Vec::new();
    if !topology.servers.is_empty() && !topology.clients.is_empty() {
        shapes.extend([halves, one_server, one_client, lost_answers, lost_requests] as [_; 5]);
    }
    if topology.servers.len() >= 3 && topology.clients.len() >= 2 {
        shapes.extend([bridge, ring] as [fn(&Topology, &mut Stream) -> Option<Groups>; 2]);
    }
    if topology.storage.is_some() && !topology.clients.is_empty() {
        shapes.push(client_from_storage);
    }
    shapes.choose(random)?(topology, random)
}

fn others<'a>(all: impl IntoIterator<Item = &'a String>, without: &[String]) -> Vec<String> {
    all.into_iter().filter(|name| !without.contains(name)).cloned().collect()
}

pub(crate) fn halves(topology: &Topology, random: &mut Stream) -> Option<Groups> {
    let mut half = subset(&topology.servers, topology.servers.len() / 2, random);
    half.extend(subset(&topology.clients, topology.clients.len().div_ceil(2), random));
    let rest = others(topology.servers.iter().chain(&topology.clients), &half);
    Some(Groups::apart(half, rest))
}

fn one_server(topology: &Topology, random: &mut Stream) -> Option<Groups> {
    let alone = vec![topology.servers.choose(random)?.clone()];
    let rest = others(topology.servers.iter().chain(&topology.clients), &alone);
    Some(Groups::apart(alone, rest))
}

fn majority(topology: &Topology, random: &mut Stream) -> Vec<String> {
    subset(&topology.servers, topology.servers.len() / 2 + 1, random)
}

fn one_client(topology: &Topology, random: &mut Stream) -> Option<Groups> {
    Some(Groups::apart(vec![topology.clients.choose(random)?.clone()], majority(topology, random)))
}

/// What some clients ask of a majority of the servers is done, but they do not learn of it.
fn lost_answers(topology: &Topology, random: &mut Stream) -> Option<Groups> {
    let clients =
        subset(&topology.clients, random.random_range(1..=topology.clients.len().div_ceil(2)), random);
    Some(Groups { one_way: Some(OneWay::ToFirst), ..Groups::apart(clients, majority(topology, random)) })
}

/// What some clients ask does not arrive, while what the servers have to say still does.
fn lost_requests(topology: &Topology, random: &mut Stream) -> Option<Groups> {
    let lost = lost_answers(topology, random)?;
    Some(Groups { one_way: Some(OneWay::ToSecond), ..lost })
}

/// Two sides that meet in one server.
fn bridge(topology: &Topology, random: &mut Stream) -> Option<Groups> {
    let bridge = topology.servers.choose(random)?;
    let beside =
        Topology { servers: others(&topology.servers, std::slice::from_ref(bridge)), ..topology.clone() };
    halves(&beside, random)
}

/// Everyone reaches a majority of the servers, and no two the same one. Servers stand in a circle, and reach
/// their neighbours only; with three there would be no server left to lose, so that only clients lose anyone.
fn ring(topology: &Topology, random: &mut Stream) -> Option<Groups> {
    let mut circle = topology.servers.clone();
    circle.shuffle(random);
    let (count, majority) = (circle.len(), circle.len() / 2 + 1);
    let mut drops_from: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut cut = |one: &String, other: &String| {
        drops_from.entry(one.clone()).or_default().insert(other.clone());
        drops_from.entry(other.clone()).or_default().insert(one.clone());
    };
    let reach = (majority - 1).div_ceil(2);
    for (place, server) in circle.iter().enumerate() {
        let beyond = (reach + 1)..(count - reach);
        beyond.for_each(|step| cut(server, &circle[(place + step) % count]));
    }
    for (place, client) in topology.clients.iter().enumerate() {
        (majority..count).for_each(|step| cut(client, &circle[(place + step) % count]));
    }
    Some(Groups { drops_from, ..Groups::default() })
}

/// The lock works, but what it protects is out of reach of a client.
fn client_from_storage(topology: &Topology, random: &mut Stream) -> Option<Groups> {
    let client = topology.clients.choose(random)?.clone();
    Some(Groups::apart(vec![client], vec![topology.storage.clone()?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::topology;
    use fencepost_history::Seed;

    /// `n1<c1,c2`: n1 loses the packets of the two.
    fn drops_from(groups: &Groups) -> String {
        let line = |(node, others): (String, BTreeSet<String>)| {
            format!("{node}<{}", others.into_iter().collect::<Vec<_>>().join(","))
        };
        groups.drops_from().into_iter().map(line).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn explicit_sets_are_read() {
        let read = |text| drops_from(&parse_partition(text, &topology(5, 2)).unwrap());
        assert_eq!(read("c1|n4,n5"), "c1<n4,n5 n4<c1 n5<c1");
        assert_eq!(read("c1 > n4"), "n4<c1");
        assert_eq!(read("c1<n4"), "c1<n4");
        assert_eq!(read("n1|n2|c1,storage"), "c1<n1,n2 n1<c1,n2,storage n2<c1,n1,storage storage<n1,n2");
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_the_reason() {
        let refused = |text| parse_partition(text, &topology(2, 1)).unwrap_err().sentence;
        assert_eq!(
            refused("c1|n4"),
            "the partition `c1|n4` cannot be: there is no node n4 in this run (there are: n1, n2, c1, storage)"
        );
        assert_eq!(refused("c1|n1,c1"), "the partition `c1|n1,c1` cannot be: c1 stands in it twice");
        assert_eq!(
            refused("c1"),
            "the partition `c1` cannot be: it takes at least two groups, and a name in each, like `c1|n4,n5`"
        );
        assert_eq!(refused("c1|"), "the partition `c1|` has an empty place where a node should be named");
        assert_eq!(
            refused("c1>n1>n2"),
            "the partition `c1>n1>n2` cannot be: packets can be lost one way only between two groups"
        );
    }

    #[test]
    fn in_a_ring_everyone_reaches_a_majority_and_not_everyone() {
        for servers in [3, 4, 5, 6, 7] {
            let (topology, mut random) = (topology(servers, 5), Seed(servers as u64).stream("ring"));
            let drops_from = ring(&topology, &mut random).unwrap().drops_from();
            for (node, lost) in &drops_from {
                let reached = servers - lost.iter().filter(|other| other.starts_with('n')).count();
                assert!(reached > servers / 2, "{node} of {servers} reaches {reached}");
                assert!(lost.iter().all(|other| drops_from[other].contains(node)), "both ways");
            }
            let drops_from_servers = |node: &String| {
                drops_from.get(node).is_some_and(|lost| lost.iter().any(|it| it.starts_with('n')))
            };
            assert!(topology.clients.iter().all(drops_from_servers));
            assert!(servers == 3 || topology.servers.iter().all(drops_from_servers));
        }
    }

    #[test]
    fn every_shape_that_is_drawn_holds() {
        for (servers, clients) in [(0, 0), (0, 2), (1, 1), (2, 3), (3, 2), (5, 5), (7, 1)] {
            for seed in 0..200 {
                let topology = topology(servers, clients);
                let Some(groups) = draw(&topology, &mut Seed(seed).stream("draw")) else {
                    assert_eq!(clients, 0);
                    continue;
                };
                groups.check().unwrap();
                assert!(!groups.drops_from().is_empty() && !groups.targets().is_empty());
                let text = serde_json::to_string(&groups).unwrap();
                assert_eq!(serde_json::from_str::<Groups>(&text).unwrap(), groups);
            }
        }
    }
}
