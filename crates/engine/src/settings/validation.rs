//! Refuses what cannot work, before anything starts, and finds the parts that the options name.

use crate::refuse_option;
use crate::settings::names::{BadUsage, find_lock, pick, unknown};
use crate::settings::options::RunOptions;
use crate::settings::ranges::HOUR;
use crate::settings::shaping::Faults;
use crate::settings::topology;
use fencepost_cluster::{Capability, DRIVER_NAMES};
use fencepost_history::run::read_settings;
use fencepost_history::{Seed, TimeSpan};
use fencepost_locks::{LockDefinition, folder};
use fencepost_nemesis::{FakedClocks, Nemesis, Plan, SWARM, Topology};
use fencepost_storage::Need;
use fencepost_workloads::Workload;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The validated options of a run, with everything that they name. It exists only where the run can start.
#[derive(Clone)]
pub struct RunSpec {
    /// With a seed: a fresh one where none was requested.
    pub options: RunOptions,
    pub seed: Seed,
    pub lock: &'static LockDefinition,
    pub workload: &'static Workload,
    pub nemeses: Vec<&'static dyn Nemesis>,
    /// Every fault with its time and its targets: drawn from the seed, or read from a file.
    pub plan: Plan,
    /// The nodes that a fault can be injected into.
    pub topology: Topology,
    pub(crate) storages: Vec<String>,
    /// How libfaketime is in the servers from their start, where a fault of the plan needs that.
    pub faked: Option<FakedClocks>,
}

impl RunSpec {
    /// About how long the run takes, by what was asked for: to deal runs out, and to say how much is left.
    pub fn expected(&self) -> Duration {
        const JUDGING: Duration = Duration::from_secs(1);
        let options = &self.options;
        self.lock.service.setup_time + options.time_limit.0 + 2 * options.ttl.0 + JUDGING
    }

    /// Validates the options, and draws the plan. Errors: what cannot work, and what would.
    pub fn new(options: RunOptions) -> Result<RunSpec, BadUsage> {
        let mut spec = RunSpec::without_plan(options.long_enough())?;
        if spec.options.nemesis_file.is_none() {
            let drawn = if spec.options.is_swarm() { fencepost_nemesis::registry() } else { &spec.nemeses };
            spec.options.check_shaping(drawn, Faults::Drawn)?;
        }
        let (options, topology) = (&spec.options, &spec.topology);
        spec.plan = match &options.nemesis_file {
            Some(file) => read_plan(file, topology)?,
            None if options.is_swarm() => options.draw_swarm(topology, spec.seed, &Capability::ALL)?,
            None => {
                for nemesis in &spec.nemeses {
                    let description = nemesis.description();
                    let given = description.check_options(&options.nemesis_options);
                    let fits = given.and_then(|()| description.check_servers(topology));
                    fits.map_err(|refusal| BadUsage::at("nemesis", refusal.sentence))?;
                }
                let settings = options.nemesis_settings(topology)?;
                fencepost_nemesis::draw(&spec.nemeses, topology, &settings, spec.seed)
            }
        };
        if options.nemesis_file.is_some() || options.is_swarm() {
            spec.nemeses = spec.plan.nemeses();
        }
        if spec.options.nemesis_file.is_some() {
            spec.options.check_shaping(&spec.nemeses, Faults::Written)?;
        }
        spec.with_faked_clocks()
    }

    /// Validates the options of a run with this plan. Errors: what cannot work, and what would.
    pub fn with_plan(options: RunOptions, plan: Plan) -> Result<RunSpec, BadUsage> {
        options.existing.check_unused()?;
        let mut spec = RunSpec::without_plan(options)?;
        plan.check(&spec.topology).map_err(|reason| BadUsage::new(format!("invalid plan: {reason}")))?;
        spec.nemeses = plan.nemeses();
        spec.plan = plan;
        spec.with_faked_clocks()
    }

