//! What a run is to do: the command line, validated and whole, as it is kept in `run.toml`.

use fencepost_cluster::{Capability, ClockMechanism};
use fencepost_history::Seed;
use fencepost_locks::{Backend, Linger, Options};
use fencepost_nemesis::tools::disk::Torn;
use fencepost_nemesis::{Clock, Faked, Nemesis, Plan, SWARM, Scene};
use fencepost_storage::Need;
use fencepost_workloads::Workload;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything that shapes a run. Two runs of one spec have the same plan: who does what, which fault strikes when.
/// What real servers make of it is not repeatable to the microsecond.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunSpec {
    /// The scenario and the number of its act, where it is one: `redis-clock-jump-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    pub backend: String,
    pub workload: String,
    /// Names of nemeses; empty for none.
    pub nemesis: Vec<String>,
    /// A plan written by hand, or kept by an earlier run, in place of drawn ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nemesis_file: Option<PathBuf>,
    /// `auto`, `docker` or `local`, as asked for.
    pub driver: String,
    pub guard: String,
    /// How long a guard that checks and writes in two steps rests between them.
    #[serde(default)]
    pub storage_linger_ms: u64,
    pub seed: Seed,
    pub clients: usize,
    /// Number of logical processes, spread over the clients.
    pub concurrency: usize,
    /// Of these, so many take the lock shared, and only read.
    #[serde(default)]
    pub readers: usize,
    pub keys: usize,
    /// Critical sections begun a second, at most, by all processes together; 0: no limit.
    pub rate: f64,
    pub ttl_ms: u64,
    pub hold_ms: u64,
    pub acquire_timeout_ms: u64,
    pub time_limit_ms: u64,
    /// The fault phase ends when this many acquires have succeeded, or at the time limit; none: at the time limit only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acquisitions: Option<u64>,
    pub nemesis_interval_ms: u64,
    /// Which clocks go wrong.
    #[serde(default)]
    pub clock: Clock,
    /// Size of clock jumps; none: drawn around the TTL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_amplitude_ms: Option<u64>,
    /// How much clocks drift; none: drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_drift_ppm: Option<NonZeroU32>,
    /// By what the servers' clocks are moved; none: by what suits their program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_mechanism: Option<ClockMechanism>,
    /// How long servers that were killed or lost their power stay down; none: drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_after_ms: Option<u64>,
    /// What a loss of power leaves of what was not fsynced; none: nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torn_writes: Option<Torn>,
    /// Whom partitions cut off from whom; none: drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    pub careful: bool,
    pub fail_fast: bool,
    /// Points of the recipe at which clients say so and stay, for plans that strike there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linger: Vec<Linger>,
    pub options: Options,
}

/// A mistake in what the user asked for: one sentence. Exit code 254.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadUsage(pub String);

/// The parts that a spec names.
#[derive(Clone)]
pub struct Parts {
    pub backend: &'static dyn Backend,
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
        let backend = pick("backend", &self.backend, backends, |backend| backend.name())?;
        let workloads = fencepost_workloads::registry();
        let workload = pick("workload", &self.workload, workloads, |workload| workload.name())?;
        let mut nemeses = self.nemeses()?;
        self.check_numbers()?;
        self.check_guard(backend, workload)?;
        self.check_readers(backend, workload)?;
        fencepost_locks::check_options(backend, &self.options).map_err(BadUsage)?;
        backend.check_ttl(Duration::from_millis(self.ttl_ms)).map_err(BadUsage)?;
        let scene = crate::crew::scene(self, backend, workload);
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

