//! What the critical sections of a run may be like: as long as its lock, its clients and its faults allow.

use crate::settings::validation::RunSpec;
use fencepost_history::{Lease, f};
use fencepost_nemesis::PlannedFault;
use fencepost_workloads::{Drawn, Length, Settings};
use std::time::Duration;

impl RunSpec {
    /// What the workload of the process in this slot needs to know.
    pub fn workload_settings(&self, slot: usize) -> Settings {
        let options = &self.options;
        let length = match options.hold {
            Some(hold) => hold.into(),
            None => Length::Drawn(Drawn {
                ttl: options.ttl.0,
                outlasts: self.allows_overstay(),
                undelayed: !self.faults_may_delay_processes(),
            }),
        };
        // Without a rate, processes rest about as long as a section takes: the lock is contended and shared.
        let pause = match options.rate > 0.0 {
            true => Duration::from_secs_f64(options.concurrency as f64 / options.rate),
            false => length.mean(),
        };
        Settings { keys: options.keys, length, pause, reader: slot < options.readers }
    }

    /// Whether a process may go on beyond the TTL and do nothing wrong: its lock does not end by then, or it
    /// notices. (A transaction is prolonged by its statements alone, and a section that waits has none.)
    fn allows_overstay(&self) -> bool {
        let can = self.lock.capabilities(&self.options.lock_options);
        let is_prolonged = self.workload.needs == Some(f::PROLONG);
        let is_renewed = can.renewal && !can.own_storage || is_prolonged;
        can.lease != Lease::Ttl || is_renewed || self.options.careful && can.validity
    }

    /// Whether a fault of the plan can delay a process within its section: one in its client or in the
    /// storage, or in the lock service that keeps the data. A client's wall clock measures no passing time.
    fn faults_may_delay_processes(&self) -> bool {
        let topology = &self.topology;
        let keeps_data = self.lock.capabilities(&self.options.lock_options).own_storage;
        let of_servers =
            |target: &String| topology.candidates(target).iter().all(|node| topology.servers.contains(node));
        let delays = |fault: &PlannedFault| {
            let moves_wall_clocks = fault.motions().is_some_and(|motions| motions.monotonic.is_none());
            let reaches = keeps_data || fault.on.is_empty() || !fault.on.iter().all(of_servers);
            reaches && !moves_wall_clocks
        };
        self.plan.faults.iter().any(delays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::options::RunOptions;
    use fencepost_history::{Seed, TimeSpan};
    use fencepost_nemesis::Plan;

    fn spec(lock: &str, edit: impl FnOnce(&mut RunOptions), fault: &str) -> RunSpec {
        let mut options = RunOptions { lock: lock.to_owned(), seed: Some(Seed(1)), ..RunOptions::default() };
        edit(&mut options);
        let peaceful = RunSpec::new(options.clone()).unwrap();
        if fault.is_empty() {
            return peaceful;
        }
        let text = format!("[[fault]]\nat_ms = 0\nfor_ms = 100\n{fault}");
        RunSpec::with_plan(options, Plan::parse(&text, &peaceful.topology).unwrap()).unwrap()
    }

    fn drawn(spec: &RunSpec) -> Drawn {
        match spec.workload_settings(0).length {
            Length::Drawn(drawn) => drawn,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sections_outlast_the_ttl_where_that_does_no_harm() {
        let outlasts = |lock: &str, edit: fn(&mut RunOptions)| drawn(&spec(lock, edit, "")).outlasts;
        assert!(!outlasts("redis-single", |_| {}));
        assert!(!outlasts("redlock", |_| {}));
        assert!(!outlasts("postgres-row", |_| {}), "the server ends a transaction that waits");
        assert!(outlasts("redis-single", |options| options.lock_options.watchdog = true));
        assert!(outlasts("redlock", |options| options.careful = true));
        assert!(outlasts("etcd", |_| {}) && outlasts("zookeeper-sequential", |_| {}));
        assert!(outlasts("postgres-advisory", |_| {}));
    }

    #[test]
    fn only_faults_near_a_process_can_delay_it() {
        let undelayed = |lock: &str, fault: &str| drawn(&spec(lock, |_| {}, fault)).undelayed;
        assert!(undelayed("redlock", ""));
        assert!(undelayed("redlock", "fault = \"power-loss\"\non = [\"n1\", \"n2\"]"));
        assert!(undelayed("redlock", "fault = \"pause\"\non = [\"n3\"]"));
        assert!(undelayed("redlock", "fault = \"pause\"\non = [\"granting:2\"]"));
        assert!(!undelayed("redlock", "fault = \"pause\"\non = [\"c1\"]"));
        assert!(!undelayed("redlock", "fault = \"pause\"\non = [\"holder\"]"));
        assert!(!undelayed("redlock", "fault = \"pause\"\non = [\"n3\", \"storage\"]"));
        let jump = |monotonic_ms: u64| {
            format!("fault = \"clock-jump\"\non = [\"c1\"]\nwall_ms = 9000\nmonotonic_ms = {monotonic_ms}")
        };
        assert!(undelayed("redlock", &jump(0)));
        assert!(!undelayed("redlock", &jump(9000)));
        assert!(!undelayed("postgres-row", "fault = \"pause\"\non = [\"n1\"]"), "the data is there, too");
    }

    #[test]
    fn a_given_hold_is_the_length_of_every_section() {
        let hold = TimeSpan::from_millis(300);
        let settings = spec("etcd", |options| options.hold = Some(hold.into()), "").workload_settings(0);
        assert_eq!((settings.length, settings.pause), (Length::Fixed(hold.0), hold.0));
        let rated = spec("etcd", |options| options.rate = 5.0, "").workload_settings(0);
        assert_eq!(rated.pause, Duration::from_secs(2), "ten processes begin five sections a second");
    }
}
