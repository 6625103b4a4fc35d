//! What an environment is.

use super::variables::USUAL_PATH;
use crate::debian::{DEFAULT_SUITE, Suite};
use std::path::PathBuf;

/// Where a node sees the prepared folder. It is the working directory of the node's programs.
pub(crate) const PLACE: &str = "/lock";

/// A user's folder of programs, and how it is made ready. Its content is read when nodes are started.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Environment {
    /// Names it in messages and in the cache: a lock's name.
    pub name: String,
    /// It is at `/lock` in the node. None for programs of this machine, or of packages.
    pub folder: Option<PathBuf>,
    /// Files and folders from elsewhere, copied beside it under their last names; relative to the folder.
    pub files: Vec<PathBuf>,
    /// Commands that run on this machine, in a copy of the folder, with the user's environment.
    pub build: Vec<String>,
    /// Commands that run after those, where the programs will run, in `/lock`.
    pub setup: Vec<String>,
    pub packages: Vec<String>,
    pub suite: Option<Suite>,
    /// Builds the image under the driver `docker`, in place of the packages.
    pub dockerfile: Option<PathBuf>,
    /// The image under the driver `docker`, in place of the packages: one that the engine has, or can pull.
    pub image: Option<String>,
    /// Links in the prepared folder, beside what the folder has: the name, and where it leads.
    pub links: Vec<(String, PathBuf)>,
    /// Whether programs in `/lock` come before those of the same names of packages.
    pub leads: bool,
}

impl Environment {
    pub(crate) fn suite(&self) -> Suite {
        self.suite.unwrap_or(DEFAULT_SUITE)
    }

    /// If nothing names the programs that it needs, the driver `local` takes this machine's.
    pub(crate) fn names_no_origin(&self) -> bool {
        self.packages.is_empty() && self.suite.is_none() && self.image.is_none()
    }
    pub(crate) fn has_own_image(&self) -> bool {
        self.dockerfile.is_some() || self.image.is_some()
    }

    /// Where nodes with it look for programs, in an image of ours.
    pub(crate) fn path(&self) -> String {
        if self.leads { format!("{PLACE}:{USUAL_PATH}") } else { USUAL_PATH.to_owned() }
    }
}
