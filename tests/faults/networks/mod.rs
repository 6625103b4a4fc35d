//! Two network namespaces with a cable between them, for one test.

use nix::sched::{CloneFlags, setns};
use std::fs::File;
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// The two ends. No other place can reach them, so all tests use the same.
pub const LEFT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
pub const RIGHT: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);

/// Gone when dropped, with everything in it.
pub struct Pair {
    left: String,
    right: String,
}

impl Pair {
    /// What [`Pair::left_rules`] gives where nothing was added.
    #[allow(dead_code, reason = "not every test file asks")]
    pub const NO_RULES: &str = "-P PREROUTING ACCEPT\n-P OUTPUT ACCEPT\n";

    pub fn new() -> Pair {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("fp-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let (left, right) = (format!("{name}-left"), format!("{name}-right"));
        let pair = Pair { left: left.clone(), right: right.clone() };
        ip(&["netns", "add", &left]);
        ip(&["netns", "add", &right]);
        ip(&["-n", &left, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", &right]);
        for (namespace, address) in [(&left, LEFT), (&right, RIGHT)] {
            ip(&["-n", namespace, "addr", "add", &format!("{address}/24"), "dev", "eth0"]);
            ip(&["-n", namespace, "link", "set", "lo", "up"]);
            ip(&["-n", namespace, "link", "set", "eth0", "up"]);
        }
        pair
    }

    /// Does it on the left side.
    pub fn left<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.left, work)
    }

    /// Does it on the right side.
    pub fn right<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.right, work)
    }

    /// The rules ahead of all others in the packet filter on the left side.
    #[allow(dead_code, reason = "not every test file asks")]
    pub fn left_rules(&self) -> String {
        let output =
            self.left(|| Command::new("iptables").args(["-t", "raw", "-S"]).output().expect("iptables"));
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in [&self.left, &self.right] {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

/// On a thread of its own, because a thread that entered a namespace stays in it.
fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(format!("/run/netns/{namespace}")).expect("the namespace");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            setns(namespace, CloneFlags::CLONE_NEWNET)
                .expect("to enter the namespace (this test needs root)");
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().expect("ip of iproute2");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {said} (this test needs root)", args.join(" "));
}
