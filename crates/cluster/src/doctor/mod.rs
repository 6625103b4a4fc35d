//! What this machine can do, found by trying, and how to get the rest.

mod machine;
mod stalls;

pub use crate::drivers::docker::FoundEngine;
pub use machine::Machine;
pub use stalls::{longest_stall, recommended_ttl};

use crate::capability::Capability;
use crate::driver::{Driver, DriverOptions};
use crate::drivers::docker::{DockerDriver, Engine};
use crate::drivers::local::{self, LocalDriver};
use crate::drivers::{select, try_afresh};
use crate::{ClusterError, Progress};
use crate::{debian, images};
use serde::Serialize;
use std::sync::Arc;

const DRIVERS: [&str; 2] = ["docker", "local"];

/// Names of the checks that say whether a driver can start nodes at all.
const ENGINE: &str = "engine";
const NAMESPACES: &str = "namespaces";

const NODES: &str = "nodes";
/// The check that is there once a node was started: every node can send signals.
const TRIED: &str = "signals";

const MADE_LATER: &str = "the first test that needs it makes it, and so does `fencepost images build`";

#[derive(Clone, Debug)]
pub struct Examination {
    pub machine: Machine,
    /// All engines that answer; the first of them is the one that the driver `docker` takes.
    pub engines: Vec<FoundEngine>,
    pub checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it belongs to: `docker`, `local`, or `images`.
    #[serde(skip)]
    pub area: &'static str,
    pub name: String,
    pub answer: Answer,
    pub detail: String,
    /// What to do, or why nothing has to be done; none where all is well.
    pub remedy: Option<String>,
}

/// Whether the thing is there and works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    Yes,
    NotNeeded,
    No,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "starts_nodes", content = "reason", rename_all = "kebab-case")]
pub enum Start {
    /// One was started, and taken down again.
    Yes,
    No(String),
    /// Why none was tried: what to do first.
    NotTried(String),
}

/// Looks at everything. Never fails: what cannot be looked at is a finding, too.
pub async fn examine() -> Examination {
    match DriverOptions::new() {
        Ok(options) => examine_with(options).await,
        Err(error) => {
            let remedy = "run Fencepost from a file that can be read";
            let checks = vec![Check::no("local", NODES, error.0, remedy)];
            Examination { machine: Machine::look(), engines: Vec::new(), checks }
        }
    }
}

pub async fn examine_with(options: DriverOptions) -> Examination {
    let silent: Progress = Arc::new(|_| {});
    let options = DriverOptions { progress: silent, ..options };
    let machine = Machine::look();
    let engines = Engine::all().await;
    let mut checks = docker(&options, &engines, &machine).await;
    checks.extend(local(&options, &machine).await);
    checks.extend(images(&options));
    Examination { machine, engines, checks }
}

impl Examination {
    /// The drivers, in the order in which `auto` takes them, and whether each starts nodes here.
    pub fn starts(&self) -> Vec<(&'static str, Start)> {
        DRIVERS.iter().map(|driver| (*driver, starts(&self.checks, driver))).collect()
    }

    pub async fn runnable(&self) -> Vec<Box<dyn Driver>> {
        let mut drivers = Vec::new();
        for (name, start) in self.starts() {
            if start == Start::Yes
                && let Ok(driver) = select(name).await
            {
                drivers.push(driver);
            }
        }
        drivers
    }
}

fn starts(checks: &[Check], driver: &str) -> Start {
    let mut of_driver = checks.iter().filter(|check| check.area == driver);
    // An engine that answers may still be unable to start a node.
    let decides = [ENGINE, NAMESPACES, NODES];
    let failed = of_driver.clone().find(|check| decides.contains(&check.name.as_str()) && !check.is_well());
    match failed {
        Some(failed) => Start::No(failed.detail.clone()),
        None if of_driver.any(|check| check.name == TRIED) => Start::Yes,
        None => Start::NotTried(
            "the image of clients is not made yet: `fencepost images build client` makes it".to_owned(),
        ),
    }
}

impl Check {
    fn yes(area: &'static str, name: impl Into<String>, detail: impl Into<String>) -> Check {
        Check { area, name: name.into(), answer: Answer::Yes, detail: detail.into(), remedy: None }
    }

