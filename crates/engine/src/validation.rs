//! Refuses what cannot work, before anything starts, and finds the parts that the options name.

use crate::names::{BadUsage, pick};
use crate::options::RunSpec;
use crate::topology;
use fencepost_cluster::Capability;
use fencepost_locks::LockDefinition;
use fencepost_nemesis::{Faked, Nemesis, Plan, SWARM, Scene};
use fencepost_storage::Need;
use fencepost_workloads::Workload;
use std::path::Path;
use std::time::Duration;

/// The parts that a spec names.
#[derive(Clone)]
pub struct Parts {
    pub backend: &'static LockDefinition,
    pub workload: &'static dyn Workload,
    pub nemeses: Vec<&'static dyn Nemesis>,
    /// Which fault strikes whom, when: drawn from the seed, or read from a file.
    pub plan: Plan,
}

impl RunSpec {
    /// Refuses what cannot work, before anything starts, and gives the parts that the spec names.
    pub fn validate(&self) -> Result<Parts, BadUsage> {
        pick("driver", &self.driver, &["auto", "docker", "local"], |name| name)?;
        let backends = fencepost_locks::registry();
        let backend = pick("backend", &self.backend, backends, |backend| backend.name)?;
        let workloads = fencepost_workloads::registry();
        let workload = pick("workload", &self.workload, workloads, |workload| workload.name())?;
        let mut nemeses = self.nemeses()?;
        self.check_numbers()?;
        self.check_guard(backend, workload)?;
        self.check_readers(backend, workload)?;
        let ttl = Duration::from_millis(self.ttl_ms);
        backend.check(&self.options, ttl).map_err(|error| BadUsage(error.0))?;
        let scene = topology::scene(self, backend, workload);
        let plan = match &self.nemesis_file {
            Some(file) => read_plan(file, &scene)?,
            None if self.is_swarm() => self.draw_swarm(&scene, &Capability::ALL)?,
            None => fencepost_nemesis::draw(&nemeses, &scene, &self.nemesis_settings(&scene)?, self.seed),
        };
        if self.nemesis_file.is_some() || self.is_swarm() {
            nemeses = plan.nemeses();
        }
        let parts = Parts { backend, workload, nemeses, plan };
        self.faked(&parts)?;
        Ok(parts)
    }

