use super::{RunError, RunFile, RunSettings, now, open_folder, read_regular, write_inside};
use crate::find_history;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of a run: `results/<lock>-<workload>-<nemesis>-<time>-<seed>/`.
#[derive(Clone, Debug)]
pub struct RunFolder {
    pub path: PathBuf,
    /// The locked folder of a run that this process is making; see [`is_running`].
    _running: Option<Arc<File>>,
}

impl RunFolder {
    /// The name of [`RunFolder::data`].
    pub const DATA: &str = "data";

    /// Makes the folder of a new run in the folder `results`, and points `latest` to it.
    pub fn create(results: &Path, settings: &RunSettings) -> Result<RunFolder, RunError> {
        let make = |path: &Path, made: std::io::Result<()>| {
            made.map_err(|source| RunError::Write { path: path.to_owned(), source: source.into() })
        };
        make(results, fs::create_dir_all(results))?;
        let name = create_free(results, settings.folder_name(now()))
            .map_err(|source| RunError::Write { path: results.to_owned(), source: source.into() })?;
        let path = results.join(&name);
        let parts = ["logs", "plots"].into_iter().try_for_each(|part| fs::create_dir(path.join(part)));
        // Where the file system has no locks, the run seems not to be running; it runs all the same.
        let running = File::open(&path).ok().filter(|folder| folder.lock().is_ok()).map(Arc::new);
        let made = make(&path, parts).and_then(|()| point_latest(results, &name));
        if made.is_err() {
            // It holds nothing yet, and would look like a run that was killed.
            let _ = fs::remove_dir_all(&path);
        }
        made.map(|()| RunFolder { path, _running: running })
    }

    /// Opens the folder of a run that exists; `results/latest` is as good as its name.
    pub fn open(path: &Path) -> Result<RunFolder, RunError> {
        let path = fs::canonicalize(path)
            .map_err(|error| RunError::NotARun(format!("cannot open the run {}: {error}", path.display())))?;
        if find_history(&path.join("history.jsonl")).is_none() {
            return Err(RunError::NotARun(format!(
                "{} is not the folder of a run: it has no history.jsonl (runs are folders in results/; results/latest is the newest)",
                path.display()
            )));
        }
        Ok(RunFolder { path, _running: None })
    }

    /// The history's plain name: it may be compressed ([`find_history`]).
    pub fn history(&self) -> PathBuf {
        self.path.join("history.jsonl")
    }

    /// The clocks over time; the file exists only where a fault moved a clock.
    pub fn clocks(&self) -> PathBuf {
        self.path.join("clocks.jsonl")
    }

    pub fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }

    pub fn data(&self) -> PathBuf {
        self.path.join(RunFolder::DATA)
    }

    pub fn report(&self) -> PathBuf {
        self.path.join("report.html")
    }

    pub fn write_run(&self, run: &RunFile) -> Result<(), RunError> {
        let path = self.path.join("run.toml");
        let text = toml::to_string(run)
            .map_err(|error| RunError::Write { path: path.clone(), source: error.into() })?;
        write_inside(&self.path, "run.toml", text.as_bytes())
    }

    pub fn read_run(&self) -> Result<RunFile, RunError> {
        let path = self.path.join("run.toml");
        let text = read_regular(&path).map_err(|source| RunError::Read { path: path.clone(), source })?;
        toml::from_str(&text).map_err(|error| {
            let reason = format!("these are not the settings of a run: {}", error.message());
            RunError::Malformed { path, reason }
        })
    }

    /// Writes a file whole or not at all. A folder in `name` is made where it is missing.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<(), RunError> {
        let path = self.path.join(name);
        if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
            fs::create_dir_all(folder)
                .map_err(|source| RunError::Write { path: folder.to_owned(), source: source.into() })?;
        }
        write_inside(&self.path, name, content)
    }
}