    fn not_needed(
        area: &'static str,
        name: impl Into<String>,
        detail: impl Into<String>,
        why: impl Into<String>,
    ) -> Check {
        Check { answer: Answer::NotNeeded, ..Check::no(area, name, detail, why) }
    }

    fn no(
        area: &'static str,
        name: impl Into<String>,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        let (name, detail, remedy) = (name.into(), detail.into(), Some(remedy.into()));
        Check { area, name, answer: Answer::No, detail, remedy }
    }

    fn is_well(&self) -> bool {
        self.answer == Answer::Yes
    }
}

async fn docker(options: &DriverOptions, engines: &[FoundEngine], machine: &Machine) -> Vec<Check> {
    const AREA: &str = "docker";
    let engine = match Engine::connect().await {
        Ok(engine) => engine,
        Err(error) => {
            let remedy = match machine.confined_by {
                Some(_) => {
                    "give this container the socket of an engine (-v /var/run/docker.sock:/var/run/docker.sock), or use --driver local, \
                     which needs no engine"
                }
                None => "install and start Docker, or use --driver local, which needs no engine",
            };
            return vec![Check::no(AREA, ENGINE, error.0, remedy)];
        }
    };
    let about = engine.about().await.unwrap_or_else(|error| error.0);
    let mut checks = vec![Check::yes(AREA, ENGINE, about)];
    if engines.len() > 1 {
        let all: Vec<String> = engines.iter().map(|each| format!("{each} at {}", each.address)).collect();
        checks.push(Check::yes(
            AREA,
            "engines",
            format!("{}: the first of them is taken; DOCKER_HOST names another", all.join("; ")),
        ));
    }
    let made = engine.list_images().await.unwrap_or_default();
    let is_there = |name: &str| made.iter().any(|made| made.name == name && made.current);
    for image in images::ALL.iter() {
        let name = format!("image {}", image.name);
        checks.push(match is_there(&image.name) {
            true => Check::yes(AREA, name, "made"),
            false => Check::not_needed(AREA, name, "not made yet", MADE_LATER),
        });
    }
    if is_there("client") {
        let driver = DockerDriver::new(engine, options.clone());
        let key = driver.identity().await;
        checks.extend(tried(AREA, &driver, &key, machine).await);
    }
    checks
}

async fn local(options: &DriverOptions, machine: &Machine) -> Vec<Check> {
    const AREA: &str = "local";
    let user = if machine.is_root { "as root" } else { "in a user namespace" };
    let mut checks = match local::try_namespaces(options).await {
        Ok(()) => vec![Check::yes(AREA, NAMESPACES, format!("work, {user}"))],
        Err(error) => return vec![Check::no(AREA, NAMESPACES, error.0, remedy_for_namespaces(machine))],
    };
    for image in images::ALL.iter() {
        let name = format!("programs of {}", image.name);
        checks.push(if options.machine_programs && image.can_be_this_machines() {
            Check::yes(AREA, name, "this machine's own")
        } else if images::is_unpacked(image) {
            Check::yes(AREA, name, format!("in a root file system of Debian's suite {}", image.suite))
        } else {
            Check::not_needed(AREA, name, "not made yet", MADE_LATER)
        });
    }
    let has_client = |client: &images::Image| {
        images::is_unpacked(client) || options.machine_programs && client.can_be_this_machines()
    };
    if images::find("client").is_ok_and(has_client) {
        let driver = LocalDriver::new(options.clone());
        let key = driver.identity();
        checks.extend(tried(AREA, &driver, &key, machine).await);
    }
    checks
}

fn remedy_for_namespaces(machine: &Machine) -> String {
    match &machine.confined_by {
        Some(_) if machine.lacking_options.is_empty() => {
            "this container has the rights that nodes need, so its machine forbids namespaces: try it on the machine itself".to_owned()
        }
        Some(maker) => format!(
            "this is a container of {maker}, which lacks rights: start it with {}, and where an error remains with --privileged",
            machine.lacking_options.join(" ")
        ),
        None if machine.is_root => {
            "root lacks rights here, so something confines this process: run Fencepost on the machine itself".to_owned()
        }
        None => "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu also \
                 kernel.apparmor_restrict_unprivileged_userns=0)"
            .to_owned(),
    }
}

