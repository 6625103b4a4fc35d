//! What this machine can do, found by trying, and how to get the rest.

use crate::capability::Capability;
use crate::driver::{Driver, DriverOptions};
use crate::drivers::docker::{DockerDriver, Engine};
use crate::drivers::local::{self, LocalDriver};
use crate::drivers::{select, try_afresh};
use crate::{ClusterError, Progress};
use crate::{debian, images};
use std::sync::Arc;

/// Names of the checks that say whether a driver can start nodes at all.
const ENGINE: &str = "engine";
const NAMESPACES: &str = "namespaces";

/// The check that says why no node starts.
const NODES: &str = "nodes";
/// What to do about an image that is not there.
const MADE_LATER: &str = "the first test that needs it makes it, and so does `fencepost images build`";

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What it belongs to: `docker`, `local`, or `images`.
    pub area: &'static str,
    pub name: String,
    pub answer: Answer,
    /// What was found.
    pub detail: String,
    /// What to do, or why nothing has to be done; none where all is well.
    pub remedy: Option<String>,
}

/// Whether the thing is there and works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    /// It is not there, and nothing has to be done about it.
    NotNeeded,
    No,
}

/// Looks at everything. Never fails: what cannot be looked at is a finding, too.
pub async fn examine() -> Vec<Check> {
    match DriverOptions::new() {
        Ok(options) => examine_with(options).await,
        Err(error) => {
            vec![Check::no("local", "program", error.0, "run Fencepost from a file that can be read")]
        }
    }
}

/// As [`examine`], with options.
pub async fn examine_with(options: DriverOptions) -> Vec<Check> {
    let silent: Progress = Arc::new(|_| {});
    let options = DriverOptions { progress: silent, ..options };
    let mut checks = docker(&options).await;
    checks.extend(local(&options).await);
    checks.extend(images(&options));
    checks
}

/// Names of the drivers that can start nodes here, by these checks.
pub fn usable(checks: &[Check]) -> Vec<&'static str> {
    let decides = |check: &&Check| [ENGINE, NAMESPACES].contains(&check.name.as_str());
    // An engine that answers may still be unable to start a node.
    let fails =
        |area: &str| checks.iter().any(|check| check.area == area && check.name == NODES && !check.is_well());
    let usable = checks.iter().filter(decides).filter(|check| check.is_well() && !fails(check.area));
    usable.map(|check| check.area).collect()
}

/// The drivers that can start a node right now, by these checks: those whose image for clients need not be
/// made first, which would take minutes.
pub async fn runnable(checks: &[Check]) -> Vec<Box<dyn Driver>> {
    let mut drivers = Vec::new();
    for (name, client) in [("docker", "image client"), ("local", "programs of client")] {
        let ready = checks.iter().any(|check| check.area == name && check.name == client && check.is_well());
        if ready && let Ok(driver) = select(name).await {
            drivers.push(driver);
        }
    }
    drivers
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

async fn docker(options: &DriverOptions) -> Vec<Check> {
    const AREA: &str = "docker";
    let engine = match Engine::connect().await {
        Ok(engine) => engine,
        Err(error) => {
            let remedy = "install and start Docker, or use --driver local, which needs no engine";
            return vec![Check::no(AREA, ENGINE, error.0, remedy)];
        }
    };
    let about = engine.about().await.unwrap_or_else(|error| error.0);
    let mut checks = vec![Check::yes(AREA, ENGINE, about)];
    let all = Engine::all().await;
    if all.len() > 1 {
        checks.push(Check::yes(AREA, "engines", format!("{}: the first of them is taken", all.join("; "))));
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
        checks.extend({
            let driver = DockerDriver::new(engine, options.clone());
            let key = driver.identity().await;
            tried(AREA, &driver, &key).await
        });
    }
    checks
}

async fn local(options: &DriverOptions) -> Vec<Check> {
    const AREA: &str = "local";
    let who = if nix::unistd::geteuid().is_root() { "as root" } else { "in a user namespace" };
    let mut checks = match local::try_namespaces(options).await {
        Ok(()) => vec![Check::yes(AREA, NAMESPACES, format!("work, {who}"))],
        Err(error) if nix::unistd::geteuid().is_root() => {
            let remedy = "this container lacks rights: start it with --cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add SYS_PTRACE, and \
                          where an error remains with --privileged";
            return vec![Check::no(AREA, NAMESPACES, error.0, remedy)];
        }
        Err(error) => {
            let remedy = "run as root, or allow user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu \
                          also kernel.apparmor_restrict_unprivileged_userns=0)";
            return vec![Check::no(AREA, NAMESPACES, error.0, remedy)];
        }
    };
    for image in images::ALL.iter() {
        let name = format!("programs of {}", image.name);
        checks.push(match images::is_unpacked(image) {
            true => {
                Check::yes(AREA, name, format!("in a root file system of Debian's suite {}", image.suite))
            }
            false => Check::not_needed(AREA, name, "not made yet", MADE_LATER),
        });
    }
    if images::find("client").is_ok_and(images::is_unpacked) {
        checks.extend({
            let driver = LocalDriver::new(options.clone());
            let key = driver.identity();
            tried(AREA, &driver, &key).await
        });
    }
    checks
}

/// What nodes of this driver can do. Tried afresh: the user may just have changed something.
async fn tried(area: &'static str, driver: &dyn Driver, key: &str) -> Vec<Check> {
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
                    Some(reason) => Check::no(area, name, reason, remedy),
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
        Capability::Signal => ("signals", "nothing helps: every node can send signals"),
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
