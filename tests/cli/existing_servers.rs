//! What is refused of servers that exist already, and by which commands.

use crate::bad_usage::refused;
use crate::common::fencepost;

#[test]
fn servers_that_exist_already_are_not_touched_unless_they_are_the_users_own() {
    let results = tempfile::tempdir().expect("a temporary folder");
    let args = "test --lock redis-single --nemesis pause --servers db.example --servers-user ann";
    let output = fencepost(&args.split_whitespace().collect::<Vec<_>>()).current_dir(results.path()).output();
    let output = output.expect("the program starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(254), "{stdout}");
    assert!(stdout.starts_with("Nothing was done. With --i-own-these-servers"), "{stdout}");
    assert!(stdout.contains("n1 = db.example:6379") && stdout.contains("as the user ann"), "{stdout}");
    assert_eq!(std::fs::read_dir(results.path()).expect("a folder").count(), 0);
}

#[test]
fn servers_that_exist_already_are_refused_where_they_cannot_be_used() {
    let own = "--i-own-these-servers --servers";
    assert!(
        refused(&format!("test --lock redis-sentinel {own} db")).contains("these locks can: redis-single")
    );
    assert!(refused(&format!("test --lock redlock {own} a,b")).contains("--servers names 2 servers"));
    assert!(
        refused(&format!("test --lock redis-single {own} db --nodes 1")).contains("--nodes shapes servers")
    );
    assert!(refused(&format!("test --lock redis-single {own} db --tls")).contains("--tls shapes servers"));
    assert!(refused(&format!("test --lock chubby {own} db --guard sequencer")).contains("sequencers"));
    let disk = refused(&format!("test --lock redis-single {own} db --nemesis disk-full"));
    assert!(
        disk.contains("there remain partition") && disk.contains("terminate, command of clients"),
        "{disk}"
    );
    let failover = refused(&format!("test --lock etcd {own} db --nemesis failover"));
    assert!(failover.contains("exist without it"), "{failover}");
    assert!(refused(&format!("test --lock redis-single {own} rediss://db")).contains("--servers-ca"));
    let password = refused(&format!("test --lock redis-single {own} rediss://ann:hunter2@db"));
    assert!(password.contains("FENCEPOST_SERVERS_PASSWORD") && !password.contains("hunter2"), "{password}");
    assert!(refused("test --server-hook x").contains("--server-hook is about servers that exist already"));
    let hook = refused(&format!("test --lock redis-single {own} db --server-hook true"));
    assert!(hook.contains("{action} (stop, continue, kill, restart)"), "{hook}");
}

fn help(command: &str) -> String {
    let output = fencepost(&[command, "--help"]).output().expect("the program starts");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn servers_that_exist_already_are_for_test_alone() {
    let options = [
        "--servers db",
        "--i-own-these-servers",
        "--servers-user ann",
        "--password-file FILE",
        "--servers-ca FILE",
        "--servers-certificate FILE",
        "--servers-key FILE",
        "--server-hook true",
    ];
    let shown =
        |help: &str| options.map(|option| help.contains(option.split(' ').next().unwrap_or_default()));
    assert_eq!(shown(&help("test")), [true; 8]);
    for command in ["compare --locks redis-single", "hunt --lock redis-single"] {
        let name = command.split(' ').next().unwrap_or_default();
        assert_eq!(shown(&help(name)), [false; 8], "{name}");
        for option in options {
            let name = option.split(' ').next().unwrap_or_default();
            let refusal = refused(&format!("{command} {option}"));
            let expected = format!("{name} is for `fencepost test` alone, without --against");
            assert!(refusal.contains(&expected), "{command} {option}: {refusal}");
        }
        let refusal = refused(&format!("{command} --i-own-these-servers --servers db"));
        assert!(refusal.contains("--servers is for `fencepost test` alone"), "{refusal}");
    }
    assert!(refused("lock check redis-single --servers db").contains("unexpected argument"));
}

#[test]
fn help_begins_with_the_usual_options() {
    for command in ["test", "compare", "hunt"] {
        let help = help(command);
        let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{command} does not show {text}"));
        let others = at("\nA client of your own:\n");
        for usual in
            ["--ttl", "--clients", "--concurrency", "--time-limit", "--workload", "--driver", "--seed"]
        {
            assert!(at(usual) < others, "{command} {usual}");
        }
        let faults = at("\nFaults:\n");
        assert!(
            faults < at("--clock-amplitude") && at("--clock-amplitude") < at("\nOptions of locks"),
            "{command}"
        );
        assert!(at("--results") < others, "{command}");
    }
}
