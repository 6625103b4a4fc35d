//! Roles resolved: nodes take the place of roles in a fault and in the sentence that describes it.

use crate::plan::planned_fault::PlannedFault;
use crate::plan::roles::RoleTarget;
use fencepost_history::prose::and;
use serde_json::{Value, json};

const NAMING: [&str; 2] = ["peers", "groups"];

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resolution(Vec<(String, RoleTarget, Vec<String>)>);

impl Resolution {
    pub fn add(&mut self, text: String, target: RoleTarget, nodes: Vec<String>) {
        self.0.push((text, target, nodes));
    }

    fn nodes(&self, name: &str) -> Vec<String> {
        let role = self.0.iter().find(|(text, ..)| text == name);
        role.map_or_else(|| vec![name.to_owned()], |(_, _, nodes)| nodes.clone())
    }

    fn is_role(&self, name: &str) -> bool {
        self.0.iter().any(|(text, ..)| text == name)
    }

    /// Replaces the roles in a list of names. A node in `taken` stands at its role, and not again elsewhere.
    fn replace(&self, names: &[String], taken: &mut Vec<String>) -> Vec<String> {
        let mut replaced: Vec<String> = Vec::new();
        for node in names.iter().flat_map(|name| self.nodes(name)) {
            if !taken.contains(&node) {
                taken.push(node.clone());
                replaced.push(node);
            }
        }
        replaced
    }

    /// Says in a sentence which roles the nodes played: "c2 (the holder) was stopped".
    pub fn name_roles(&self, sentence: &str) -> String {
        let mut named = sentence.to_owned();
        for (_, target, nodes) in &self.0 {
            let names = and(nodes);
            let mut found = named.match_indices(&names);
            let found = found.find(|(at, _)| stands_alone(&named[..*at], &named[at + names.len()..]));
            if let Some((at, _)) = found {
                named.insert_str(at + names.len(), &format!(" ({})", target.role.words(nodes.len())));
            }
        }
        named
    }
}

/// Whether what stands between these two is neither within a longer name nor a part of a longer list.
fn stands_alone(before: &str, after: &str) -> bool {
    let is_part = |sign: Option<char>| sign.is_some_and(|sign| sign.is_alphanumeric() || sign == '-');
    let is_name = |word: Option<&str>| {
        word.is_some_and(|word| word.trim_end_matches(|sign: char| sign.is_ascii_digit()).len() < word.len())
    };
    let listed_before = [", ", " and "]
        .iter()
        .any(|sign| before.strip_suffix(sign).is_some_and(|rest| is_name(rest.rsplit([' ', ',']).next())));
    let listed_after = [", ", " and "]
        .iter()
        .any(|sign| after.strip_prefix(sign).is_some_and(|rest| is_name(rest.split([' ', ',']).next())));
    !is_part(before.chars().next_back()) && !is_part(after.chars().next()) && !listed_before && !listed_after
}

impl PlannedFault {
    /// The roles that it names, each once, as they are written and as they are read.
    pub fn roles(&self) -> Vec<(String, RoleTarget)> {
        let mut roles: Vec<(String, RoleTarget)> = Vec::new();
        let mut note = |name: &str| {
            if let Some(target) = RoleTarget::parse(name)
                && !roles.iter().any(|(known, _)| known == name)
            {
                roles.push((name.to_owned(), target));
            }
        };
        self.on.iter().for_each(|name| note(name));
        for parameter in NAMING.iter().filter_map(|name| self.parameters.get(*name)) {
            each_name(parameter, &mut note);
        }
        roles
    }

    /// The fault with nodes in place of roles.
    pub fn resolved(&self, resolution: &Resolution) -> PlannedFault {
        let mut fault = self.clone();
        fault.on = resolution.replace(&self.on, &mut Vec::new());
        for name in NAMING {
            if let Some(parameter) = fault.parameters.get_mut(name) {
                // A node that a role stands for is in no other group.
                *parameter = replaced(parameter, resolution);
            }
        }
        fault
    }
}

