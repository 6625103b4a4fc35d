//! The images that nodes are made of: container images for an engine, root file systems for the driver `local`.

mod apt;
mod debian;
mod run;

use crate::program::short_hash;
use crate::{ClusterError, Progress, docker, program, state};
use std::path::{Path, PathBuf};

/// Programs that make a root file system.
pub(crate) const MAKERS: [&str; 3] = ["apt-get", "dpkg-deb", "tar"];

/// Changes when root file systems are put together in another way.
const RECIPE: &str = "1";

/// Debian's Java 17. The links by which it could be called shortly are set by scripts that unpacking does not run.
pub const JAVA: &str = if cfg!(target_arch = "aarch64") {
    "/usr/lib/jvm/java-17-openjdk-arm64/bin/java"
} else {
    "/usr/lib/jvm/java-17-openjdk-amd64/bin/java"
};

/// What a kind of node is made of.
#[derive(Debug)]
pub struct Image {
    pub name: &'static str,
    /// Programs that a node needs, by name or by path; a machine that has them all, and the files, can run the node
    /// without the image.
    programs: &'static [&'static str],
    /// Other files that a node needs.
    files: &'static [&'static str],
    pub(crate) dockerfile: &'static str,
    /// Debian packages, one a line.
    pub(crate) packages: &'static str,
}

/// All images.
pub const ALL: [Image; 5] = [
    Image {
        name: "redis",
        programs: &["redis-server", "redis-cli", "iptables"],
        files: &[],
        dockerfile: include_str!("../../../docker/redis/Dockerfile"),
        packages: include_str!("../../../docker/redis/packages"),
    },
    Image {
        name: "etcd",
        programs: &["etcd", "etcdctl", "iptables"],
        files: &[],
        dockerfile: include_str!("../../../docker/etcd/Dockerfile"),
        packages: include_str!("../../../docker/etcd/packages"),
    },
    Image {
        name: "zookeeper",
        programs: &["iptables"],
        // Java cannot be tried where there is no /proc yet: it finds its libraries by it.
        files: &[JAVA, "/usr/share/java/zookeeper.jar"],
        dockerfile: include_str!("../../../docker/zookeeper/Dockerfile"),
        packages: include_str!("../../../docker/zookeeper/packages"),
    },
    Image {
        name: "postgres",
        programs: &[
            "/usr/lib/postgresql/15/bin/postgres",
            "/usr/lib/postgresql/15/bin/initdb",
            "/usr/lib/postgresql/15/bin/psql",
            "setpriv",
            "iptables",
        ],
        files: &[],
        dockerfile: include_str!("../../../docker/postgres/Dockerfile"),
        packages: include_str!("../../../docker/postgres/packages"),
    },
    Image {
        name: "client",
        programs: &["iptables"],
        files: &[],
        dockerfile: include_str!("../../../docker/client/Dockerfile"),
        packages: include_str!("../../../docker/client/packages"),
    },
];

/// Something that was made and takes up room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Of the image, as in [`ALL`].
    pub name: String,
    pub kind: Kind,
    /// The image's tag, or the folder.
    pub place: String,
    pub bytes: u64,
    /// Whether this Fencepost would use it; if not, it is of another version.
    pub current: bool,
}

/// What was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In the container engine.
    Container,
    /// In the container engine, with a build of Fencepost in it.
    Layer,
    /// A folder.
    RootFileSystem,
}

/// The image of that name.
pub fn find(name: &str) -> Result<&'static Image, ClusterError> {
    ALL.iter().find(|image| image.name == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|image| image.name).collect();
        ClusterError::new(format!("there is no image {name}; there are {}", names.join(", ")))
    })
}

impl Image {
    /// Names what it is made of.
    pub(crate) fn hash(&self) -> String {
        short_hash(format!("{RECIPE}\n{}\n{}", self.dockerfile, self.packages).as_bytes())
    }

