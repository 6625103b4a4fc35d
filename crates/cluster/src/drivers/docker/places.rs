//! Where container engines are: as the command `docker` finds them (`DOCKER_HOST`, `DOCKER_CONTEXT`, the
//! current context of its configuration), or as `podman` does (`CONTAINER_HOST`), and else at the usual
//! sockets of Docker, rootless Docker, Docker Desktop, Colima, OrbStack and Podman.

use crate::ClusterError;
use crate::hash::hex;
use fencepost_history::without_secrets;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt;
use std::path::PathBuf;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// `unix:///…`, `tcp://…`, `ssh://…`, or the path of a socket.
    pub(super) address: String,
    /// What names it, for messages; empty where nothing does.
    pub(super) named_by: String,
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = without_secrets(&self.address);
        match self.named_by.is_empty() {
            true => to.write_str(&address),
            false => write!(to, "{address}, which {} names", self.named_by),
        }
    }
}

pub(super) struct Surroundings {
    pub(super) docker_host: Option<String>,
    pub(super) docker_context: Option<String>,
    /// Podman's variable of the same meaning as `DOCKER_HOST`.
    pub(super) container_host: Option<String>,
    pub(super) configuration: PathBuf,
    pub(super) home: PathBuf,
    /// Where sockets of this user lie.
    pub(super) runtime: PathBuf,
}

impl Surroundings {
    pub(super) fn of_this_process() -> Surroundings {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let home = PathBuf::from(set("HOME").unwrap_or_else(|| "/root".to_owned()));
        let user = nix::unistd::geteuid();
        Surroundings {
            docker_host: set("DOCKER_HOST"),
            docker_context: set("DOCKER_CONTEXT"),
            container_host: set("CONTAINER_HOST"),
            configuration: set("DOCKER_CONFIG").map_or_else(|| home.join(".docker"), PathBuf::from),
            runtime: set("XDG_RUNTIME_DIR").map_or_else(|| format!("/run/user/{user}").into(), PathBuf::from),
            home,
        }
    }

    /// The places to try; the first that answers counts. Errors: a named context cannot be used.
    pub(super) fn places(&self) -> Result<Vec<Place>, ClusterError> {
        let named = |address: &String, variable: &str| {
            Ok(vec![Place { address: address.clone(), named_by: variable.to_owned() }])
        };
        if let Some(address) = &self.docker_host {
            return named(address, "DOCKER_HOST");
        }
        let context = match (&self.docker_context, &self.container_host) {
            (Some(context), _) => Some(context.clone()),
            (None, Some(address)) => return named(address, "CONTAINER_HOST"),
            (None, None) => self.current_context(),
        };
        match context {
            Some(context) if context != "default" => self.of_context(&context).map(|place| vec![place]),
            _ => Ok(self.usual()),
        }
    }

