//! The report of `doctor` for people.

use super::report::{FaultReport, NemesisReport, TriedEffect};
use fencepost_cluster::doctor::{Answer, Check, Start};
use std::fmt::Write;

pub(super) fn text(report: &FaultReport) -> String {
    let seconds = |ms: u64| ms as f64 / 1e3;
    let mut text = format!(
        "machine\n  {}\n  programs waited for a core for {:.3} s at most; too short to disturb locks with a TTL of {:.1} s or more\n",
        report.machine,
        seconds(report.longest_stall_ms),
        seconds(report.recommended_ttl_ms),
    );
    let sections = report.drivers.iter().map(|driver| (format!("driver {}", driver.name), &driver.checks));
    let sections = sections.chain([("images".to_owned(), &report.images)]);
    let all = report.drivers.iter().flat_map(|driver| &driver.checks).chain(&report.images);
    let width = all.map(|check| check.name.chars().count()).max().unwrap_or(0);
    for (title, checks) in sections {
        let _ = writeln!(text, "\n{title}");
        checks.iter().for_each(|check| add_check(&mut text, check, width));
    }
    text += "\nnemeses: whether each fault takes effect, tried on a throw-away node\n";
    for driver in &report.drivers {
        if let Some(error) = &driver.not_tried {
            let _ = writeln!(text, "  {} could not try any: {error}", driver.name);
        }
    }
    let width = report.nemeses.iter().map(|nemesis| nemesis.name.len()).max().unwrap_or(0);
    for nemesis in &report.nemeses {
        let answers = nemesis.drivers.iter().map(|(driver, effect)| (*driver, in_words(effect)));
        let _ = writeln!(text, "  {:width$}  {}", nemesis.name, by_answer(answers));
    }
    let is_well =
        |effect: &TriedEffect| matches!(effect, TriedEffect::Effective { .. } | TriedEffect::Possible { .. });
    let is_hindered = |nemesis: &NemesisReport| nemesis.drivers.get("local").is_some_and(|it| !is_well(it));
    if let Some(advice) = report.machine.advice().filter(|_| report.nemeses.iter().any(is_hindered)) {
        let _ = writeln!(text, "  {:width$}  → {advice}", "");
    }
    let _ = write!(text, "\n{}", conclusion(report));
    text
}

fn add_check(text: &mut String, check: &Check, width: usize) {
    let answer = match check.answer {
        Answer::Yes => "yes",
        Answer::NotNeeded => "–",
        Answer::No => "no",
    };
    let _ = writeln!(text, "  {answer:3}  {:width$}  {}", check.name, check.detail);
    if let Some(remedy) = &check.remedy {
        let _ = writeln!(text, "       {:width$}  → {remedy}", "");
    }
}

fn in_words(effect: &TriedEffect) -> String {
    match effect {
        TriedEffect::Effective { mechanism } | TriedEffect::Possible { mechanism } => {
            let mechanism = match mechanism.as_str() {
                "vdso" => "a patched vDSO",
                "emulator" => "Fencepost's emulator",
                other => other,
            };
            format!("yes, by {mechanism}")
        }
        TriedEffect::Vacuous => "no: it was injected, and no effect was observed".to_owned(),
        TriedEffect::Impossible { reason } => format!("no, {reason}"),
        TriedEffect::Failed { reason } => format!("no: {reason}"),
    }
}

/// `docker, local: yes, by signals`, or each driver with its own answer.
fn by_answer<'a>(answers: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
    for (driver, answer) in answers {
        match groups.iter_mut().find(|(_, same)| *same == answer) {
            Some((drivers, _)) => drivers.push(driver),
            None => groups.push((vec![driver], answer)),
        }
    }
    if groups.is_empty() {
        return "not tried: no driver has started a node here yet".to_owned();
    }
    let groups = groups.iter().map(|(drivers, answer)| format!("{}: {answer}", drivers.join(", ")));
    groups.collect::<Vec<_>>().join(" · ")
}