    /// Programs that this machine would have to have to run its nodes without the image.
    pub(crate) fn missing_here(&self) -> Vec<&'static str> {
        self.programs.iter().chain(self.files).filter(|name| installed(name).is_none()).copied().collect()
    }

    fn package_names(&self) -> impl Iterator<Item = &'static str> {
        self.packages.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
    }

    /// Whether its root file system is there.
    pub(crate) fn unpacked(&self) -> bool {
        self.folder().is_ok_and(|folder| folder.exists())
    }

    fn folder(&self) -> Result<PathBuf, ClusterError> {
        Ok(folders()?.join(format!("{}-{}", self.name, self.hash())))
    }
}

/// Where a program is installed on this machine. Those of root are looked for, too, whatever the user's PATH.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}

fn folders() -> Result<PathBuf, ClusterError> {
    Ok(state::cache()?.join("rootfs"))
}

/// The unpacked root file system of an image; made now if it is not there.
pub(crate) async fn root_file_system(image: &Image, progress: &Progress) -> Result<PathBuf, ClusterError> {
    let folder = image.folder()?;
    if folder.exists() {
        return Ok(folder);
    }
    // Another run may be making it: then this one waits, and finds it made.
    let lock = folders()?.join(format!("{}.lock", image.name));
    let waiting = tokio::task::spawn_blocking(move || state::lock(&lock));
    let _alone = waiting.await.map_err(|error| ClusterError::new(error.to_string()))??;
    if !folder.exists() {
        debian::make(image, &folder, progress).await?;
    }
    Ok(folder)
}

/// Everything that was made, here and in the container engine.
pub async fn list() -> Result<Vec<Made>, ClusterError> {
    let mut made = match docker::Engine::connect().await {
        Ok(engine) => engine.list_images().await?,
        Err(_) => Vec::new(),
    };
    let Ok(entries) = std::fs::read_dir(folders()?) else { return Ok(made) };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let name = name.rsplit_once('-').map_or(name.as_str(), |(name, _)| name).to_owned();
        let current = find(&name).and_then(Image::folder).is_ok_and(|current| current == path);
        let bytes = run::size(&path).await;
        made.push(Made {
            name,
            kind: Kind::RootFileSystem,
            place: path.display().to_string(),
            bytes,
            current,
        });
    }
    made.sort_by(|a, b| (&a.name, &a.place).cmp(&(&b.name, &b.place)));
    Ok(made)
}

/// Makes the images of these names (all, where none is named) for the engine, if one answers; else root file systems
/// for the driver `local`, of those images whose programs this machine lacks.
pub async fn build(names: &[String], progress: &Progress) -> Result<(), ClusterError> {
    let images: Vec<&Image> = match names {
        [] => ALL.iter().collect(),
        names => names.iter().map(|name| find(name)).collect::<Result<_, _>>()?,
    };
    let engine = docker::Engine::connect().await;
    for image in images {
        match &engine {
            Ok(engine) => {
                let tag = engine.image(image, progress).await?;
                progress(&format!("the image {} is there: {tag}", image.name));
            }
            Err(_) if names.is_empty() && image.missing_here().is_empty() => {
                progress(&format!("the image {} is not needed: this machine has its programs", image.name));
            }
            Err(_) => {
                let folder = root_file_system(image, progress).await?;
                progress(&format!("the root file system {} is there: {}", image.name, folder.display()));
            }
        }
    }
    Ok(())
}

/// Removes all that was made, and all that was kept to make it from.
pub async fn remove(progress: &Progress) -> Result<(), ClusterError> {
    if let Ok(engine) = docker::Engine::connect().await {
        engine.remove_images(progress).await?;
    }
    for name in ["rootfs", "apt", "probes"] {
        let folder = state::cache()?.join(name);
        if folder.exists() {
            progress(&format!("removing {}", folder.display()));
            run::remove_folder(&folder).await?;
        }
    }
    program::remove_unused()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_names_packages_and_a_dockerfile_that_installs_them() {
        for image in &ALL {
            assert!(image.package_names().any(|name| name == "iptables"), "{}", image.name);
            assert!(image.dockerfile.contains("COPY packages"), "{}", image.name);
            assert_eq!(find(image.name).unwrap().hash(), image.hash());
        }
    }

    #[test]
    fn an_unknown_image_is_refused_with_the_known_ones() {
        assert_eq!(
            find("rediss").unwrap_err().0,
            "there is no image rediss; there are redis, etcd, zookeeper, postgres, client"
        );
    }
}
