//! Options of a run in the help of commands: the usual ones first, the others under headings.

use crate::settings::existing_options::ExistingOptions;
use clap::{Arg, Args, Command, Id};
use fencepost_locks::Options;
use fencepost_nemesis::NemesisOptions;
use std::sync::LazyLock;

static GROUPS: LazyLock<[(&str, Vec<Id>); 4]> = LazyLock::new(|| {
    let client = ["client", "client_files", "client_packages", "client_memory", "option"];
    let sections = ["readers", "permits", "keys", "rate", "hold", "acquire_timeout", "storage_write_delay"];
    let faults = ["nemesis_file", "nemesis_interval", "acquisitions"];
    [
        ("A client of your own", client.map(Id::from).to_vec()),
        ("Critical sections", sections.map(Id::from).to_vec()),
        ("Faults", [faults.map(Id::from).to_vec(), ids::<NemesisOptions>()].concat()),
        (SERVERS, ids::<ExistingOptions>()),
    ]
});

const SERVERS: &str = "Servers that exist already";

fn ids<T: Args>() -> Vec<Id> {
    let command = T::augment_args(Command::new("options"));
    command.get_arguments().map(|arg| arg.get_id().clone()).collect()
}

/// Puts an option under its heading. The usual ones have none, so that the help begins with them.
pub fn grouped(arg: Arg) -> Arg {
    static OF_LOCKS: LazyLock<Vec<Id>> = LazyLock::new(ids::<Options>);
    if OF_LOCKS.contains(arg.get_id()) {
        // They come with a heading.
        return arg;
    }
    let group = GROUPS.iter().find(|(_, ids)| ids.contains(arg.get_id()));
    arg.help_heading(group.map(|(heading, _)| *heading))
}

/// As [`grouped`], for a command that starts its servers: it hides the options of existing servers.
pub fn grouped_without_servers(arg: Arg) -> Arg {
    let arg = grouped(arg);
    if arg.get_help_heading() == Some(SERVERS) { arg.hide(true) } else { arg }
}