/// What nodes of this driver can do. Tried afresh: the user may just have changed something.
async fn tried(area: &'static str, driver: &dyn Driver, key: &str, machine: &Machine) -> Vec<Check> {
    match try_afresh(driver, key).await {
        Ok(found) => found
            .into_iter()
            .map(|found| {
                let (name, remedy) = describe(found.capability, area);
                match found.reason {
                    None => Check::yes(area, name, "works inside a node"),
                    Some(reason) if found.capability == Capability::Netem => {
                        Check::not_needed(area, name, reason, remedy)
                    }
                    // A right of the container may be all that is missing.
                    Some(reason) => match machine.advice().filter(|_| area == "local") {
                        Some(advice) => Check::no(area, name, reason, format!("{advice}; else: {remedy}")),
                        None => Check::no(area, name, reason, remedy),
                    },
                }
            })
            .collect(),
        Err(ClusterError(error)) => {
            vec![Check::no(area, NODES, error, "see the reason; the other driver may work")]
        }
    }
}

fn describe(capability: Capability, area: &str) -> (&'static str, &'static str) {
    match capability {
        Capability::Signal => (TRIED, "nothing helps: every node can send signals"),
        Capability::Ptrace => ("ptrace", "clock faults need it: set kernel.yama.ptrace_scope to less than 3"),
        Capability::PacketFilter => {
            ("iptables", "partitions and faults of packets need it: load the kernel module nf_tables")
        }
        Capability::PacketQueue => {
            ("NFQUEUE", "faults of packets need it, or netem: load the kernel module nfnetlink_queue")
        }
        Capability::Netem => ("netem", "Fencepost's own emulator delays, loses and reorders packets instead"),
        Capability::Fuse if area == "docker" => {
            ("FUSE", "power losses and faults of disks need it: use --driver local, where nodes may mount")
        }
        Capability::Fuse => ("FUSE", "power losses and faults of disks need it: load the kernel module fuse"),
    }
}

/// Whether images can be made: where their packages come from. Nothing is downloaded.
fn images(options: &DriverOptions) -> Vec<Check> {
    const NAME: &str = "Debian's packages";
    vec![match debian::mirror_in_use(&options.downloads) {
        Ok(mirror) => Check::yes("images", NAME, format!("come from {mirror}")),
        // An engine may know one: the image of Debian names it.
        Err(error) => Check::not_needed("images", NAME, "no mirror is known on this machine", error.0),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_starts_nodes_only_once_one_was_started() {
        let engine = || Check::yes("docker", ENGINE, "Docker 28.3.0");
        let other = || Check::no("local", NAMESPACES, "not permitted", "run as root");
        let not_made =
            vec![engine(), Check::not_needed("docker", "image client", "not made yet", MADE_LATER), other()];
        assert!(matches!(starts(&not_made, "docker"), Start::NotTried(_)));
        let dead =
            vec![engine(), Check::no("docker", NODES, "cannot start the container of probe", "see"), other()];
        assert_eq!(starts(&dead, "docker"), Start::No("cannot start the container of probe".to_owned()));
        assert_eq!(starts(&dead, "local"), Start::No("not permitted".to_owned()));
        let tried = vec![engine(), Check::yes("docker", TRIED, "works inside a node")];
        assert_eq!(starts(&tried, "docker"), Start::Yes);
    }

    #[test]
    fn a_container_is_advised_to_get_rights_and_never_to_be_root() {
        let machine = Machine {
            confined_by: Some("Docker".to_owned()),
            is_root: true,
            lacking_options: vec!["--cap-add SYS_ADMIN".to_owned(), "--device /dev/fuse".to_owned()],
            ..Machine::look()
        };
        let advice = remedy_for_namespaces(&machine);
        assert!(advice.contains("start it with --cap-add SYS_ADMIN --device /dev/fuse, and"), "{advice}");
        assert!(!advice.contains("run as root"), "{advice}");
        let user = Machine { confined_by: None, is_root: false, ..machine };
        assert!(remedy_for_namespaces(&user).starts_with("run as root, or allow user namespaces"));
    }
}