    fn without_plan(mut options: RunOptions) -> Result<RunSpec, BadUsage> {
        pick("driver", &options.driver, &DRIVER_NAMES, |name| name)?;
        let lock = options.find_lock()?;
        options.fit_kind(lock);
        let workloads = fencepost_workloads::registry();
        let workload = pick("workload", &options.workload, workloads, |workload| workload.name)?;
        let nemeses = options.nemeses()?;
        options.nemesis.retain(|name| name != NO_NEMESIS);
        options.check_numbers()?;
        options.check_lists()?;
        options.check_guard(lock, workload)?;
        options.check_kind(lock, workload)?;
        options.existing.check(lock, &options.lock_options)?;
        options.check_by_name(lock)?;
        lock.check(&options.lock_options, options.ttl.0)?;
        options.own_options(lock)?;
        check_claims(lock)?;
        let seed = *options.seed.get_or_insert_with(Seed::fresh);
        let topology = topology::topology(&options, lock, workload);
        let storages = topology::storage_names(&options, lock, workload);
        let (plan, faked) = (Plan::default(), None);
        Ok(RunSpec { options, seed, lock, workload, nemeses, plan, topology, storages, faked })
    }

    /// Decides whether libfaketime must be in the servers; refused where it cannot do what the plan wants.
    fn with_faked_clocks(mut self) -> Result<RunSpec, BadUsage> {
        let wanted = self.options.nemesis_options.clock_mechanism;
        let offered = self.lock.service.clock_mechanisms;
        let faked = fencepost_nemesis::fake_clocks(&self.plan, &self.topology, wanted, offered);
        self.faked = faked.map_err(|sentence| BadUsage::at("clock-mechanism", sentence))?;
        Ok(self)
    }

    /// The present hash of the lock's files, where it is a folder. Errors: they cannot be read.
    pub fn lock_files(&self) -> Result<Option<String>, BadUsage> {
        self.lock.files_hash().map_err(|sentence| BadUsage::at("lock", sentence))
    }

    /// One storage is one register a key; replicas, and data inside the lock service, promise less.
    pub(crate) fn has_one_storage(&self) -> bool {
        self.storages.len() == 1
    }

    /// Whether a fault needs the servers' disks to be made ready for it.
    pub(crate) fn prepares_disks(&self) -> bool {
        self.nemeses.iter().any(|nemesis| nemesis.description().prepares_disks)
    }

    /// The same run with these capabilities; a swarm is drawn anew. Errors: clocks cannot be moved so.
    pub fn fitted(&self, offered: &[Capability]) -> Result<RunSpec, BadUsage> {
        let mut fitted = self.clone();
        if self.options.is_swarm() {
            fitted.plan = self.options.draw_swarm(&self.topology, self.seed, offered)?;
            let drawn =
                fitted.plan.swarm.iter().filter_map(|enabled| fencepost_nemesis::find(&enabled.nemesis));
            fitted.nemeses = drawn.collect();
        }
        fitted.with_faked_clocks()
    }
}

/// On the command line: no fault.
const NO_NEMESIS: &str = "none";

impl RunOptions {
    /// Where left open, a time limit at which fairness can be judged: over twice the TTL and a second.
    fn long_enough(mut self) -> RunOptions {
        const MORE: Duration = Duration::from_secs(6);
        let is_without_faults =
            self.nemesis.iter().all(|name| name == NO_NEMESIS) && self.nemesis_file.is_none();
        let default = RunOptions::default().time_limit;
        if is_without_faults && self.time_limit == default {
            // A TTL that is out of range is refused later.
            self.time_limit = default.max(TimeSpan(2 * self.ttl.0.min(HOUR.0) + MORE));
        }
        self
    }

