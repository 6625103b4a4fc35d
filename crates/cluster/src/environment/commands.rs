//! Runs the commands of an environment, each in a process that ends with everything it started.

use super::definition::Environment;
use crate::error::cannot;
use crate::{ClusterError, Progress};
use fencepost_history::run::read_end;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

const LINES_SHOWN: usize = 20;
const TAIL_BYTES: u64 = 64 << 10;

/// The line of JSON on the standard input of `setup`, whose end ends everything.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SetupPlan {
    pub(crate) command: String,
    pub(crate) folder: PathBuf,
    /// Where the command sees the folder; none for a command that sees this machine as the user does.
    pub(crate) place: Option<CommandRoot>,
}

/// A root file system for a command, in which only the folder can be written to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CommandRoot {
    /// `/`, or an unpacked image.
    pub(crate) root: PathBuf,
    pub(crate) mount_place: PathBuf,
    /// An empty folder on the disk, for large files in /tmp.
    pub(crate) tmp: PathBuf,
}

pub(crate) struct Commands<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) program: &'a Path,
    pub(crate) log: PathBuf,
    pub(crate) time_limit: Duration,
    pub(crate) progress: &'a Progress,
}

impl Commands<'_> {
    pub(crate) async fn run(
        &self,
        lines: &[String],
        folder: &Path,
        place: Option<&CommandRoot>,
    ) -> Result<(), ClusterError> {
        for line in lines {
            self.announce(line);
            let plan = SetupPlan { command: line.clone(), folder: folder.to_owned(), place: place.cloned() };
            let (mut child, life_line) = self.start(&plan).await?;
            let ended = tokio::time::timeout(self.time_limit, child.wait()).await;
            drop(life_line);
            match ended {
                Ok(Ok(status)) if status.success() => {}
                Ok(Ok(status)) => return Err(self.failed(line, &in_words(status))),
                Ok(Err(error)) => return Err(self.failed(line, &error.to_string())),
                Err(_) => {
                    // Its end is what everything that it started ends with.
                    let _ = child.kill().await;
                    return Err(self.too_slow(line));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn announce(&self, line: &str) {
        (self.progress)(&format!("setting up {}, once: {line}", self.environment.name));
    }

    pub(crate) fn open_log(&self) -> Result<File, ClusterError> {
        let opened = OpenOptions::new().create(true).append(true).open(&self.log);
        opened.map_err(cannot("write the log", &self.log))
    }

    pub(crate) fn failed(&self, line: &str, how: &str) -> ClusterError {
        let (name, log) = (&self.environment.name, self.log.display());
        let output = tail(&self.log);
        ClusterError::new(match output.as_str() {
            "" => format!("cannot set up {name}: `{line}` {how} and printed nothing"),
            _ => format!("cannot set up {name}: `{line}` {how}; its last lines, of {log}:\n{output}"),
        })
    }

    pub(crate) fn too_slow(&self, line: &str) -> ClusterError {
        self.failed(line, &format!("did not end within {} s", self.time_limit.as_secs()))
    }

    async fn start(&self, plan: &SetupPlan) -> Result<(Child, ChildStdin), ClusterError> {
        let cannot = |error: std::io::Error| {
            ClusterError::new(format!(
                "cannot run {} to set up {}: {error}",
                self.program.display(),
                self.environment.name
            ))
        };
        let output = self.open_log()?;
        let errors = output.try_clone().map_err(cannot)?;
        let mut command = Command::new(self.program);
        command.arg("setup").stdin(Stdio::piped()).stdout(output).stderr(errors).kill_on_drop(true);
        // Ctrl-C in a terminal goes to the whole process group, and it is ours to end the command.
        command.process_group(0);
        let mut child = command.spawn().map_err(cannot)?;
        let mut text = serde_json::to_vec(plan).map_err(|error| error.to_string())?;
        text.push(b'\n');
        let mut life_line =
            child.stdin.take().ok_or_else(|| cannot(std::io::ErrorKind::BrokenPipe.into()))?;
        // One that has ended already says why in the log.
        let _ = life_line.write_all(&text).await;
        Ok((child, life_line))
    }
}

fn in_words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("failed with code {code}"),
        None => "was ended by a signal".to_owned(),
    }
}

fn tail(log: &Path) -> String {
    let text = read_end(log, TAIL_BYTES).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
}