fn each_name(value: &Value, note: &mut impl FnMut(&str)) {
    match value {
        Value::String(name) => note(name),
        Value::Array(values) => values.iter().for_each(|value| each_name(value, note)),
        _ => {}
    }
}

fn names(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|name| Some(name.as_str()?.to_owned())).collect()
}

/// Groups, or a list, with nodes for roles. Such a node leaves other groups; earlier roles keep shared nodes.
fn replaced(parameter: &Value, resolution: &Resolution) -> Value {
    let flat = names(parameter);
    let groups: Vec<Vec<String>> = match &flat {
        Some(list) => vec![list.clone()],
        None => parameter.as_array().into_iter().flatten().filter_map(names).collect(),
    };
    let mut taken = Vec::new();
    let mut by_role: Vec<Vec<String>> = Vec::new();
    for group in &groups {
        let roles: Vec<String> = group.iter().filter(|name| resolution.is_role(name)).cloned().collect();
        by_role.push(resolution.replace(&roles, &mut taken));
    }
    for (nodes, group) in by_role.iter_mut().zip(&groups) {
        let named: Vec<String> = group.iter().filter(|name| !resolution.is_role(name)).cloned().collect();
        nodes.extend(resolution.replace(&named, &mut taken));
    }
    if flat.is_some() { json!(by_role.concat()) } else { json!(by_role) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolution(roles: &[(&str, &[&str])]) -> Resolution {
        let mut resolution = Resolution::default();
        for (text, nodes) in roles {
            let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
            resolution.add((*text).to_owned(), RoleTarget::parse(text).unwrap(), nodes);
        }
        resolution
    }

    fn fault(text: &str) -> PlannedFault {
        toml::from_str(&format!("for_ms = 1\n{text}")).unwrap()
    }

    #[test]
    fn nodes_take_the_place_of_roles() {
        let delay = fault(
            "fault = 'delay'\non = ['holder']\npeers = ['granting:2', 'storage', 'n1']\ndelay_ms = 1.0",
        );
        let roles: Vec<String> = delay.roles().into_iter().map(|(text, _)| text).collect();
        assert_eq!(roles, ["holder", "granting:2"]);
        let resolved = delay.resolved(&resolution(&[("holder", &["c2"]), ("granting:2", &["n1", "n3"])]));
        assert_eq!(resolved.on, ["c2"]);
        assert_eq!(resolved.parameters["peers"], json!(["n1", "n3", "storage"]));
    }

    #[test]
    fn a_node_that_a_role_stands_for_leaves_all_other_groups() {
        let cut = fault("fault = 'partition'\non = ['c1', 'c2']\ngroups = [['c1', 'c2'], ['holder', 'n1']]");
        let resolved = cut.resolved(&resolution(&[("holder", &["c2"])]));
        assert_eq!(resolved.parameters["groups"], json!([["c1"], ["c2", "n1"]]));
    }

    #[test]
    fn sentences_name_the_role_behind_the_node() {
        let tell = |roles: &[(&str, &[&str])], sentence: &str| resolution(roles).name_roles(sentence);
        assert_eq!(tell(&[("holder", &["c2"])], "c2 was stopped"), "c2 (the holder) was stopped");
        let named = tell(&[("granting:2", &["n1", "n3"])], "n1 and n3 lost power");
        assert_eq!(named, "n1 and n3 (which had granted the lock) lost power");
        assert_eq!(
            tell(&[("leader", &["n1"])], "n10 was stopped, n1 was not"),
            "n10 was stopped, n1 (the leader) was not"
        );
        assert_eq!(tell(&[("holder", &["c2"])], "c1 and c2 were stopped"), "c1 and c2 were stopped");
        let both = tell(&[("leader", &["n1"]), ("follower", &["n2"])], "packets from n1 to n2 were lost");
        assert_eq!(both, "packets from n1 (the leader) to n2 (a follower) were lost");
    }
}