/// Whether the run in this folder is still being made: its process holds a lock on the folder, which ends
/// with the process. Where locks do not work it is yes: a running run must not be touched. No folder: no.
pub fn is_running(folder: &Path) -> bool {
    open_folder(folder).is_ok_and(|folder| folder.try_lock_shared().is_err())
}

/// Creates the folder, numbered where the same seed already began in the same second. Gives the name.
fn create_free(results: &Path, name: String) -> std::io::Result<String> {
    let numbered = (2_u64..).map(|number| format!("{name}-{number}"));
    for candidate in std::iter::once(name.clone()).chain(numbered) {
        match fs::create_dir(results.join(&candidate)) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            created => return created.map(|()| candidate),
        }
    }
    unreachable!("numbers do not end")
}

/// Points `results/latest` to the newest run. Renamed into place: another run may do the same right now.
pub fn point_latest(results: &Path, name: &str) -> Result<(), RunError> {
    let (link, latest) = (results.join(format!(".latest-{name}")), results.join("latest"));
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(name, &link).and_then(|()| fs::rename(&link, &latest)).map_err(|source| {
        // A folder of that name, say, which is not ours to replace.
        let _ = fs::remove_file(&link);
        RunError::Write { path: latest, source: source.into() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::file::tests::run_file;

    #[test]
    fn a_run_is_running_until_its_folder_is_dropped() {
        let results = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(results.path(), &run_file().spec).unwrap();
        let path = folder.path.clone();
        assert!(is_running(&path));
        drop(folder);
        // A program that another test starts at this moment has the lock, too, until it is another program.
        open_folder(&path).unwrap().lock_shared().unwrap();
        assert!(!is_running(&path));
        // A pipe in place of a folder is not waited for.
        let pipe = results.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(!is_running(&pipe));
    }

    #[test]
    fn two_runs_of_one_seed_in_one_second_have_folders_of_their_own() {
        let results = tempfile::tempdir().unwrap();
        let settings = run_file().spec;
        let folders: Vec<RunFolder> =
            (0..3).map(|_| RunFolder::create(results.path(), &settings).unwrap()).collect();
        assert!(folders[0].path != folders[1].path && folders[1].path != folders[2].path);
        assert_eq!(create_free(results.path(), "new".to_owned()).unwrap(), "new");
    }

    #[test]
    fn where_latest_is_a_folder_the_run_is_refused_and_leaves_nothing() {
        let results = tempfile::tempdir().unwrap();
        fs::create_dir(results.path().join("latest")).unwrap();
        let error = RunFolder::create(results.path(), &run_file().spec).unwrap_err().to_string();
        assert!(error.contains("latest"), "{error}");
        let left: Vec<_> =
            fs::read_dir(results.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["latest"]);
    }

    #[test]
    fn runs_that_begin_at_once_in_one_process_all_point_latest_to_themselves() {
        let results = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let results = results.path();
                scope.spawn(move || {
                    (0..200).for_each(|run| point_latest(results, &format!("{number}-{run}")).unwrap());
                });
            }
        });
        assert!(fs::read_link(results.path().join("latest")).is_ok());
    }

    #[test]
    fn run_toml_is_read_as_it_was_written_and_a_mistake_in_it_is_named() {
        let results = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(results.path(), &run_file().spec).unwrap();
        folder.write_run(&run_file()).unwrap();
        assert_eq!(folder.read_run().unwrap(), run_file());
        folder.write("run.toml", b"fencepost = 1").unwrap();
        let error = folder.read_run().unwrap_err().to_string();
        assert!(error.contains("run.toml: these are not the settings of a run: "), "{error}");
    }

    #[test]
    fn a_folder_without_a_history_is_not_a_run() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(RunFolder::open(folder.path()), Err(RunError::NotARun(_))));
        fs::write(folder.path().join("history.jsonl"), "").unwrap();
        assert!(RunFolder::open(folder.path()).is_ok());
    }
}
