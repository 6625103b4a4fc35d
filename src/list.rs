//! The commands that only tell: `list`, `doctor`, `images`.

use crate::cli::ImagesCommand;
use crate::say;
use crate::spec::{BadUsage, unknown};
use anyhow::Result;
use fencepost_cluster::{Capability, images};
use fencepost_nemesis::Nemesis;

/// A name and its line.
type Row = (&'static str, &'static str);

fn sections() -> Vec<(&'static str, Vec<Row>)> {
    let backends = fencepost_locks::registry().iter().map(|it| (it.name(), it.about())).collect();
    let workloads = fencepost_workloads::registry().iter().map(|it| (it.name(), it.about())).collect();
    let mut nemeses: Vec<Row> = vec![("none", "nothing goes wrong")];
    nemeses.extend(fencepost_nemesis::registry().iter().map(|it| (it.name(), it.about())));
    let guards = fencepost_locks::guards().iter().map(|it| (it.name(), it.about())).collect();
    let checkers = fencepost_checker::registry().iter().map(|it| (it.name(), it.about())).collect();
    vec![
        ("backends", backends),
        ("workloads", workloads),
        ("nemeses", nemeses),
        ("guards", guards),
        ("checkers", checkers),
    ]
}

/// `fencepost list [WHAT]`.
pub fn list(what: Option<&str>) -> Result<i32> {
    let sections = sections();
    let names: Vec<&str> = sections.iter().map(|(name, _)| *name).collect();
    if let Some(what) = what
        && !names.contains(&what)
    {
        return Err(BadUsage(unknown("list of", what, &names)).into());
    }
    let width = sections.iter().flat_map(|(_, rows)| rows).map(|(name, _)| name.len()).max().unwrap_or(0);
    let shown = sections.iter().filter(|(name, _)| what.is_none_or(|what| what == *name));
    let blocks: Vec<String> = shown
        .map(|(name, rows)| {
            let rows: String =
                rows.iter().map(|(name, about)| format!("  {name:width$}  {about}\n")).collect();
            format!("{name}\n{rows}")
        })
        .collect();
    say!("{}", blocks.join("\n").trim_end());
    Ok(0)
}

/// `fencepost images`.
pub async fn images(command: ImagesCommand) -> Result<i32> {
    match command {
        ImagesCommand::Build { names } => {
            images::build(&names, &fencepost_cluster::progress_to_stderr()).await?
        }
        ImagesCommand::Remove => images::remove(&fencepost_cluster::progress_to_stderr()).await?,
        ImagesCommand::List => {}
    }
    let made = images::list().await?;
    if made.is_empty() {
        say!("no images; a test makes the ones it needs, and `fencepost images build` makes all");
    }
    for each in made {
        let note = if each.current { "" } else { "  (of another version of Fencepost)" };
        let kind = match each.kind {
            images::Kind::Container => "image",
            images::Kind::Layer => "image with this program",
            images::Kind::RootFileSystem => "root file system",
        };
        let megabytes = each.bytes as f64 / 1e6;
        say!("{:<8} {kind:<23} {megabytes:>7.1} MB  {}{note}", each.name, each.place);
    }
    Ok(0)
}

/// `fencepost doctor`: what this machine can do. Exit code 0 if a driver can run, else 255.
pub async fn doctor() -> Result<i32> {
    let checks = fencepost_cluster::doctor::examine().await;
    let width = checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let mut area = "";
    for check in &checks {
        if check.area != area {
            say!("{}{}", if area.is_empty() { "" } else { "\n" }, check.area);
            area = check.area;
        }
        let answer = if check.ok { "yes" } else { "no " };
        say!("  {answer}  {:width$}  {}", check.name, check.detail);
        if let Some(remedy) = &check.remedy {
            say!("       {:width$}  → {remedy}", "");
        }
    }
    say!("\nnemeses");
    let offers = offers().await;
    for nemesis in fencepost_nemesis::registry() {
        say!("  {:<12} {}", nemesis.name(), where_it_runs(*nemesis, &offers));
    }
    Ok(if offers.is_empty() { crate::FAILED } else { 0 })
}

/// What each driver that can run here offers.
async fn offers() -> Vec<(&'static str, Vec<Capability>)> {
    let mut offers = Vec::new();
    for name in ["docker", "local"] {
        if let Ok(driver) = fencepost_cluster::select(name).await {
            offers.push((driver.name(), driver.supports().await));
        }
    }
    offers
}

/// `docker, local`, or what is missing.
fn where_it_runs(nemesis: &dyn Nemesis, offers: &[(&'static str, Vec<Capability>)]) -> String {
    let told: Vec<String> = offers
        .iter()
        .map(|(driver, offered)| match nemesis.unmet(offered) {
            None => (*driver).to_owned(),
            Some(unmet) => format!("not {driver}, which lacks {unmet}"),
        })
        .collect();
    if told.is_empty() { "nowhere: no driver can run here".to_owned() } else { told.join(", ") }
}
