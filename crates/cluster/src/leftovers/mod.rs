//! What killed runs left, by the register of runs and the engine's labels. Runs that go on are left alone.

mod processes;

pub use processes::end_all_in;

use crate::ClusterError;
use crate::cleaned::{Cleaned, LeftoverKind};
use crate::driver::Driver;
use crate::drivers::docker::{self, Engine};
use crate::environment::remove_abandoned;
use crate::own_task::OwnTask;
use crate::register::{FoundRun, RunRegister};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ENGINE: Duration = Duration::from_secs(60);

/// How long the end of a run waits for an engine that is still removing what other runs left.
const AT_THE_END: Duration = Duration::from_secs(3);

/// Removes all that runs left that were killed, whatever their driver.
pub async fn clean_up() -> Cleaned {
    let mut all = of_this_machine().await;
    match Engine::connect().await {
        Ok(engine) => all.add(docker::clean_up(&engine, ENGINE).await),
        Err(error) => all.engine_skipped = Some(error.0),
    }
    all
}

/// Cleans before a run of this driver. An engine that it does not need is left to itself: it may hang.
pub async fn clean_up_before(driver: &dyn Driver) -> Result<(Cleaned, CleanUp), ClusterError> {
    let mut found = of_this_machine().await;
    if driver.name() == docker::NAME {
        found.add(docker::clean_up(&Engine::connect().await?, ENGINE).await);
        return Ok((found, CleanUp::default()));
    }
    let answers = Arc::new(AtomicBool::new(false));
    let search = OwnTask::spawn({
        let answers = answers.clone();
        async move {
            let Ok(engine) = Engine::connect().await else { return Cleaned::default() };
            answers.store(true, Ordering::Relaxed);
            docker::clean_up(&engine, ENGINE).await
        }
    });
    Ok((found, CleanUp { search: Some(search), answers }))
}

/// A search for leftovers in an engine, beside a run. Dropping it ends the search.
#[derive(Default)]
pub struct CleanUp {
    search: Option<OwnTask<Cleaned>>,
    answers: Arc<AtomicBool>,
}

impl CleanUp {
    /// What was removed, where that is known soon. Does not wait for an engine that has not answered by now.
    pub async fn finish(mut self) -> Cleaned {
        let Some(search) = self.search.as_mut().filter(|_| self.answers.load(Ordering::Relaxed)) else {
            return Cleaned::default();
        };
        match tokio::time::timeout(AT_THE_END, &mut search.0).await {
            Ok(Ok(found)) => found,
            _ => Cleaned::default(),
        }
    }
}

async fn of_this_machine() -> Cleaned {
    let removed = tokio::task::spawn_blocking(remove_dead).await;
    removed.unwrap_or_else(|error| {
        let mut failed = Cleaned::default();
        failed.failures.push(error.to_string());
        failed
    })
}

fn remove_dead() -> Cleaned {
    let mut all = Cleaned::default();
    match RunRegister::lock() {
        Ok(register) => {
            for dead in register.entries().iter().filter(|entry| !entry.alive) {
                remove(dead, &mut all);
            }
        }
        Err(error) => all.failures.push(error.0),
    }
    match remove_abandoned() {
        Ok(works) => works.into_iter().for_each(|work| all.removed(LeftoverKind::UnfinishedFolder, work)),
        Err(error) => all.failures.push(error.0),
    }
    all
}

fn remove(dead: &FoundRun, all: &mut Cleaned) {
    let name = &dead.name;
    if let Some(folder) = &dead.folder {
        end_users(folder, all);
    }
    match dead.remove() {
        Ok(()) => all.removed(LeftoverKind::Folder, name),
        Err(error) => {
            let place = dead.folder.as_deref().unwrap_or(Path::new(name)).display();
            all.failures.push(format!("cannot remove {place}, which the killed run {name} left: {error}"));
        }
    }
}

/// Ends what keeps a folder in use: processes of nodes, which the kernel may still be ending, and mounts.
fn end_users(folder: &Path, all: &mut Cleaned) {
    for process in processes::end_all_in(folder) {
        all.removed(LeftoverKind::Process, process.to_string());
    }
    for mount in processes::unmount_all_in(folder) {
        all.removed(LeftoverKind::Mount, mount.display().to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster_folder::ClusterFolder;
    use std::thread;

    #[test]
    fn a_run_that_is_being_taken_down_does_not_count_as_killed() {
        let found = thread::scope(|scope| {
            let run = scope.spawn(|| {
                for count in 0..500 {
                    let name = format!("down-{}-{count}", std::process::id());
                    let folder = ClusterFolder::create(&name, |_| true).unwrap();
                    std::fs::create_dir(folder.path().join("more")).unwrap();
                }
            });
            let mut found = Cleaned::default();
            while !run.is_finished() {
                found.add(remove_dead());
            }
            found
        });
        let own = format!("down-{}-", std::process::id());
        let lines = found.lines();
        assert!(lines.iter().all(|line| !line.contains(&own)), "of 500 runs that ended well: {lines:?}");
    }
}
