//! Resolves the roles that a fault is aimed at to nodes, at the moment of the injection.

use crate::run::lock_state::KnownHold;
use crate::run::recorder::{Recorder, TriggerEvent};
use fencepost_history::Stream;
use fencepost_nemesis::{FaultContext, FaultError, PlannedFault, Resolution, Role, RoleTarget, Topology};
use rand::seq::SliceRandom;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) struct Aiming<'a> {
    pub context: &'a FaultContext,
    pub recorder: &'a Recorder,
    pub topology: &'a Topology,
    /// The event that the fault waited for, if it came: its process is the one that is meant.
    pub fired: Option<TriggerEvent>,
    pub random: Stream,
}

impl Aiming<'_> {
    /// Finds the nodes of every role within this time; none where one has none. Errors: no leader.
    pub async fn resolve(
        &mut self,
        fault: &PlannedFault,
        patience: Duration,
    ) -> Result<Option<Resolution>, FaultError> {
        let roles = fault.roles();
        let by_servers =
            |target: &RoleTarget| matches!(target.role, Role::Leader | Role::Follower | Role::Granting);
        let leader = match self.topology.has_leader && roles.iter().any(|(_, target)| by_servers(target)) {
            // Where no server leads, no node plays the role, and nothing was begun.
            true => match self.context.await_leader(|_| true).await? {
                None => return Ok(None),
                leader => leader,
            },
            false => None,
        };
        let begun = Instant::now();
        loop {
            // Listens before it looks, so that no change is missed in between.
            let changed = self.recorder.lock_changed();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(resolution) = self.try_to_resolve(&roles, leader.as_deref()) {
                return Ok(Some(resolution));
            }
            let left = patience.saturating_sub(begun.elapsed());
            if tokio::time::timeout(left, changed).await.is_err() {
                return Ok(None);
            }
        }
    }

    fn try_to_resolve(&mut self, roles: &[(String, RoleTarget)], leader: Option<&str>) -> Option<Resolution> {
        let mut resolution = Resolution::default();
        for (text, target) in roles {
            let nodes = match target.role {
                Role::Holder => self.holders(*target),
                Role::Waiter => self.waiters(*target),
                Role::Granting => self.granting(*target, leader),
                Role::Leader => leader.map(str::to_owned).into_iter().collect(),
                Role::Follower => self.followers(*target, leader),
            };
            if nodes.is_empty() {
                return None;
            }
            resolution.add(text.clone(), *target, nodes);
        }
        Some(resolution)
    }

    /// The holds, first that of the awaited event's process, or else the one whose section lasts longest.
    fn holds(&self) -> Vec<KnownHold> {
        let meant = self.fired.as_ref().and_then(|fired| fired.hold.clone());
        let others = self.recorder.lock_state(|state| state.holds().into_iter().cloned().collect::<Vec<_>>());
        let is_meant = |hold: &KnownHold| meant.as_ref().is_some_and(|meant| meant == hold);
        let others = others.into_iter().filter(|hold| !is_meant(hold));
        meant.clone().into_iter().chain(others).collect()
    }

    fn holders(&self, target: RoleTarget) -> Vec<String> {
        let clients = self.holds().into_iter().map(|hold| self.recorder.client_name(hold.process));
        first_of(clients, target.most(self.topology.clients.len()))
    }

    /// Clients that wait, but for those that hold something: a fault of them would be one of a holder.
    fn waiters(&self, target: RoleTarget) -> Vec<String> {
        let holders: Vec<String> =
            self.holds().into_iter().map(|hold| self.recorder.client_name(hold.process)).collect();
        let meant = self.fired.as_ref().and_then(|fired| fired.process);
        let mut waiting = self.recorder.lock_state(|state| state.waiters());
        if let Some(place) = waiting.iter().position(|process| Some(*process) == meant) {
            waiting[..=place].rotate_right(1);
        }
        let clients = waiting.into_iter().map(|process| self.recorder.client_name(process));
        let clients = clients.filter(|client| !holders.contains(client));
        first_of(clients, target.most(self.topology.clients.len()))
    }

    /// Servers that granted that hold, by name; if unknown, a majority with the leader; without one, any.
    fn granting(&mut self, target: RoleTarget, leader: Option<&str>) -> Vec<String> {
        let Some(hold) = self.holds().into_iter().next() else { return Vec::new() };
        let servers = &self.topology.servers;
        let known: Vec<String> =
            servers.iter().filter(|name| hold.granted_by.contains(name)).cloned().collect();
        let (mut nodes, most) = match (known.is_empty(), leader) {
            (false, _) => (known.clone(), target.most(known.len())),
            (true, Some(_)) => (servers.clone(), target.most(servers.len() / 2 + 1)),
            (true, None) => (servers.clone(), target.most(servers.len())),
        };
        nodes.shuffle(&mut self.random);
        // The leader first: without it the others have no say.
        nodes.sort_by_key(|name| Some(name.as_str()) != leader);
        nodes.truncate(most);
        nodes.sort_by_key(|name| servers.iter().position(|server| server == name));
        nodes
    }

    fn followers(&mut self, target: RoleTarget, leader: Option<&str>) -> Vec<String> {
        let servers = &self.topology.servers;
        let mut others: Vec<String> =
            servers.iter().filter(|name| Some(name.as_str()) != leader).cloned().collect();
        others.shuffle(&mut self.random);
        others.truncate(target.most(others.len()));
        others.sort_by_key(|name| servers.iter().position(|server| server == name));
        others
    }
}