    /// The nemeses that it names; a swarm's are drawn later. Errors: unknown names, or exclusive ones.
    pub fn nemeses(&self) -> Result<Vec<&'static dyn Nemesis>, BadUsage> {
        let named: Vec<&str> =
            self.nemesis.iter().map(String::as_str).filter(|name| *name != NO_NEMESIS).collect();
        if named.len() < self.nemesis.len() && !named.is_empty() {
            let named = named.join(",");
            refuse_option!("nemesis", "--nemesis none excludes {named}: leave out none to inject {named}");
        }
        let mut nemeses: Vec<&dyn Nemesis> = Vec::new();
        if self.is_swarm() && named.len() > 1 {
            refuse_option!(
                "nemesis",
                "--nemesis swarm draws among all nemeses by itself; name no other beside it"
            );
        }
        for name in named.iter().filter(|name| **name != SWARM) {
            let nemesis = pick("nemesis", name, fencepost_nemesis::registry(), |nemesis| nemesis.name())?;
            if nemeses.iter().any(|other| other.name() == nemesis.name()) {
                refuse_option!("nemesis", "the nemesis {name} is named twice; name each once");
            }
            nemeses.push(nemesis);
        }
        if self.nemesis_file.is_some() && !named.is_empty() {
            refuse_option!(
                "nemesis",
                "--nemesis and --nemesis-file exclude each other: a plan says all that goes wrong"
            );
        }
        Ok(nemeses)
    }

    /// The lock: built in, a folder, or a client program on the servers of a built-in one.
    fn find_lock(&self) -> Result<&'static LockDefinition, BadUsage> {
        let lock = self.on_chosen_server(find_lock(&self.lock)?)?;
        let Some(command) = &self.client else { return Ok(lock) };
        if lock.recipe.program().is_some() {
            refuse_option!(
                "client",
                "--client puts a client on the servers of a built-in lock, and {} names its own in lock.toml",
                self.lock
            );
        }
        folder::ad_hoc(lock, command, self.client_files.as_deref(), &self.client_packages)
            .map_err(|sentence| BadUsage::at("client", sentence))
    }

    /// The lock on the server that `--server` chooses. That of a built-in service is an option of it.
    fn on_chosen_server(&self, lock: &'static LockDefinition) -> Result<&'static LockDefinition, BadUsage> {
        let Some(chosen) = self.lock_options.server else { return Ok(lock) };
        match lock.named_server() {
            Some(named) if named != chosen => {
                refuse_option!(
                    "server",
                    "--server {chosen}, and {} says another server; leave one out",
                    self.lock
                )
            }
            // The suite of a [service] of one's own follows from the server.
            None if lock.service.servers.is_empty() && lock.recipe.program().is_some() => {
                find_lock(&format!("{}@{chosen}", self.lock))
            }
            _ => Ok(lock),
        }
    }

    /// The options of a user's lock: its defaults, overridden by `--option`. Errors: unknown, or no value.
    pub(crate) fn own_options(&self, lock: &LockDefinition) -> Result<BTreeMap<String, String>, BadUsage> {
        let mut options = match lock.recipe.program() {
            Some(program) => {
                let options = program.options.iter();
                options.map(|(name, option)| (name.clone(), option.default.clone())).collect()
            }
            None if self.option.is_empty() => BTreeMap::new(),
            None => {
                refuse_option!(
                    "option",
                    "--option is for locks of your own; the options of {} are listed by `fencepost list locks`",
                    self.lock
                );
            }
        };
        let known: Vec<String> = options.keys().cloned().collect();
        // Without a lock.toml there is no list of options: the client knows them.
        let is_listed = lock.recipe.program().is_some_and(|program| program.promised.is_some());
        for option in &self.option {
            let Some((name, value)) = option.split_once('=') else {
                refuse_option!("option", "--option {option} has no value; write --option {option}=VALUE");
            };
            if is_listed && !options.contains_key(name) {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                if known.is_empty() {
                    refuse_option!("option", "--option {option}: {} has no options", lock.name);
                }
                refuse_option!("option", "{}", unknown("option", name, &known));
            }
            options.insert(name.to_owned(), value.to_owned());
        }
        Ok(options)
    }

    fn check_guard(&self, lock: &LockDefinition, workload: &Workload) -> Result<(), BadUsage> {
        let guards = fencepost_storage::guards();
        let guard = pick("guard", &self.guard, guards, |guard| guard.name)?;
        let can = lock.capabilities(&self.lock_options);
        if self.guard != "none" && can.own_storage {
            refuse_option!(
                "guard",
                "--guard {} protects the storage, and {} keeps the data itself, beside the lock; leave --guard out",
                self.guard,
                self.lock
            );
        }
        let (lacks, has) = match guard.needs {
            Need::Nothing => ("", true),
            Need::Token => ("a fencing token", can.token),
            Need::UniqueValue => ("a unique value", can.unique_value),
            Need::Sequencer => ("a sequencer", can.sequencer),
        };
        if !has {
            refuse_option!(
                "guard",
                "--guard {} needs {lacks}, and {} hands out none; use a lock that does (see `fencepost list locks`) or --guard none",
                self.guard,
                self.lock
            );
        }
        if guard.needs == Need::Sequencer && self.existing.are_used() {
            let why = "the storage cannot ask servers that exist already for sequencers; leave --guard or --servers out";
            refuse_option!("guard", "--guard {}: {why}", self.guard);
        }
        if !self.storage_write_delay.0.is_zero() && !guard.in_two_steps {
            refuse_option!(
                "storage-write-delay",
                "--storage-write-delay is for guards that check and write in two steps, and {} does both in one; use --guard token-racy or unique-racy",
                self.guard
            );
        }
        if self.guard != "none" && !workload.uses_storage {
            refuse_option!(
                "guard",
                "--guard {} protects the storage, which the workload {} does not use; use --workload increment",
                self.guard,
                self.workload
            );
        }
        Ok(())
    }

    /// Refuses names where clients must get, or soon learn, addresses.
    fn check_by_name(&self, lock: &LockDefinition) -> Result<(), BadUsage> {
        let why = match self.by_name {
            false => return Ok(()),
            true if self.existing.are_used() => {
                "servers that exist already have names and addresses of their own"
            }
            true if lock.service.image(&self.lock_options).is_none() => "this lock has no servers",
            true if lock.service.sends_clients_on => "these servers send clients on to addresses",
            true if self.lock_options.tls => "certificates of a run name addresses; leave --tls out",
            true => return Ok(()),
        };
        refuse_option!("by-name", "--by-name: {why}")
    }

    fn draw_swarm(&self, topology: &Topology, seed: Seed, offered: &[Capability]) -> Result<Plan, BadUsage> {
        Ok(fencepost_nemesis::swarm(offered, topology, &self.nemesis_settings(topology)?, seed))
    }
}

