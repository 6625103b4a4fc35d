//! The options of `fencepost hunt`.

use crate::store::Results;
use clap::{Args, ValueEnum};
use fencepost_engine::{
    BadUsage, JOBS_MAX, RunOptions, check_count, check_once, find_lock, grouped_without_servers,
    name_in_list, named_reference, refuse_option,
};
use fencepost_history::{Seed, Shard, TimeSpan};
use fencepost_hunt::hunt::HuntRequest;
use fencepost_hunt::search::{ACQUIRE_TTLS, DrawnOptions, LIMIT_TTLS};
use fencepost_locks::reference;
use std::path::PathBuf;

const SEED: &str = "Seed of all random choices of the hunt [default: a fresh one]";
const TTL: &str = "Time to live of the lock [default: the shortest that the lock accepts, from 500ms on]";
const CLIENTS: &str = "Client programs [default: drawn for each schedule, from 3 to 5]";
const CONCURRENCY: &str =
    "Processes that use the lock, spread over the clients [default: drawn for each schedule]";
const KEYS: &str = "Locks; each critical section draws one [default: drawn for each schedule, 1 or 2]";
const TIME_LIMIT: &str = "Length of the fault phase of a schedule [default: drawn, from 3 to 6 TTLs]";
const FAIL_FAST: &str = "End with the first finding";
const ACQUIRE_TIMEOUT: &str = "Time limit of one acquire [default: twice the TTL]";

/// Search for the faults that break a lock: plays many short schedules on real servers, several at a time,
/// learns from each, and keeps the violations that it finds.
///
/// Exit code: 1 if a violation was found, 0 if none was found, 2 if too little could be played, or what was
/// seen is not decided.
#[derive(Debug, Args)]
#[command(
    mut_args(grouped_without_servers),
    mut_arg("nemesis", |arg| arg.hide(true)),
    mut_arg("nemesis_file", |arg| arg.hide(true)),
    mut_arg("acquisitions", |arg| arg.hide(true)),
    mut_arg("nemesis_interval", |arg| arg.hide(true)),
    mut_arg("fail_fast", |arg| arg.help(FAIL_FAST)),
    mut_arg("seed", |arg| arg.help(SEED)),
    mut_arg("ttl", |arg| arg.help(TTL).default_value("0s").hide_default_value(true)),
    mut_arg("clients", |arg| arg.help(CLIENTS).default_value("0").hide_default_value(true)),
    mut_arg("concurrency", |arg| arg.help(CONCURRENCY).default_value("0").hide_default_value(true)),
    mut_arg("keys", |arg| arg.help(KEYS).default_value("0").hide_default_value(true)),
    mut_arg("time_limit", |arg| arg.help(TIME_LIMIT).default_value("0s").hide_default_value(true)),
    mut_arg("acquire_timeout", |arg| arg.help(ACQUIRE_TIMEOUT).default_value("0s").hide_default_value(true)),
)]
pub struct HuntArgs {
    /// The nemeses to draw faults from, or `all` that fit the lock (see `fencepost list nemeses`).
    #[arg(long, value_delimiter = ',', value_parser = name_in_list, default_value = "all")]
    pub nemeses: Vec<String>,
    /// How long to hunt.
    #[arg(long = "for", value_name = "TIME", default_value = "10m")]
    pub budget: TimeSpan,
    /// Maximum number of schedules side by side: a hunt begins with three for each processor, and adds more
    /// while processors and memory are free [default: seven for each processor].
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Continue the hunt in this folder. All options but --jobs and --for stay; --for includes the time
    /// already spent.
    #[arg(long, value_name = "FOLDER")]
    pub resume: Option<PathBuf>,
    /// Replay the findings in this folder first, and say which no longer reproduce.
    #[arg(long, value_name = "FOLDER")]
    pub known: Option<PathBuf>,
    /// Hunt as one part of several, such as 1/4: each plays other schedules of the same seed, and `fencepost
    /// merge` merges them. Needs --seed. To continue a part that was killed, repeat its command.
    #[arg(long, value_name = "K/N", conflicts_with = "resume")]
    pub shard: Option<Shard>,
    /// Begin with the schedules that earlier hunts on this lock kept: the folder of a hunt, of several hunts
    /// or of a merge, or an object store that hunts were sent to.
    #[arg(long, value_name = "FOLDER|STORE", conflicts_with = "resume")]
    pub corpus: Option<PathBuf>,
    /// Reference lock, on the same servers: each violation is played on it, too. Violations that it also
    /// shows are the servers', not the lock's own, and are summarised in one line. `none` compares nothing
    /// [default: for a lock of your own, the built-in lock of its service; otherwise none].
    #[arg(long, value_name = "LOCK", conflicts_with = "resume")]
    pub against: Option<String>,
    /// Clients write without checking the validity of their lock. In a hunt that compares, they check it by
    /// default (--careful), because late writes that only fencing prevents occur with every lock.
    #[arg(long)]
    pub careless: bool,
    /// Which violations give the exit code 1: the lock's own, or any [default: own where the hunt compares].
    #[arg(long, value_name = "WHICH")]
    pub fail_on: Option<HuntFailOn>,
    /// Folder of all hunts, or an object store that this one is sent to when it is over (s3://BUCKET/PREFIX,
    /// gs://…, az://…, file:///FOLDER).
    #[arg(long, default_value = "results", value_name = "FOLDER|STORE")]
    pub results: Results,
    #[command(flatten)]
    pub options: RunOptions,
}