    fn current_context(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.configuration.join("config.json")).ok()?;
        let configuration: Value = serde_json::from_str(&text).ok()?;
        configuration["currentContext"].as_str().filter(|name| !name.is_empty()).map(str::to_owned)
    }

    fn of_context(&self, name: &str) -> Result<Place, ClusterError> {
        let hash = hex(&Sha256::digest(name.as_bytes()));
        let contexts = self.configuration.join("contexts");
        let file = contexts.join("meta").join(&hash).join("meta.json");
        let cannot = |why: &str| {
            ClusterError::new(format!(
                "the Docker context {name} cannot be used: {why}; `docker context ls` lists all, and DOCKER_HOST names an engine \
                 without one"
            ))
        };
        let text = std::fs::read_to_string(&file)
            .map_err(|error| cannot(&format!("{} cannot be read ({error})", file.display())))?;
        let meta: Value = serde_json::from_str(&text).map_err(|_| cannot("its description is no JSON"))?;
        let address = meta["Endpoints"]["docker"]["Host"].as_str().filter(|host| !host.is_empty());
        let address = address.ok_or_else(|| cannot("it names no engine"))?.to_owned();
        if contexts.join("tls").join(&hash).join("docker").is_dir() {
            return Err(cannot("it asks for TLS, and Fencepost speaks none with an engine: use ssh://HOST"));
        }
        Ok(Place { address, named_by: format!("the Docker context {name}") })
    }

    /// The usual sockets that are there; the very first where none is.
    fn usual(&self) -> Vec<Place> {
        let usual = "/var/run/docker.sock";
        let sockets = [
            PathBuf::from(usual),
            self.runtime.join("docker.sock"),
            self.home.join(".docker/run/docker.sock"),
            self.home.join(".docker/desktop/docker.sock"),
            self.home.join(".colima/default/docker.sock"),
            self.home.join(".orbstack/run/docker.sock"),
            PathBuf::from("/run/podman/podman.sock"),
            self.runtime.join("podman/podman.sock"),
        ];
        let there = sockets.into_iter().filter(|socket| socket.exists());
        let place =
            |socket: PathBuf| Place { address: socket.display().to_string(), named_by: String::new() };
        let mut places: Vec<Place> = there.map(place).collect();
        if places.is_empty() {
            places.push(place(usual.into()));
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn surroundings(folder: &Path) -> Surroundings {
        Surroundings {
            docker_host: None,
            docker_context: None,
            container_host: None,
            configuration: folder.join(".docker"),
            home: folder.to_owned(),
            runtime: folder.join("run"),
        }
    }

    fn addresses(places: &[Place]) -> Vec<&str> {
        places.iter().map(|place| place.address.as_str()).collect()
    }

    #[test]
    fn the_current_context_names_the_engine_unless_a_variable_does() {
        let folder = tempfile::tempdir().unwrap();
        let around = surroundings(folder.path());
        let put = |path: &str, text: &str| {
            let path = around.configuration.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        // The folder of a context is the SHA-256 of its name.
        let colima = "f24fd3749c1368328e2b149bec149cb6795619f244c5b584e844961215dadd16";
        put("config.json", "{\"currentContext\":\"colima\"}");
        let gone = around.places().unwrap_err().0;
        assert!(gone.contains("the Docker context colima cannot be used"), "{gone}");
        let meta = "{\"Endpoints\":{\"docker\":{\"Host\":\"unix:///a/docker.sock\"}}}";
        put(&format!("contexts/meta/{colima}/meta.json"), meta);
        let places = around.places().unwrap();
        assert_eq!(addresses(&places), ["unix:///a/docker.sock"]);
        assert_eq!(places[0].named_by, "the Docker context colima");
        let other =
            Surroundings { docker_context: Some("default".to_owned()), ..surroundings(folder.path()) };
        assert!(!addresses(&other.places().unwrap()).contains(&"unix:///a/docker.sock"));
        let set = Surroundings { docker_host: Some("tcp://b:1".to_owned()), ..surroundings(folder.path()) };
        assert_eq!(addresses(&set.places().unwrap()), ["tcp://b:1"]);
        let podman =
            Surroundings { container_host: Some("unix:///p".to_owned()), ..surroundings(folder.path()) };
        assert_eq!(addresses(&podman.places().unwrap()), ["unix:///p"]);
        let both = Surroundings { docker_host: Some("tcp://b:1".to_owned()), ..podman };
        assert_eq!(both.places().unwrap()[0].to_string(), "tcp://b:1, which DOCKER_HOST names");
        fs::create_dir_all(around.configuration.join(format!("contexts/tls/{colima}/docker"))).unwrap();
        assert!(around.places().unwrap_err().0.contains("it asks for TLS"));
    }

    #[test]
    fn usual_sockets_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let around = surroundings(folder.path());
        let socket = around.runtime.join("podman/podman.sock");
        fs::create_dir_all(socket.parent().unwrap()).unwrap();
        fs::write(&socket, "").unwrap();
        let places = around.places().unwrap();
        assert!(addresses(&places).contains(&socket.to_str().unwrap()), "{places:?}");
    }
}
