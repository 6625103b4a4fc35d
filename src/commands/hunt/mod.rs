//! `fencepost hunt`: searches for the faults that break a lock.

mod args;
mod live;
mod outcome;
mod references;

use crate::commands::context::{program, repeat, servers};
use crate::config::comes_from_file;
use crate::examples::about;
use crate::output::say;
use crate::runtime::run_until_stopped;
use crate::store;
use crate::unwritten::with_files;
use anyhow::Result;
pub use args::HuntArgs;
use fencepost_campaign::ResultsStore;
use fencepost_engine::{
    Faults, JOBS_MAX, RunOptions, RunSpec, Stop, check_budget, check_count, pick, refuse,
};
use fencepost_history::run::now;
use fencepost_history::{TimeSpan, shell_path, shell_word};
use fencepost_hunt::hunt::{
    Hunt, HuntEnd, HuntFolder, HuntObserver, HuntParts, HuntRequest, every_nemesis, fitting, kept_in,
    known_findings, new_file,
};
use fencepost_hunt::search::ScheduleArchive;
use fencepost_nemesis::{Nemesis, Plan, registry};
use fencepost_report::hunt::{HUNT_JSON, HuntFile, HuntWorth, SITUATION};
use fencepost_report::terminal;
use live::Live;
pub use outcome::{SUBJECT, exit_code, outcome, page_row};
use references::KnownReference;
use std::path::Path;
use std::sync::Arc;

/// Hunts, and gives the exit code.
pub fn hunt(args: &HuntArgs) -> Result<i32> {
    check_budget("--for", args.budget)?;
    let stop = Arc::new(Stop::default());
    // Of a store a copy. Parts of hunts lie there beside the runs of comparisons.
    let corpus = args.corpus.as_deref().map(|corpus| store::local_with(corpus, &[HUNT_JSON])).transpose()?;
    run_until_stopped(&stop, begin_or_resume(args, corpus.as_deref(), &stop))?
}

/// `corpus` is the folder on this machine of what the hunt begins with.
async fn begin_or_resume(args: &HuntArgs, corpus: Option<&Path>, stop: &Arc<Stop>) -> Result<i32> {
    args.results.check().await?;
    let (request, folder, mut begun) = match &args.resume {
        Some(path) => resumed(path, args)?,
        None => {
            // Before a folder is made.
            if let Some(folder) = &args.known {
                known_findings(folder)?;
            }
            let (request, driver) = fitted(args).await?;
            begin_or_go_on(args, request, driver, corpus)?
        }
    };
    announce(&request, &folder, begun.1.kept.len());
    // A hunt that goes on is the same hunt: it has learned already, and is not counted again.
    let begins = begun.0.schedules == 0;
    let reference = begins.then(|| KnownReference::read(&request, &request.options.driver)).flatten();
    if let (Some(reference), Some(against)) = (&reference, &mut begun.0.against) {
        against.shown = reference.shown();
    }
    let part = folder.begin_part(&request)?;
    let player = Arc::new(servers(&folder.runs(), false, stop));
    prepare(&request, stop).await?;
    let observer: Arc<dyn HuntObserver> = Arc::new(Live::new());
    let around = HuntParts { player, program: program().to_owned(), stop: stop.clone(), observer };
    let mut hunt = Hunt::new(request, begun, folder, around)?;
    let HuntEnd { file, written } = hunt.hunt().await?;
    if let (Some(reference), Some(against)) = (reference, &file.against) {
        reference.learn(&against.shown);
    }
    say!("{}", outcome(&file));
    if written.is_ok() {
        say!("{}", page_row(&hunt.folder.path));
    }
    if file.worth() == HuntWorth::NothingFound {
        let (folder, longer) = (shell_path(&hunt.folder.path), TimeSpan(2 * args.budget.0));
        say!("next      {} hunt --resume {folder} --for {longer}", program());
    }
    let code =
        with_files(SUBJECT, [written, part.end(stop.reason().is_none())], exit_code(&file, args.fail_on));
    args.results.send(&hunt.folder.path).await;
    let code = args.results.finish(code).await;
    if let Some(meaning) = about("hunt").and_then(|hunt| hunt.exit(code)) {
        say!("{meaning}");
    }
    Ok(code)
}

type BegunHunt = (HuntRequest, HuntFolder, (HuntFile, ScheduleArchive, u64));

fn resumed(path: &Path, args: &HuntArgs) -> Result<BegunHunt> {
    let (folder, state, archive) = HuntFolder::resume(path)?;
    let jobs = args.jobs.unwrap_or(state.request.jobs);
    check_count("the number of jobs", jobs, JOBS_MAX)?;
    let request = HuntRequest { budget: args.budget, jobs, ..state.request };
    Ok((request, folder, (state.file, archive, state.next)))
}