/// Which violations a hunt fails for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HuntFailOn {
    /// Those that the lock of `--against` does not show.
    Own,
    /// All, also those that any lock shows on these servers.
    Any,
}

/// TTLs to try, shortest first: what a busy machine still keeps apart, and what servers grant.
const TTLS: [TimeSpan; 4] =
    [TimeSpan::from_millis(500), TimeSpan::from_secs(1), TimeSpan::from_secs(2), TimeSpan::from_secs(5)];

impl HuntArgs {
    /// The hunt's request; nemeses are not yet checked against lock and driver. Errors: what cannot work.
    pub fn request(&self) -> Result<HuntRequest, BadUsage> {
        let given = &self.options;
        if given.nemesis != ["none"] || given.nemesis_file.is_some() {
            refuse_option!(
                "nemesis",
                "--nemesis and --nemesis-file are options of `fencepost test`; use --nemeses to say what a hunt draws from"
            );
        }
        check_count("--jobs", self.jobs.unwrap_or(1), JOBS_MAX)?;
        check_once("--nemeses", &self.nemeses)?;
        if self.shard.is_some() && given.seed.is_none() {
            refuse_option!("shard", "--shard needs --seed: all parts draw their schedules from the same one");
        }
        let mut options = given.clone();
        let unset = RunOptions::default();
        let drawn = DrawnOptions {
            clients: set(&mut options.clients, 0, 5),
            concurrency: set(&mut options.concurrency, 0, unset.concurrency),
            keys: set(&mut options.keys, 0, 1),
            time_limit: set(&mut options.time_limit, TimeSpan::default(), unset.time_limit),
            ttl: options.ttl.0.is_zero(),
            hold: options.hold.is_none(),
            careful: !options.careful,
        };
        options.concurrency = options.concurrency.max(options.clients);
        if options.ttl.0.is_zero() {
            options.ttl = shortest_ttl(&options)?;
        }
        let ttl = options.ttl.0;
        set(&mut options.acquire_timeout, TimeSpan::default(), TimeSpan(ttl * ACQUIRE_TTLS));
        set(&mut options.time_limit, TimeSpan::default(), TimeSpan(ttl * LIMIT_TTLS));
        options.existing.check_unused()?;
        options.nemesis = Vec::new();
        options.brief = true;
        let against = self.reference()?;
        options.careful = !self.careless && (options.careful || against.is_some());
        let seed = options.seed.take().unwrap_or_else(Seed::fresh);
        Ok(HuntRequest {
            options,
            drawn,
            nemeses: self.nemeses.clone(),
            seed,
            jobs: self.jobs.unwrap_or_else(default_jobs),
            budget: self.budget,
            known: self.known.clone(),
            shard: self.shard,
            corpus: self.corpus.clone(),
            against,
            renews: false,
            command: String::new(),
        })
    }
}

impl HuntArgs {
    /// The lock that violations are compared with. Errors: it does not exist, or runs on other servers.
    fn reference(&self) -> Result<Option<String>, BadUsage> {
        let lock = find_lock(&self.options.lock)?;
        let is_own = lock.recipe.program().is_some() || self.options.client.is_some();
        match self.against.as_deref() {
            None => Ok(reference(lock).filter(|_| is_own).map(|reference| reference.name.to_owned())),
            Some(name) => named_reference(&self.options.lock, name),
        }
    }
}

fn set<T: PartialEq>(option: &mut T, open: T, value: T) -> bool {
    let is_open = *option == open;
    if is_open {
        *option = value;
    }
    is_open
}

/// More than a processor carries, so that the machine is the limit.
fn default_jobs() -> usize {
    let jobs = 7 * std::thread::available_parallelism().map_or(1, usize::from);
    jobs.min(JOBS_MAX)
}

/// The shortest TTL that the lock takes: one that its library need not round.
fn shortest_ttl(options: &RunOptions) -> Result<TimeSpan, BadUsage> {
    let lock = find_lock(&options.lock)?;
    let step = lock.recipe.program().and_then(|program| program.ttl_step).unwrap_or(TimeSpan::from_millis(1));
    let is_whole = |ttl: &TimeSpan| ttl.0.as_nanos().is_multiple_of(step.0.as_nanos().max(1));
    let takes = |ttl: &TimeSpan| is_whole(ttl) && lock.check(&options.lock_options, ttl.0).is_ok();
    // Where none will do, the engine says why.
    Ok(TTLS.into_iter().find(takes).unwrap_or(RunOptions::default().ttl))
}