fn check_claims(lock: &LockDefinition) -> Result<(), BadUsage> {
    let claimed = lock.recipe.program().and_then(|program| program.properties.as_ref());
    let known = fencepost_checker::claimable();
    match claimed.into_iter().flatten().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            refuse_option!("lock", "lock.toml of {}: {}", lock.name, unknown("property", name, &known))
        }
        None => Ok(()),
    }
}

fn read_plan(file: &Path, topology: &Topology) -> Result<Plan, BadUsage> {
    let text = read_settings(file).map_err(|error| {
        BadUsage::at("nemesis-file", format!("cannot read the plan {}: {error}", file.display()))
    })?;
    let plan = Plan::parse(&text, topology).map_err(|reason| {
        BadUsage::at("nemesis-file", format!("the plan {} is invalid: {reason}", file.display()))
    })?;
    if plan.faults.is_empty() {
        refuse_option!(
            "nemesis-file",
            "the plan {} has no [[fault]]; leave it out to run without faults",
            file.display()
        );
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_faults_is_long_enough_for_fairness_to_be_judged() {
        let limit = |options: RunOptions| options.long_enough().time_limit;
        let (unset, ttl) = (RunOptions::default(), TimeSpan::from_secs(30));
        assert_eq!(limit(unset.clone()), unset.time_limit);
        assert_eq!(limit(RunOptions { ttl, ..unset.clone() }), TimeSpan::from_secs(66));
        let pause = vec!["pause".to_owned()];
        assert_eq!(limit(RunOptions { ttl, nemesis: pause, ..unset.clone() }), unset.time_limit);
        let short = TimeSpan::from_secs(3);
        assert_eq!(limit(RunOptions { ttl, time_limit: short, ..unset }), short);
    }
}