fn first_of(names: impl Iterator<Item = String>, most: usize) -> Vec<String> {
    let mut first: Vec<String> = Vec::new();
    for name in names {
        if first.len() < most && !first.contains(&name) {
            first.push(name);
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::recorder::Placement;
    use crate::stop::Stop;
    use async_trait::async_trait;
    use fencepost_cluster::ClusterError;
    use fencepost_history::{Completion, Seed, Writer, f};
    use fencepost_nemesis::{Leadership, ServerFaults, Trigger};
    use serde_json::{Value, json};
    use std::collections::HashMap;
    use std::sync::Arc;

    struct SecondLeads;

    #[async_trait]
    impl Leadership for SecondLeads {
        async fn leader(&self) -> Result<Option<String>, ClusterError> {
            Ok(Some("n2".to_owned()))
        }
        async fn transfer_leadership(&self, _: &str) -> Result<(), ClusterError> {
            Ok(())
        }
    }

    /// Five clients with a process each, and a history that is kept nowhere.
    fn recorder() -> Recorder {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::create(&folder.path().join("history.jsonl")).unwrap();
        Recorder::new(writer, Placement { slots: 5, clients: 5 }, Arc::new(Stop::default()), false)
    }

    fn begin(recorder: &Recorder, process: u64, key: &str, hold_ms: u64) {
        recorder.invoke(process, f::ACQUIRE, key, json!({"hold_ms": hold_ms}));
    }

    fn grant(recorder: &Recorder, process: u64, key: &str, servers: &[&str]) {
        let granted = Completion::Ok(json!({"granted_by": servers}));
        recorder.complete(process, f::ACQUIRE, key, &granted, Value::Null);
    }

    /// The targets of a fault on these roles; none where one of them has no node.
    async fn aimed(
        recorder: &Recorder,
        led: bool,
        on: &[&str],
        fired: Option<TriggerEvent>,
    ) -> Option<Vec<String>> {
        let names = |letter| (1..=5).map(|number| format!("{letter}{number}")).collect();
        let (servers, clients) = (names("n"), names("c"));
        let ttl = Duration::from_secs(2);
        let topology = Topology {
            servers,
            clients,
            storage: None,
            has_leader: led,
            orders: &[],
            points: Vec::new(),
            ttl,
            server_faults: ServerFaults::All,
            by_name: false,
        };
        let leadership = led.then(|| Arc::new(SecondLeads) as Arc<dyn Leadership>);
        let context = FaultContext::new(&[], HashMap::new(), Box::new(|_| None), leadership, None);
        let fault = PlannedFault {
            at_ms: 0,
            for_ms: 1,
            fault: "pause".to_owned(),
            on: on.iter().map(|name| (*name).to_owned()).collect(),
            when: None,
            then: None,
            until: None,
            parameters: serde_json::Map::new(),
        };
        let random = Seed(1).stream("roles-0");
        let mut aiming = Aiming { context: &context, recorder, topology: &topology, fired, random };
        let resolution = aiming.resolve(&fault, Duration::ZERO).await.unwrap()?;
        Some(fault.resolved(&resolution).on)
    }

    #[tokio::test]
    async fn roles_are_found_in_the_state_of_the_lock() {
        let recorder = recorder();
        assert_eq!(aimed(&recorder, false, &["holder"], None).await, None);
        begin(&recorder, 1, "k0", 100);
        begin(&recorder, 3, "k0", 100);
        grant(&recorder, 1, "k0", &["n1", "n3", "n5"]);
        let found = async |on: &[&str]| aimed(&recorder, false, on, None).await.unwrap_or_default();
        assert_eq!(found(&["holder"]).await, ["c2"]);
        assert_eq!(found(&["waiter"]).await, ["c4"]);
        assert_eq!(found(&["granting"]).await, ["n1", "n3", "n5"]);
        let two = found(&["granting:2"]).await;
        assert!(
            two.len() == 2 && two.iter().all(|name| ["n1", "n3", "n5"].contains(&name.as_str())),
            "{two:?}"
        );
        assert_eq!(found(&["holder", "c2", "n4"]).await, ["c2", "n4"]);
    }

    #[tokio::test]
    async fn the_process_of_the_awaited_event_is_the_one_that_is_meant() {
        let recorder = recorder();
        begin(&recorder, 1, "k0", 900);
        begin(&recorder, 2, "k1", 100);
        grant(&recorder, 1, "k0", &["n1"]);
        let fired = recorder.await_event(Trigger::of(f::ACQUIRE));
        grant(&recorder, 2, "k1", &["n2"]);
        assert_eq!(aimed(&recorder, false, &["holder"], None).await.unwrap(), ["c2"]);
        let fired = fired.await.ok();
        assert_eq!(
            aimed(&recorder, false, &["holder", "granting"], fired.clone()).await.unwrap(),
            ["c3", "n2"]
        );
        // The others come behind it.
        assert_eq!(aimed(&recorder, false, &["holder:2"], fired.clone()).await.unwrap(), ["c3", "c2"]);
        // Also when that process has released meanwhile: the fault comes a moment after the event.
        let released = Completion::Ok(json!({"believed": true}));
        recorder.invoke(2, f::RELEASE, "k1", Value::Null);
        recorder.complete(2, f::RELEASE, "k1", &released, Value::Null);
        assert_eq!(aimed(&recorder, false, &["holder"], fired).await.unwrap(), ["c3"]);
    }

    #[tokio::test]
    async fn the_waiter_of_the_awaited_event_comes_first() {
        let recorder = recorder();
        begin(&recorder, 0, "k0", 900);
        grant(&recorder, 0, "k0", &["n1"]);
        for process in [1, 2, 3] {
            begin(&recorder, process, "k0", 100);
        }
        let waiters = async |process: Option<u64>| {
            let fired = process.map(|process| TriggerEvent { process: Some(process), hold: None });
            aimed(&recorder, false, &["waiter:3"], fired).await.unwrap()
        };
        let usual = waiters(None).await;
        assert_eq!(waiters(Some(2)).await[0], "c3");
        assert_eq!(waiters(Some(3)).await[0], "c4");
        assert_eq!((usual.len(), waiters(Some(9)).await), (3, usual));
    }

    #[tokio::test]
    async fn a_trigger_waits_for_a_section_that_is_long_enough() {
        let recorder = recorder();
        let long = Trigger { section_ms: Some(800), ..Trigger::of(f::ACQUIRE) };
        let mut fired = recorder.await_event(long);
        begin(&recorder, 1, "k0", 100);
        grant(&recorder, 1, "k0", &["n1"]);
        assert!(fired.try_recv().is_err());
        begin(&recorder, 2, "k1", 800);
        grant(&recorder, 2, "k1", &["n1"]);
        assert_eq!(fired.try_recv().unwrap().process, Some(2));
    }

    #[tokio::test]
    async fn where_no_client_says_who_granted_it_is_a_majority_with_the_leader() {
        let recorder = recorder();
        begin(&recorder, 1, "k0", 100);
        grant(&recorder, 1, "k0", &[]);
        let led = async |on: &str| aimed(&recorder, true, &[on], None).await.unwrap();
        let three = led("granting").await;
        assert!(three.len() == 3 && three.contains(&"n2".to_owned()), "{three:?}");
        assert_eq!(
            (led("granting:1").await, led("leader").await),
            (vec!["n2".to_owned()], vec!["n2".to_owned()])
        );
        assert_eq!(led("follower:4").await, ["n1", "n3", "n4", "n5"]);
        let unled = aimed(&recorder, false, &["granting"], None).await.unwrap();
        assert_eq!(unled.len(), 5);
    }

    #[tokio::test]
    async fn a_role_without_a_node_is_waited_for() {
        let recorder = Arc::new(recorder());
        let waiting = recorder.clone();
        let found = tokio::spawn(async move {
            let context = FaultContext::new(&[], HashMap::new(), Box::new(|_| None), None, None);
            let clients = vec!["c1".to_owned(), "c2".to_owned()];
            let ttl = Duration::from_secs(2);
            let (servers, points) = (Vec::new(), Vec::new());
            let topology = Topology {
                servers,
                clients,
                storage: None,
                has_leader: false,
                orders: &[],
                points,
                ttl,
                server_faults: ServerFaults::All,
                by_name: false,
            };
            let random = Seed(1).stream("roles-0");
            let mut aiming =
                Aiming { context: &context, recorder: &waiting, topology: &topology, fired: None, random };
            let fault: PlannedFault =
                serde_json::from_value(json!({"for_ms": 1, "fault": "pause", "on": ["holder"]})).unwrap();
            let resolution = aiming.resolve(&fault, Duration::from_secs(60)).await.unwrap().unwrap();
            fault.resolved(&resolution).on
        });
        begin(&recorder, 1, "k0", 100);
        tokio::task::yield_now().await;
        grant(&recorder, 1, "k0", &["n1"]);
        assert_eq!(found.await.unwrap(), ["c2"]);
    }
}
