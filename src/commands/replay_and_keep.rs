//! `fencepost replay --keep`: plays a run once, and leaves its nodes standing.

use crate::commands::context::servers;
use crate::commands::up::standing;
use crate::commands::up::stay::{Announced, Stay, stay};
use crate::output::say;
use crate::runtime::{listen_for_signals, runtime};
use anyhow::{Result, bail};
use async_trait::async_trait;
use clap::Args;
use fencepost_campaign::{Played, RunPlayer, RunRequest};
use fencepost_checker::Violation;
use fencepost_engine::{RunOutcome, RunSpec, StandingServers, Stop, make_images, run_and_keep};
use fencepost_history::TimeSpan;
use fencepost_hunt::{Player, Schedule, SchedulePlayer};
use parking_lot::Mutex;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

/// Whether the nodes of a run are kept, and for how long.
#[derive(Debug, Args)]
pub struct KeepArgs {
    /// Play it once, and keep its nodes running afterwards, like the servers of `fencepost up`, with the data
    /// of the run, until Ctrl-C, `fencepost down` or the time of --for.
    #[arg(long, conflicts_with_all = ["times", "jobs"])]
    pub keep: bool,
    /// Take down the nodes of --keep after this time.
    #[arg(long = "for", value_name = "TIME", default_value = "1h", requires = "keep")]
    pub time: TimeSpan,
    /// Name of the nodes of --keep, for `fencepost fault`, `shell` and `down` [default: the lock's].
    #[arg(long, requires = "keep")]
    pub name: Option<String>,
}

struct Keeping {
    stop: Arc<Stop>,
    standing: Mutex<Option<StandingServers>>,
}

#[async_trait]
impl RunPlayer for Keeping {
    async fn prepare(&self, runs: &[&RunSpec], stop: &Stop) {
        if let Some(first) = runs.first() {
            make_images(&first.options.driver, runs.iter().copied(), stop).await;
        }
    }

    async fn record(&self, run: RunRequest<'_>) -> Result<RunOutcome> {
        let RunRequest { spec, script, command, folder, observer, .. } = run;
        let (outcome, standing) = run_and_keep(spec, command, folder, &self.stop, script, observer).await?;
        *self.standing.lock() = Some(standing);
        Ok(outcome)
    }
}

/// Gives the exit code of the verdict, once the nodes are down again.
pub fn replay_and_keep(args: &KeepArgs, schedule: &Schedule, results: &Path) -> Result<i32> {
    let lock = &schedule.options.lock;
    let name = standing::name_of(args.name.as_deref(), lock)?;
    runtime()?.block_on(async {
        let announced = Announced::make(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), &name, lock).await?;
        let stop = Arc::new(Stop::default());
        let listening = tokio::spawn(listen_for_signals(stop.clone()));
        let keeping = Arc::new(Keeping { stop: stop.clone(), standing: Mutex::default() });
        keeping.prepare(&[&schedule.spec()?], &stop).await;
        let player = SchedulePlayer { player: keeping.clone(), ..servers(results, true, &stop) };
        let played = player.play(schedule).await;
        let standing = keeping.standing.lock().take();
        say!("{}\n", line(&played));
        let standing = match (&played, standing) {
            (Ok(_), Some(standing)) => standing,
            (_, left) => {
                if let Some(left) = left {
                    left.stop().await?;
                }
                played?;
                bail!("no nodes of the run are left");
            }
        };
        let how = Stay { time: args.time, json: false, command: &[], record: None };
        let code = stay(announced, standing, &stop, how).await?;
        listening.abort();
        Ok(if code == 0 { i32::from(played?.verdict.outcome.exit_code()) } else { code })
    })
}

pub(super) fn line(played: &Result<Played>) -> String {
    match played {
        Ok(played) => {
            let violations = Violation::all(&played.verdict);
            let violations = violations.iter().map(Violation::to_string).collect::<Vec<_>>().join(", ");
            let outcome = played.verdict.outcome;
            let colon = if violations.is_empty() { "" } else { ": " };
            format!("{outcome}{colon}{violations}  {}", played.folder.display())
        }
        Err(error) => format!("failed: {error:#}"),
    }
}
