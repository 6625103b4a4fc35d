//! From a violation to a finding: a run is replayed, made smaller, kept as a scenario, and that scenario is
//! played.

use crate::common::{fencepost, output, under};
use crate::up::{ask, try_to_ask};
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};
use std::time::Duration;

under! {
    local: [a_violation_is_replayed_shrunk_and_kept_as_a_scenario_that_shows_it],
    docker: [],
    docker_by_night: [a_violation_is_replayed_shrunk_and_kept_as_a_scenario_that_shows_it],
}

/// Servers with what the run left in them, reached from this machine and by the commands of `up`.
#[test]
fn a_run_that_is_kept_leaves_its_servers_standing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = folder.path().join("results").display().to_string();
    let options = "--lock redis-single --acquisitions 20 --time-limit 300s --hold 20ms --seed 5";
    let ran = output(
        &format!("test {options} --driver local --results {results}").split_whitespace().collect::<Vec<_>>(),
    );
    assert!(matches!(ran.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&ran.stderr));
    let replay = ["replay", &format!("{results}/latest"), "--keep", "--name", "kept", "--results", &results];
    let mut replay = fencepost(&replay).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut says = BufReader::new(replay.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let server = says.find_map(|line| Some(line.strip_prefix("n1 ")?.trim().to_owned()));
    let server = server.expect("the address of its server");
    let was_used = "return redis.call('INFO', 'commandstats'):match('cmdstat_set:calls=%d+') and 1 or 0";
    assert_eq!(ask(&server, &format!("EVAL \"{was_used}\" 0")), ":1", "it is the server of the run");
    assert!(says.any(|line| line.starts_with("until")), "and then it stands");
    played("fault pause n1 --name kept", 0);
    assert_eq!(try_to_ask(&server, "PING", Duration::from_millis(300)), None);
    played("heal --name kept", 0);
    assert_eq!(ask(&server, "PING"), "+PONG");
    assert!(played("down --name kept", 0).contains("kept is down"));
    // On a busy machine a holder may have stayed beyond its lease.
    assert!(matches!(replay.wait().expect("it ends").code(), Some(0 | 1)));
}

fn played(args: &str, expected: i32) -> String {
    let Output { status, stdout, stderr } = output(&args.split_whitespace().collect::<Vec<_>>());
    let text = String::from_utf8_lossy(&stdout).into_owned();
    eprintln!("--- {args}\n{text}{}", String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(expected), "{args}");
    text
}

/// The canary locks nothing, so the pauses around it are what shrinking has to leave out.
fn a_violation_is_replayed_shrunk_and_kept_as_a_scenario_that_shows_it(driver: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let results = folder.path().join("results");
    let (results, findings) = (results.display(), folder.path().join("findings"));
    let options =
        "--lock canary-nolock --nemesis pause --nemesis-interval 300ms --ttl 500ms --time-limit 4s --seed 5";
    played(&format!("test {options} --driver {driver} --results {results}"), 1);
    let text = played(&format!("replay {results}/latest --times 2 --results {results}"), 1);
    assert!(text.contains("2 of 2 plays show a violation (95 % interval of the rate: 22 % to 100 %)"));

    let text = played(&format!("shrink {results}/latest --for 60s --findings {}", findings.display()), 1);
    assert!(text.contains("no fault at all: kept, the violation still comes"), "a step tells what it did");
    let finding = findings.join("granted-twice-in-peace");
    for file in ["scenario.toml", "finding.json", "run/report.html", "run/verdict.json", "run/plots"] {
        assert!(finding.join(file).exists(), "{file} is missing");
    }
    let entries = std::fs::read_dir(&findings).expect("the folder of findings").count();
    assert_eq!(entries, 1, "runs on the way are removed");

    // How often a finding comes again is for `chance`.
    let scenario = finding.join("scenario.toml").display().to_string();
    let play = ["scenario", &scenario, "--driver", driver, "--results", &results.to_string()];
    assert!(matches!(output(&play).status.code(), Some(0 | 1)), "{scenario} cannot be played");
}