fn begin_or_go_on(
    args: &HuntArgs,
    request: HuntRequest,
    driver: &str,
    corpus: Option<&Path>,
) -> Result<BegunHunt> {
    let place = request
        .shard
        .map(|shard| HuntFolder::of_part(&args.results, &request.options.lock, request.seed, shard));
    if let Some(path) = place.as_deref().filter(|path| path.join(HUNT_JSON).exists()) {
        let begun = resumed(path, args)?;
        if begun.0.common() != request.common() {
            let (path, command) = (path.display(), &begun.0.command);
            refuse!("{path} is a part of another hunt (`{command}`); use other --results");
        }
        return Ok(begun);
    }
    let archive = match corpus {
        Some(folder) => kept_in(folder, &request)?,
        None => ScheduleArchive::default(),
    };
    let folder = match place {
        Some(path) => HuntFolder::create_at(path)?,
        None => HuntFolder::create(&args.results, &request.options.lock, now(), request.seed)?,
    };
    folder.keep_all(&archive)?;
    let (first, _) = request.numbering();
    let begun = (new_file(&request, driver), archive, first);
    Ok((request, folder, begun))
}

/// The request, with the nemeses that fit the lock and this machine, and the name of the driver.
async fn fitted(args: &HuntArgs) -> Result<(HuntRequest, &'static str)> {
    let mut request = args.request()?;
    let all = request.nemeses == ["all"];
    let named: Vec<&'static dyn Nemesis> = match all {
        true => every_nemesis(),
        false => {
            let find = |name: &String| pick("nemesis", name, registry(), |nemesis| nemesis.name());
            request.nemeses.iter().map(find).collect::<Result<_, _>>()?
        }
    };
    request.options = request.options.shaped_for(&named, Faults::Drawn, comes_from_file)?;
    // Mistakes in the options are said before anything starts.
    let spec = RunSpec::with_plan(request.options.clone(), Plan::default())?;
    let environment = spec.lock.recipe.program().and_then(|program| program.environment.as_ref());
    let driver = match environment.is_some_and(|environment| environment.dockerfile.is_some()) {
        true => fencepost_cluster::select(&request.options.driver).await?,
        false => fencepost_cluster::select_for_many(&request.options.driver).await?,
    };
    let (fit, not_applicable) = fitting(&request.options, request.drawn, named, &driver.supports().await)?;
    if let Some(left_out) = not_applicable.first().filter(|_| !all || fit.is_empty()) {
        let (nemesis, lock, why) = (left_out.nemesis, &request.options.lock, &left_out.why);
        refuse!("the nemesis {nemesis} cannot be tried on the lock {lock}: {why}");
    }
    for left_out in &not_applicable {
        say!("left out  {}: {}", left_out.nemesis, left_out.why);
    }
    request.nemeses = fit.iter().map(|nemesis| nemesis.name().to_owned()).collect();
    request.options.driver = driver.name().to_owned();
    request.command = command(&request, all);
    Ok((request, driver.name()))
}

/// The command that repeats the hunt: what the user left open stays open.
fn command(request: &HuntRequest, all: bool) -> String {
    let drawn = request.drawn;
    let unset = RunOptions::default();
    let mut options = RunOptions { brief: false, ..request.options.clone() };
    let open = |is_drawn: bool, value: &mut usize, default: usize| {
        if is_drawn {
            *value = default;
        }
    };
    open(drawn.clients, &mut options.clients, unset.clients);
    open(drawn.concurrency, &mut options.concurrency, unset.concurrency);
    open(drawn.keys, &mut options.keys, unset.keys);
    if drawn.time_limit {
        options.time_limit = unset.time_limit;
    }
    let mut words = vec![format!("{} hunt {}", program(), options.arguments()).trim_end().to_owned()];
    if !all {
        words.push(format!("--nemeses {}", shell_word(&request.nemeses.join(","))));
    }
    words.push(format!("--for {} --jobs {} --seed {}", request.budget, request.jobs, request.seed));
    if let Some(against) = &request.against {
        words.push(format!("--against {against}"));
        words.extend((!request.options.careful).then(|| "--careless".to_owned()));
    }
    words.extend(request.shard.map(|shard| format!("--shard {shard}")));
    words.extend(request.corpus.as_ref().map(|corpus| format!("--corpus {}", shell_path(corpus))));
    words.extend(request.known.as_ref().map(|known| format!("--known {}", shell_path(known))));
    words.extend(repeat().without_file());
    words.join(" ")
}

fn announce(request: &HuntRequest, folder: &HuntFolder, kept: usize) {
    let (nemeses, place) = (request.nemeses.join(", "), folder.path.display().to_string());
    let corpus = request.corpus.as_deref().map(Path::display);
    let corpus = corpus.map(|corpus| format!("begins with {kept} of the schedules that {corpus} holds"));
    let mut rows = vec![("hunt", request.options.lock.as_str())];
    rows.extend(request.against.as_deref().map(|against| ("against", against)));
    rows.extend([("nemeses", nemeses.as_str()), ("situation", SITUATION)]);
    rows.extend(corpus.as_deref().map(|sentence| ("corpus", sentence)));
    rows.extend([("repeat", request.command.as_str()), ("folder", &place)]);
    say!("{}", terminal::rows(&rows).trim_end());
}

async fn prepare(request: &HuntRequest, stop: &Stop) -> Result<()> {
    let spec = RunSpec::with_plan(request.options.clone(), Plan::default())?;
    fencepost_engine::make_images(&request.options.driver, std::iter::once(&spec), stop).await;
    Ok(())
}
