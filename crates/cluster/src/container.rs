//! Whether this program runs in a container, and which rights that lacks.

use std::fs::{self, File};
use std::path::Path;

/// Rights that nodes of `local` need, with their bits. Docker gives the last two, Podman only the last.
const NEEDED: [(&str, u32); 5] =
    [("SYS_ADMIN", 21), ("NET_ADMIN", 12), ("SYS_PTRACE", 19), ("NET_RAW", 13), ("SETPCAP", 8)];

pub(crate) struct Confines {
    pub(crate) container: Option<String>,
    is_root: bool,
    capabilities: u64,
    filters_calls: bool,
    /// The profile of AppArmor, or the label of SELinux.
    confined_by: String,
    has_fuse: bool,
}

impl Confines {
    pub(crate) fn look() -> Confines {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
        };
        Confines {
            container: container_here(),
            is_root: nix::unistd::geteuid().is_root(),
            capabilities: u64::from_str_radix(&field("CapEff:"), 16).unwrap_or_default(),
            filters_calls: field("Seccomp:") == "2",
            confined_by: fs::read_to_string("/proc/self/attr/current").unwrap_or_default(),
            has_fuse: File::options().read(true).write(true).open("/dev/fuse").is_ok(),
        }
    }

    /// Options of `docker run` and `podman run` that give the container what it lacks.
    pub(crate) fn lacking_options(&self) -> Vec<String> {
        if self.container.is_none() {
            return Vec::new();
        }
        let mut options = Vec::new();
        if !self.is_root {
            options.push("--user root".to_owned());
        }
        let lacks = |bit: u32| self.capabilities & (1 << bit) == 0;
        let lacking = NEEDED.into_iter().filter(|(_, bit)| lacks(*bit));
        options.extend(lacking.map(|(name, _)| format!("--cap-add {name}")));
        if !self.has_fuse {
            options.push("--device /dev/fuse".to_owned());
        }
        if self.confined_by.contains("(enforce)") {
            options.push("--security-opt apparmor=unconfined".to_owned());
        }
        if self.confined_by.contains("container_t") {
            options.push("--security-opt label=disable".to_owned());
        }
        // With SYS_ADMIN engines let through what nodes call: a filter that forbids it is one's own.
        if self.filters_calls && options.is_empty() {
            options.push("--security-opt seccomp=unconfined".to_owned());
        }
        options
    }
}

/// What made the container that this program runs in; none outside of one. The files by which a container
/// is known also lie in the root of a virtual machine that was made of an image, so they count only where
/// processes or names are not those that the kernel began with.
pub(crate) fn container_here() -> Option<String> {
    let is_first = |name: &str, number: &str| {
        fs::read_link(format!("/proc/self/ns/{name}")).is_ok_and(|it| it.to_string_lossy().contains(number))
    };
    // The kernel gives its first namespaces these numbers (include/linux/proc_ns.h).
    let is_outside = is_first("pid", "4026531836") && is_first("uts", "4026531838");
    if is_outside { None } else { container_at(Path::new("/")) }
}

fn container_at(root: &Path) -> Option<String> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    // Podman names itself in it: engine="podman-5.4.2".
    if let Ok(described) = fs::read_to_string(root.join("run/.containerenv")) {
        let engine = described.lines().find_map(|line| line.strip_prefix("engine="));
        let version = engine.and_then(|engine| engine.trim_matches('"').strip_prefix("podman-"));
        return Some(version.map_or_else(|| "Podman".to_owned(), |version| format!("Podman {version}")));
    }
    if root.join(".dockerenv").exists() {
        return Some("Docker".to_owned());
    }
    // systemd writes this wherever its process 1 runs in a container.
    let by_systemd = read("run/systemd/container");
    if !by_systemd.trim().is_empty() {
        return Some(by_systemd.trim().to_owned());
    }
    let groups = read("proc/1/cgroup");
    let known = [("kubepods", "Kubernetes"), ("/docker/", "Docker"), ("/lxc", "LXC")];
    known.into_iter().find(|(part, _)| groups.contains(part)).map(|(_, maker)| maker.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn docker(capabilities: u64) -> Confines {
        Confines {
            container: Some("Docker".to_owned()),
            is_root: true,
            capabilities,
            filters_calls: true,
            confined_by: "docker-default (enforce)\n".to_owned(),
            has_fuse: false,
        }
    }

    #[test]
    fn a_container_says_which_options_it_lacks() {
        // What Docker gives by itself.
        let lacking = docker(0xa804_25fb).lacking_options();
        let rights = ["--cap-add SYS_ADMIN", "--cap-add NET_ADMIN", "--cap-add SYS_PTRACE"];
        let devices = ["--device /dev/fuse", "--security-opt apparmor=unconfined"];
        assert_eq!(lacking, [&rights[..], &devices[..]].concat());
        // Podman gives less, and Fedora labels it.
        let podman =
            Confines { confined_by: "system_u:system_r:container_t:s0".to_owned(), ..docker(0x800405fb) };
        let lacking = podman.lacking_options();
        assert!(lacking.contains(&"--cap-add NET_RAW".to_owned()), "{lacking:?}");
        assert!(lacking.contains(&"--security-opt label=disable".to_owned()), "{lacking:?}");
        let user = Confines { is_root: false, ..docker(0) };
        assert_eq!(user.lacking_options()[0], "--user root");
    }

    #[test]
    fn nothing_is_lacking_outside_or_with_all_rights() {
        let outside = Confines { container: None, ..docker(0) };
        assert!(outside.lacking_options().is_empty());
        let all = || Confines { has_fuse: true, confined_by: String::new(), ..docker(u64::MAX) };
        assert_eq!(all().lacking_options(), ["--security-opt seccomp=unconfined"]);
        assert!(Confines { filters_calls: false, ..all() }.lacking_options().is_empty());
    }

    #[test]
    fn makers_of_containers_are_known_by_their_files() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(container_at(root.path()), None);
        put("proc/1/cgroup", "0::/kubepods.slice/kubepods-besteffort.slice\n");
        assert_eq!(container_at(root.path()).as_deref(), Some("Kubernetes"));
        put("run/systemd/container", "systemd-nspawn\n");
        assert_eq!(container_at(root.path()).as_deref(), Some("systemd-nspawn"));
        put(".dockerenv", "");
        assert_eq!(container_at(root.path()).as_deref(), Some("Docker"));
        put("run/.containerenv", "engine=\"podman-5.4.2\"\nrootless=1\n");
        assert_eq!(container_at(root.path()).as_deref(), Some("Podman 5.4.2"));
    }
}
