//! One run of a scenario: its cluster, its faults, its cast, and what has to come of it.

use super::expect::Expect;
use crate::cli::{Cli, Command};
use clap::Parser;
use fencepost_engine::{ClientScript, Narration, RunOptions, RunSpec, Script, Step};
use fencepost_history::{Kind, Seed, f};
use fencepost_nemesis::{Plan, PlannedFault, Trigger, parse_partition};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// One run of a scenario. A scenario has several where it compares: without a guard and with one, for instance.
#[derive(Clone, Debug)]
pub struct Act {
    /// What is special about this run: `without a guard`. Empty where the scenario has one run only.
    pub title: &'static str,
    /// As on the command line of `fencepost test`.
    arguments: String,
    pub strikes: Vec<PlannedFault>,
    pub cast: Option<Script>,
    pub expects: Vec<Expect>,
    /// No other story is played meanwhile.
    pub undisturbed: bool,
}

/// Ends an act that hangs.
const LIMIT: &str = "40s";

impl Act {
    /// A directed run of the workload `increment`, with these further arguments of `fencepost test`.
    pub fn directed(title: &'static str, arguments: &str) -> Act {
        let arguments = format!("--workload increment --time-limit {LIMIT} {arguments}");
        let cast = Script { free_again: Some(Duration::from_secs(6)), ..Script::default() };
        Act { cast: Some(cast), ..Act::free(title, &arguments) }
    }

    /// A run in which processes follow their workload by themselves.
    pub fn free(title: &'static str, arguments: &str) -> Act {
        Act {
            title,
            arguments: arguments.to_owned(),
            strikes: Vec::new(),
            cast: None,
            expects: Vec::new(),
            undisturbed: false,
        }
    }

    /// The same act under another title.
    pub fn titled(self, title: &'static str) -> Act {
        Act { title, ..self }
    }

    /// What a client does. Clients that are not named do nothing.
    pub fn part(mut self, client: &'static str, steps: Vec<Step>) -> Act {
        self.directions().clients.push(ClientScript { client: client.to_owned(), steps, doomed: false });
        self
    }

    /// What a client does that a fault will keep from its end.
    pub fn doomed(mut self, client: &'static str, steps: Vec<Step>) -> Act {
        self.directions().clients.push(ClientScript { client: client.to_owned(), steps, doomed: true });
        self
    }

    /// A fault.
    pub fn strike(mut self, strike: PlannedFault) -> Act {
        self.strikes.push(strike);
        self
    }

    /// A sentence that is told when its event comes; an act whose event never came did not happen.
    pub fn tell(mut self, when: Trigger, sentence: impl Into<String>) -> Act {
        self.directions().narration.push(Narration { when, sentence: sentence.into() });
        self
    }

    /// How long the lock may take to come free once everything is healed.
    pub fn free_again(mut self, bound: Duration) -> Act {
        self.directions().free_again = Some(bound);
        self
    }

    pub fn expect(mut self, expect: Expect) -> Act {
        self.expects.push(expect);
        self
    }

    /// It hangs on moments so fine that stories beside it, on the same cores, would blur them.
    pub fn undisturbed(self) -> Act {
        Act { undisturbed: true, ..self }
    }

    fn directions(&mut self) -> &mut Script {
        self.cast.get_or_insert_default()
    }

    /// The options of its run.
    ///
    /// # Panics
    /// If the arguments of a scenario are no arguments of `fencepost test`: a mistake in the program, which a test
    /// over all scenarios finds.
    pub fn options(&self, driver: &str, seed: Seed) -> RunOptions {
        let clients = self.cast.as_ref().map_or(1, |script| script.clients.len());
        let mut words: Vec<String> = ["fencepost", "test", "--driver", driver].map(str::to_owned).to_vec();
        words.extend(["--seed".to_owned(), seed.to_string()]);
        if self.cast.is_some() {
            words.extend(["--clients".to_owned(), clients.to_string()]);
            words.extend(["--concurrency".to_owned(), clients.to_string()]);
        }
        words.extend(self.arguments.split_whitespace().map(str::to_owned));
        let cli = Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{}: {error}", words.join(" ")));
        let Command::Test(args) = cli.command else { unreachable!("the words above name the command test") };
        args.options
    }

    /// Its faults.
    pub fn plan(&self) -> Plan {
        Plan { faults: self.strikes.clone(), ..Plan::default() }
    }
}

/// A fault of that name on these nodes, in force for so long once it has struck (or until the run ends).
pub fn strike(fault: &str, on: &[&str], when: Trigger, lasting: Duration) -> PlannedFault {
    PlannedFault {
        at_ms: 0,
        for_ms: u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX),
        fault: fault.to_owned(),
        on: on.iter().map(|name| (*name).to_owned()).collect(),
        when: Some(when),
        then: None,
        parameters: Map::new(),
    }
}

/// A fault that is in force from the beginning until everything is healed.
pub fn throughout(fault: &str, on: &[&str]) -> PlannedFault {
    PlannedFault { when: None, ..strike(fault, on, acquired("c1"), Duration::from_secs(3600)) }
}

/// The same fault, so long after what it waits for.
pub fn later(strike: PlannedFault, by: Duration) -> PlannedFault {
    PlannedFault { at_ms: u64::try_from(by.as_millis()).unwrap_or(u64::MAX), ..strike }
}

/// The same fault, with its dose.
pub fn dosed(strike: PlannedFault, dose: Value) -> PlannedFault {
    PlannedFault { parameters: dose.as_object().cloned().unwrap_or_default(), ..strike }
}

/// Cuts off groups of nodes from each other, as `--partition` takes them.
pub fn partition(groups: &str, act: &Act) -> PlannedFault {
    let spec = RunSpec::new(act.options("local", Seed(0)));
    let scene = spec.map(|spec| spec.topology()).unwrap_or_else(|error| panic!("{error}"));
    let groups = parse_partition(groups, &scene).unwrap_or_else(|error| panic!("{error}"));
    let on = groups.targets();
    PlannedFault { on, ..dosed(throughout("partition", &[]), json!(groups)) }
}

fn event(f: &str, kind: Kind, client: Option<&str>) -> Trigger {
    Trigger { kind: Some(kind), client: client.map(str::to_owned), ..Trigger::of(f) }
}

/// The client's first acquire that was granted.
pub fn acquired(client: &str) -> Trigger {
    event(f::ACQUIRE, Kind::Ok, Some(client))
}

/// The client begins this operation for the first time.
pub fn begins(client: &str, f: &str) -> Trigger {
    event(f, Kind::Invoke, Some(client))
}

/// This operation of the client succeeds for the first time.
pub fn done(client: &str, f: &str) -> Trigger {
    event(f, Kind::Ok, Some(client))
}

/// This operation of the client is refused for the first time.
pub fn refused(client: &str, f: &str) -> Trigger {
    event(f, Kind::Fail, Some(client))
}

/// The client lingers at this point of its recipe (the act's arguments must ask for it with `--pause-at`).
pub fn lingers(client: &str, point: &str) -> Trigger {
    Trigger { point: Some(point.to_owned()), ..event(f::AT, Kind::Info, Some(client)) }
}

/// The fault of that name was seen to be in force.
pub fn struck(fault: &str) -> Trigger {
    event(fault, Kind::Ok, None)
}

/// The fault of that name, which strikes once in its act, was seen to be healed.
pub fn healed(fault: &str) -> Trigger {
    Trigger { times: 2, ..struck(fault) }
}
