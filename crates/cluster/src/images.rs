//! The images that nodes are made of.

use crate::{ClusterError, Progress};
use std::path::{Path, PathBuf};

/// What a kind of node is made of.
#[derive(Debug)]
pub struct Image {
    pub name: &'static str,
    /// Programs that a node needs; a machine that has them all can run the node without the image.
    programs: &'static [&'static str],
}

/// All images.
pub const ALL: [Image; 3] = [
    Image { name: "redis", programs: &["redis-server", "iptables"] },
    Image { name: "etcd", programs: &["etcd", "iptables"] },
    Image { name: "client", programs: &["iptables"] },
];

/// The image of that name.
pub fn find(name: &str) -> Result<&'static Image, ClusterError> {
    ALL.iter().find(|image| image.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|image| image.name).collect();
        ClusterError::new(format!("there is no image {name}; there are {}", names.join(", ")))
    })
}

impl Image {
    /// Programs that this machine would have to have to run its nodes without the image.
    pub(crate) fn missing_here(&self) -> Vec<&'static str> {
        self.programs.iter().filter(|name| installed(name).is_none()).copied().collect()
    }
}

/// Where a program is installed on this machine. Those of root are looked for, too, whatever the user's PATH.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}

pub(crate) async fn root_file_system(image: &Image, _: &Progress) -> Result<PathBuf, ClusterError> {
    let missing = image.missing_here().join(", ");
    Err(ClusterError::new(format!("this machine lacks {missing}; install it")))
}