fn conclusion(report: &FaultReport) -> String {
    let named = |fits: fn(&Start) -> bool| {
        let fitting = report.drivers.iter().filter(|driver| fits(&driver.start));
        fitting.map(|driver| format!("--driver {}", driver.name)).collect::<Vec<_>>()
    };
    let (tried, open) =
        (named(|it| *it == Start::Yes), named(|it| matches!(it, Start::NotTried(_))).join(" or "));
    let first = "`fencepost images build client`, and then `fencepost doctor` again, tries it";
    match (&tried[..], open.is_empty()) {
        ([], true) => "No test can run here yet: the lines with an arrow say what to do.".to_owned(),
        ([], false) => format!("Tests can probably run here, with {open}; no node was started yet: {first}."),
        (tried, true) => format!("Tests can run here, with {}.", tried.join(" or ")),
        (tried, false) => {
            format!("Tests can run here, with {}. Not tried yet: {open}; {first}.", tried.join(" or "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::DriverReport;
    use super::*;
    use fencepost_cluster::doctor::{FoundEngine, Machine};
    use std::collections::BTreeMap;

    fn check(area: &'static str, name: &str, answer: Answer, detail: &str, remedy: Option<&str>) -> Check {
        let (name, detail, remedy) = (name.to_owned(), detail.to_owned(), remedy.map(str::to_owned));
        Check { area, name, answer, detail, remedy }
    }

    fn driver(name: &'static str, start: Start, checks: Vec<Check>) -> DriverReport {
        DriverReport { name, start, checks, not_tried: None }
    }

    /// A machine with an engine whose nodes were tried, and without the rights for the other driver.
    fn report() -> FaultReport {
        let effective = |mechanism: &str| TriedEffect::Effective { mechanism: mechanism.to_owned() };
        let nemesis = |name, effect| NemesisReport { name, drivers: BTreeMap::from([("docker", effect)]) };
        let not_permitted = "cannot start nodes: Operation not permitted (os error 1)";
        FaultReport {
            format: 1,
            version: "0.1.0",
            longest_stall_ms: 12,
            recommended_ttl_ms: 500,
            machine: Machine {
                kernel: "6.12.48+deb13-amd64".to_owned(),
                architecture: "x86_64".to_owned(),
                system: "Debian GNU/Linux 13 (trixie)".to_owned(),
                page_bytes: 4096,
                processors: 2,
                memory_bytes: 4_000_000_000,
                is_root: true,
                confined_by: Some("Docker".to_owned()),
                lacking_options: vec!["--cap-add SYS_ADMIN".to_owned()],
            },
            engines: vec![FoundEngine {
                name: "Podman",
                version: "5.4.2".to_owned(),
                is_rootless: true,
                address: "/run/user/1000/podman/podman.sock".to_owned(),
            }],
            drivers: vec![
                driver(
                    "docker",
                    Start::Yes,
                    vec![
                        check("docker", "engine", Answer::Yes, "Podman 5.4.2, rootless", None),
                        check("docker", "netem", Answer::NotNeeded, "tc says: Error", Some("the emulator")),
                    ],
                ),
                driver(
                    "local",
                    Start::No(not_permitted.to_owned()),
                    vec![check("local", "sandbox", Answer::No, not_permitted, Some("add rights"))],
                ),
            ],
            images: vec![check("images", "Debian's packages", Answer::Yes, "come from a mirror", None)],
            nemeses: vec![
                nemesis("clock-jump", effective("vdso")),
                nemesis("delay", effective("emulator")),
                nemesis(
                    "error-replies",
                    TriedEffect::Possible { mechanism: "an order to the server".to_owned() },
                ),
                nemesis("pause", TriedEffect::Vacuous),
                nemesis("disk-full", TriedEffect::Impossible { reason: "it needs FUSE".to_owned() }),
                nemesis("kill", TriedEffect::Failed { reason: "it took longer than 20 s".to_owned() }),
            ],
            can_test: true,
        }
    }

    #[test]
    fn the_report_is_printed_as_text() {
        insta::assert_snapshot!(text(&report()));
    }

    #[test]
    fn the_report_is_printed_as_json() {
        insta::assert_snapshot!(serde_json::to_string_pretty(&report()).unwrap());
    }

    #[test]
    fn faults_that_a_right_would_enable_are_followed_by_it() {
        let mut report = report();
        let advice = "→ start this ";
        assert!(!text(&report).contains(advice), "no fault was tried under the driver local");
        report.nemeses[1].drivers.insert("local", TriedEffect::Failed { reason: "EPERM".to_owned() });
        assert!(text(&report).contains(advice), "{}", text(&report));
        report.machine.lacking_options.clear();
        assert!(!text(&report).contains(advice), "nothing is lacking");
    }

    #[test]
    fn drivers_with_the_same_answer_stand_together() {
        let line = |answers: &[(&'static str, &str)]| {
            by_answer(answers.iter().map(|(driver, answer)| (*driver, (*answer).to_owned())))
        };
        let same = [("docker", "yes, by signals"), ("local", "yes, by signals")];
        assert_eq!(line(&same), "docker, local: yes, by signals");
        let other = [("docker", "no, it needs FUSE"), ("local", "yes, by FUSE")];
        assert_eq!(line(&other), "docker: no, it needs FUSE · local: yes, by FUSE");
        assert!(line(&[]).starts_with("not tried"));
    }

    #[test]
    fn a_driver_of_which_no_node_was_started_is_no_promise() {
        let mut report = report();
        report.drivers[0].start = Start::NotTried("not made yet".to_owned());
        assert!(conclusion(&report).starts_with("Tests can probably run here, with --driver docker;"));
        report.drivers[1].start = Start::Yes;
        let both = conclusion(&report);
        assert!(both.starts_with("Tests can run here, with --driver local. Not tried yet: --driver docker;"));
        report.drivers[0].start = Start::No("no".to_owned());
        assert_eq!(conclusion(&report), "Tests can run here, with --driver local.");
        report.drivers[1].start = Start::No("no".to_owned());
        assert!(conclusion(&report).starts_with("No test can run here yet"));
    }
}
