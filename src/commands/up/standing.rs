//! Which clusters stand, and where each listens: `up` writes it down, and commands of other shells read it.

use anyhow::{Context, Result};
use fencepost_cluster::Announcement;
use fencepost_engine::{BadUsage, refuse_option};
use fencepost_history::TimeSpan;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::net::SocketAddr;

/// The variable that names the cluster to the command beside it.
pub const NAME: &str = "FENCEPOST_NAME";

const PREFIX: &str = "up-";

/// How a standing cluster is spoken to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ControlFile {
    pub api: String,
    pub token: String,
    pub lock: String,
    pub pid: u32,
}

impl ControlFile {
    /// With a new token. Errors: the machine gives no random bytes.
    pub fn of(address: SocketAddr, lock: &str) -> Result<ControlFile> {
        let mut bytes = [0_u8; 16];
        rand::TryRng::try_fill_bytes(&mut rand::rngs::SysRng, &mut bytes)
            .context("there are no random bytes")?;
        let token = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let (api, lock) = (format!("http://{address}"), lock.to_owned());
        Ok(ControlFile { api, token, lock, pid: std::process::id() })
    }

    /// Writes it down, for as long as the result lives. Errors: the name is in use.
    pub fn announce(&self, name: &str) -> Result<Announcement> {
        if let Some((_, other)) = standing()?.into_iter().find(|(known, _)| known == name) {
            refuse_option!(
                "name",
                "a cluster named {name} is already running (process {}): give this one another --name, or end that one with \
                     `fencepost down --name {name}`",
                other.pid
            );
        }
        Ok(Announcement::make(&format!("{PREFIX}{name}"), &serde_json::to_string(self)?)?)
    }
}

/// The name of a cluster: the one that was chosen, or the lock's. Errors: it cannot be a file's name.
pub fn name_of(chosen: Option<&str>, lock: &str) -> Result<String, BadUsage> {
    let last = lock.trim_end_matches('/').rsplit('/').next().unwrap_or(lock);
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.@".contains(letter);
    let name = match chosen {
        Some(chosen) => chosen.to_owned(),
        None => last.chars().map(|letter| if allowed(letter) { letter } else { '-' }).collect(),
    };
    match !name.is_empty() && name.len() <= 60 && name.chars().all(allowed) {
        true => Ok(name),
        false => {
            Err(BadUsage::at("name", format!("invalid name {name:?}: expected letters, digits and - _ . @")))
        }
    }
}

/// What a program beside the servers finds in its environment. `about` is what `GET /cluster` gives.
pub fn variables(about: &Value, token: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let servers: Vec<&Value> = about["servers"].as_array().into_iter().flatten().collect();
    let addresses: Vec<String> = servers.iter().map(|server| text(&server["address"])).collect();
    let each = servers.iter().zip(&addresses);
    let each = each.map(|(server, address)| {
        (format!("FENCEPOST_{}", text(&server["node"]).to_uppercase()), address.clone())
    });
    let mut variables = vec![("FENCEPOST_SERVERS".to_owned(), addresses.join(","))];
    variables.extend(each);
    variables.push(("FENCEPOST_API".to_owned(), text(&about["api"])));
    variables.push(("FENCEPOST_TOKEN".to_owned(), token.to_owned()));
    variables.push((NAME.to_owned(), text(&about["name"])));
    variables
}

/// `1 h`, `10 min`, `90s`.
pub fn in_words(time: TimeSpan) -> String {
    match time.0.as_secs() {
        hours if hours > 0 && hours % 3600 == 0 => format!("{} h", hours / 3600),
        minutes if minutes > 0 && minutes % 60 == 0 => format!("{} min", minutes / 60),
        _ => time.to_string(),
    }
}

/// The clusters of this user that stand, by name.
pub fn standing() -> Result<Vec<(String, ControlFile)>> {
    let all = Announcement::all()?.into_iter();
    let read = |(name, text): (String, String)| {
        Some((name.strip_prefix(PREFIX)?.to_owned(), serde_json::from_str(&text).ok()?))
    };
    let mut standing: Vec<(String, ControlFile)> = all.filter_map(read).collect();
    standing.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(standing)
}

/// The cluster of that name, or the only one that stands. Errors: there is none, or there are several.
pub fn find(name: Option<&str>) -> Result<(String, ControlFile)> {
    let named = name.map(str::to_owned).or_else(|| std::env::var(NAME).ok());
    let mut all = standing()?;
    let names: Vec<String> = all.iter().map(|(name, _)| name.clone()).collect();
    let refused = match &named {
        _ if all.is_empty() => "no cluster is running; start one with `fencepost up LOCK`".to_owned(),
        Some(name) => match all.iter().position(|(known, _)| known == name) {
            Some(at) => return Ok(all.swap_remove(at)),
            None => format!("no cluster named {name} is running (running: {})", names.join(", ")),
        },
        None if all.len() == 1 => return Ok(all.remove(0)),
        None => format!("several clusters are running ({}): name one with --name", names.join(", ")),
    };
    Err(BadUsage::at("name", refused).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_after_its_lock_or_as_one_likes() {
        for (chosen, lock, name) in [
            (None, "redlock", "redlock"),
            (None, "etcd@3.5", "etcd@3.5"),
            (None, "./my locks/mine one/", "mine-one"),
            (Some("blue"), "redlock", "blue"),
        ] {
            assert_eq!(name_of(chosen, lock).unwrap(), name);
        }
        for wrong in ["", "../x", "a b", "a/b"] {
            assert!(name_of(Some(wrong), "redis").is_err(), "{wrong}");
        }
    }
}
