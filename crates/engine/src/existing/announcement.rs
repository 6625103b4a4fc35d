//! What a run says that it would do to servers which exist already.

use crate::settings::existing_options::PASSWORD;
use crate::settings::names::BadUsage;
use crate::settings::validation::RunSpec;

impl RunSpec {
    /// What this run would do on the servers of `--servers`, in lines; none where it starts its servers, or
    /// the user has confirmed that the servers are the user's own. Errors: the servers make no sense.
    pub fn announcement(&self) -> Result<Option<String>, BadUsage> {
        let existing = &self.options.existing;
        if !existing.are_used() || existing.i_own_these_servers {
            return Ok(None);
        }
        let places = existing.places(self.lock.service.port())?;
        let named = places.iter().enumerate().map(|(at, place)| format!("n{} = {place}", at + 1));
        let named = named.collect::<Vec<_>>().join(", ");
        let user = existing.user(&places).map(|user| format!(" as the user {user}")).unwrap_or_default();
        let secret = match &existing.password_file {
            Some(file) => format!("the password in {}", file.display()),
            None => format!("the password in {PASSWORD}, if there is one"),
        };
        let tls = if places.iter().any(|place| place.tls) { "by TLS" } else { "without TLS" };
        let nemeses: Vec<&str> = self.nemeses.iter().map(|nemesis| nemesis.name()).collect();
        let faults = match nemeses.is_empty() {
            true => "inject no faults".to_owned(),
            false => format!("inject faults: {}", nemeses.join(", ")),
        };
        let hook = match &existing.server_hook {
            Some(hook) => format!("for those of servers it would call `{hook}` on this machine"),
            None => {
                "no server is stopped, only clients and the packets of their nodes meet faults".to_owned()
            }
        };
        let (clients, keys) = (self.options.clients, self.options.keys);
        Ok(Some(format!(
            "Nothing was done. With --i-own-these-servers, this run would\n\
             - connect to {named} from this machine, {tls}{user}, with {secret}\n\
             - ask each server for its version, and set and delete one key, to see that this is allowed\n\
             - let its clients ({clients}) take locks ({keys}), whose keys begin with {PREFIX}, a name of the run, and /\n\
             - {faults}; {hook}\n\
             - remove all keys with that prefix at the end\n\
             It would start no server, and never flush, read or list other keys, or change a setting."
        )))
    }
}

pub(super) const PREFIX: &str = "fencepost/";