    fn check_guard(&self, backend: &dyn Backend, workload: &dyn Workload) -> Result<(), BadUsage> {
        let guards = fencepost_storage::guards();
        let guard = pick("guard", &self.guard, guards, |guard| guard.name())?;
        if self.guard != "none" && backend.own_storage() {
            return bad(format!(
                "--guard {} protects the storage, and {} keeps the data itself, beside the lock; leave --guard out",
                self.guard, self.backend
            ));
        }
        let (lacks, has) = match guard.needs() {
            Need::Nothing => ("", true),
            Need::Token => ("a fencing token", backend.has_token(&self.options)),
            Need::UniqueValue => ("a unique value", backend.has_unique_value(&self.options)),
            Need::Sequencer => ("a sequencer", backend.has_sequencer()),
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

    fn check_readers(&self, backend: &dyn Backend, workload: &dyn Workload) -> Result<(), BadUsage> {
        if self.readers == 0 {
            return Ok(());
        }
        if !backend.has_shared_mode() {
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

    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    pub fn time_limit(&self) -> Duration {
        Duration::from_millis(self.time_limit_ms)
    }

    /// What the workload is told for the process in this slot.
    pub fn workload_settings(&self, slot: usize) -> fencepost_workloads::Settings {
        let hold = Duration::from_millis(self.hold_ms);
        // Without a rate, processes rest between sections about as long as a section takes, so that the lock is
        // contended and no process keeps it all to itself.
        let pause =
            if self.rate > 0.0 { Duration::from_secs_f64(self.concurrency as f64 / self.rate) } else { hold };
        fencepost_workloads::Settings { keys: self.keys, hold, pause, reader: slot < self.readers }
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

    /// Whether the nemeses themselves are drawn, too.
    pub fn is_swarm(&self) -> bool {
        self.nemesis.iter().any(|name| name == SWARM)
    }

    /// Whether libfaketime has to be in the servers from their start; refused where it cannot do what the plan wants.
    pub fn faked(&self, parts: &Parts) -> Result<Option<Faked>, BadUsage> {
        let scene = crate::crew::scene(self, parts.backend, parts.workload);
        let offered = parts.backend.clock_mechanisms();
        fencepost_nemesis::fake_clocks(&parts.plan, &scene, self.clock_mechanism, offered).map_err(BadUsage)
    }

    fn draw_swarm(&self, scene: &Scene, offered: &[Capability]) -> Result<Plan, BadUsage> {
        Ok(fencepost_nemesis::swarm(offered, scene, &self.nemesis_settings(scene)?, self.seed))
    }

    /// The parts, as far as a driver can play them: a swarm is drawn from what it offers. Everything else stays.
    pub fn fitted(&self, parts: &Parts, offered: &[Capability]) -> Result<Parts, BadUsage> {
        let mut fitted = parts.clone();
        if self.is_swarm() {
            let scene = crate::crew::scene(self, parts.backend, parts.workload);
            fitted.plan = self.draw_swarm(&scene, offered)?;
            let drawn =
                fitted.plan.swarm.iter().filter_map(|enabled| fencepost_nemesis::find(&enabled.nemesis));
            fitted.nemeses = drawn.collect();
        }
        Ok(fitted)
    }

    /// The nemeses in one word: `none`, `clock-jump+pause`, `plan`.
    pub fn nemesis_name(&self) -> String {
        match (&self.nemesis_file, self.nemesis.is_empty()) {
            _ if self.scenario.is_some() => "scenario".to_owned(),
            (Some(_), _) => "plan".to_owned(),
            (None, true) => "none".to_owned(),
            (None, false) => self.nemesis.join("+"),
        }
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

/// The one of that name, or a sentence that offers the nearest right one.
pub fn pick<T: Copy>(
    what: &str,
    name: &str,
    all: &[T],
    name_of: impl Fn(&T) -> &'static str,
) -> Result<T, BadUsage> {
    if let Some(found) = all.iter().find(|each| name_of(each) == name) {
        return Ok(*found);
    }
    let names: Vec<&str> = all.iter().map(&name_of).collect();
    Err(BadUsage(unknown(what, name, &names)))
}

/// "there is no backend redlok; did you mean redlock? …"
pub fn unknown(what: &str, name: &str, names: &[&str]) -> String {
    let hint = nearest(name, names).map(|known| format!("; did you mean {known}?")).unwrap_or_default();
    let all = names.join(", ");
    format!("there is no {what} `{name}`{hint} (there are: {all})")
}

/// The name that was probably meant.
pub fn nearest<'a>(name: &str, names: &[&'a str]) -> Option<&'a str> {
    let distances = names.iter().map(|known| (strsim::damerau_levenshtein(name, known), *known));
    let (distance, known) = distances.min()?;
    (distance <= known.len().div_ceil(2)).then_some(known)
}