    fn nemeses(&self) -> Result<Vec<&'static dyn Nemesis>, BadUsage> {
        let mut nemeses: Vec<&dyn Nemesis> = Vec::new();
        if self.is_swarm() && self.nemesis.len() > 1 {
            return bad(
                "--nemesis swarm draws among all nemeses by itself; name no other beside it".to_owned()
            );
        }
        for name in self.nemesis.iter().filter(|name| *name != SWARM) {
            let nemesis = pick("nemesis", name, fencepost_nemesis::registry(), |nemesis| nemesis.name())?;
            if nemeses.iter().any(|other| other.name() == nemesis.name()) {
                return bad(format!("the nemesis {name} is named twice; name each once"));
            }
            nemeses.push(nemesis);
        }
        if self.nemesis_file.is_some() && !self.nemesis.is_empty() {
            return bad(
                "--nemesis and --nemesis-file exclude each other: a plan says all that goes wrong".to_owned()
            );
        }
        Ok(nemeses)
    }

    fn check_numbers(&self) -> Result<(), BadUsage> {
        let positive = [
            ("--ttl", self.ttl_ms),
            ("--time-limit", self.time_limit_ms),
            ("--acquire-timeout", self.acquire_timeout_ms),
            ("--nemesis-interval", self.nemesis_interval_ms),
        ];
        for (option, milliseconds) in positive {
            if milliseconds == 0 {
                return bad(format!("{option} must be longer than 0; try `{option} 2s`"));
            }
        }
        let counts =
            [("--clients", self.clients), ("--concurrency", self.concurrency), ("--keys", self.keys)];
        for (option, count) in counts {
            if count == 0 {
                return bad(format!("{option} must be at least 1"));
            }
        }
        if self.acquisitions == Some(0) {
            return bad("--acquisitions must be at least 1".to_owned());
        }
        if self.clients > 50 {
            return bad(format!(
                "--clients {} is more than the 50 that one machine is trusted with; use --concurrency for more processes",
                self.clients
            ));
        }
        if self.concurrency < self.clients {
            return bad(format!(
                "--concurrency {} leaves some of the {} clients without a process; make it at least {}",
                self.concurrency, self.clients, self.clients
            ));
        }
        if !self.rate.is_finite() || self.rate < 0.0 {
            return bad(format!("--rate {} is not a number of critical sections a second", self.rate));
        }
        if self.options.nodes.is_some_and(|nodes| nodes == 0 || nodes > 50) {
            return bad("--nodes must be between 1 and 50".to_owned());
        }
        Ok(())
    }

    fn check_guard(&self, backend: &LockDefinition, workload: &dyn Workload) -> Result<(), BadUsage> {
        let guards = fencepost_storage::guards();
        let guard = pick("guard", &self.guard, guards, |guard| guard.name())?;
        let can = backend.capabilities(&self.options);
        if self.guard != "none" && can.own_storage {
            return bad(format!(
                "--guard {} protects the storage, and {} keeps the data itself, beside the lock; leave --guard out",
                self.guard, self.backend
            ));
        }
        let (lacks, has) = match guard.needs() {
            Need::Nothing => ("", true),
            Need::Token => ("a fencing token", can.token),
            Need::UniqueValue => ("a unique value", can.unique_value),
            Need::Sequencer => ("a sequencer", can.sequencer),
        };
        if !has {
            return bad(format!(
                "--guard {} needs {lacks}, and {} hands out none; use a backend that does (see `fencepost list backends`) or --guard none",
                self.guard, self.backend
            ));
        }
        if self.storage_linger_ms > 0 && !guard.in_two_steps() {
            return bad(format!(
                "--storage-linger is for guards that check and write in two steps, and {} does both in one; use --guard token-racy or unique-racy",
                self.guard
            ));
        }
        if self.guard != "none" && !workload.uses_storage() {
            return bad(format!(
                "--guard {} protects the storage, which the workload {} does not use; use --workload increment",
                self.guard, self.workload
            ));
        }
        Ok(())
    }

    fn check_readers(&self, backend: &LockDefinition, workload: &dyn Workload) -> Result<(), BadUsage> {
        if self.readers == 0 {
            return Ok(());
        }
        if !backend.capabilities(&self.options).shared_mode {
            return bad(format!(
                "--readers take the lock shared, and {} has no shared mode; use --backend chubby",
                self.backend
            ));
        }
        if !workload.has_readers() {
            return bad(format!("the workload {} has no readers; use lock or increment", self.workload));
        }
        if self.readers >= self.concurrency {
            return bad(format!(
                "--readers {} leaves none of {} processes to take the lock for itself; make it less",
                self.readers, self.concurrency
            ));
        }
        Ok(())
    }

    /// What the nemeses are told.
    fn nemesis_settings(&self, scene: &Scene) -> Result<fencepost_nemesis::Settings, BadUsage> {
        let partition = self.partition.as_deref().map(|text| fencepost_nemesis::parse_partition(text, scene));
        let partition = partition.transpose().map_err(|reason| BadUsage(format!("--partition: {reason}")))?;
        Ok(fencepost_nemesis::Settings {
            time_limit: self.time_limit(),
            interval: Duration::from_millis(self.nemesis_interval_ms),
            clock: self.clock,
            clock_amplitude: self.clock_amplitude_ms.map(Duration::from_millis),
            clock_drift_ppm: self.clock_drift_ppm,
            restart_after: self.restart_after_ms.map(Duration::from_millis),
            torn_writes: self.torn_writes,
            partition,
        })
    }

    /// Whether libfaketime has to be in the servers from their start; refused where it cannot do what the plan wants.
    pub fn faked(&self, parts: &Parts) -> Result<Option<Faked>, BadUsage> {
        let scene = topology::scene(self, parts.backend, parts.workload);
        let offered = parts.backend.service.clock_mechanisms();
        fencepost_nemesis::fake_clocks(&parts.plan, &scene, self.clock_mechanism, offered).map_err(BadUsage)
    }

    fn draw_swarm(&self, scene: &Scene, offered: &[Capability]) -> Result<Plan, BadUsage> {
        Ok(fencepost_nemesis::swarm(offered, scene, &self.nemesis_settings(scene)?, self.seed))
    }

    /// The parts, as far as a driver can play them: a swarm is drawn from what it offers. Everything else stays.
    pub fn fitted(&self, parts: &Parts, offered: &[Capability]) -> Result<Parts, BadUsage> {
        let mut fitted = parts.clone();
        if self.is_swarm() {
            let scene = topology::scene(self, parts.backend, parts.workload);
            fitted.plan = self.draw_swarm(&scene, offered)?;
            let drawn =
                fitted.plan.swarm.iter().filter_map(|enabled| fencepost_nemesis::find(&enabled.nemesis));
            fitted.nemeses = drawn.collect();
        }
        Ok(fitted)
    }
}

fn read_plan(file: &Path, scene: &Scene) -> Result<Plan, BadUsage> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| BadUsage(format!("cannot read the plan {}: {error}", file.display())))?;
    let plan = Plan::parse(&text, scene).map_err(|reason| {
        BadUsage(format!("the plan {} is no plan: {}", file.display(), reason.trim_end()))
    })?;
    if plan.strikes.is_empty() {
        return bad(format!(
            "the plan {} has no [[strike]]; leave it out to run without faults",
            file.display()
        ));
    }
    Ok(plan)
}

fn bad<T>(sentence: String) -> Result<T, BadUsage> {
    Err(BadUsage(sentence))
}
