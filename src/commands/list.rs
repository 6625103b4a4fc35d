//! `fencepost list`: the locks, their kinds, servers, workloads, nemeses, guards and checkers.

use crate::output::say;
use anyhow::Result;
use clap::Args;
use fencepost_cluster::images::{self, RELEASES, Release};
use fencepost_engine::{BadUsage, find_lock, unknown};
use fencepost_history::LockKind;
use fencepost_locks::ClientProgram;
use fencepost_locks::{LockDefinition, Options, folder};

/// What to list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// locks (or backends), kinds, servers, workloads, nemeses, guards, checkers [default: all], and folders
    /// of locks of your own, to list in place of the built-in locks.
    pub what: Vec<String>,
}

type Row = (&'static str, Vec<String>);

fn row(name: &'static str, about: &str) -> Row {
    (name, vec![about.to_owned()])
}

fn lock(it: &LockDefinition) -> Row {
    let mut lines = vec![it.about.to_owned(), format!("claims: {}", it.claims)];
    let kind = it.capabilities(&Options::default()).kind;
    if !kind.is_mutex() {
        lines.push(format!("kind: {kind}"));
    }
    let options: Vec<&str> = it.option_names().collect();
    if !options.is_empty() {
        lines.push(format!("options: --{}", options.join(", --")));
    }
    lines.extend(it.recipe.program().into_iter().flat_map(own));
    (it.name, lines)
}

fn own(program: &ClientProgram) -> Vec<String> {
    let mut lines =
        vec![format!("client: {}", program.command.join(" ")), format!("lease: {}", program.lease)];
    let gives = program.must_announce();
    if !gives.is_empty() {
        lines.push(format!("gives: {}", gives.join(", ")));
    }
    lines.extend(program.options.iter().map(|(name, option)| {
        format!("--option {name}={}  {}", option.default, option.about).trim_end().to_owned()
    }));
    let variants = program.variants.iter();
    lines.extend(variants.map(|(name, about)| format!("variant @{name}  {about}").trim_end().to_owned()));
    lines
}

fn server(release: &'static Release) -> Row {
    let locks =
        fencepost_locks::registry().iter().filter(|lock| lock.service.servers.contains(&release.server));
    let locks: Vec<&str> = locks.map(|lock| lock.name).collect();
    let used = match locks.is_empty() {
        true => "servers that a lock.toml describes".to_owned(),
        false => locks.join(", "),
    };
    let usual = if release.is_default() { ", the default" } else { "" };
    let there = match images::is_made(release) {
        true => "; its root file system is there",
        false => "; the first test that needs it downloads it",
    };
    let about = format!("Debian's suite {}{usual}{there}", release.suite);
    (release.name().leak(), vec![about, format!("for: {used}")])
}

fn sections(locks: &[&LockDefinition]) -> Vec<(&'static str, Vec<Row>)> {
    let locks = locks.iter().map(|it| lock(it)).collect();
    let workloads = fencepost_workloads::registry().iter().map(|it| row(it.name, it.about)).collect();
    let swarm = "each run draws which of the following are enabled, how strongly, and when";
    let mut nemeses = vec![row("none", "injects no fault"), row(fencepost_nemesis::SWARM, swarm)];
    nemeses.extend(fencepost_nemesis::registry().iter().map(|it| row(it.name(), it.description().about)));
    let servers = RELEASES.iter().map(|release| server(release)).collect();
    let guards = fencepost_storage::guards().iter().map(|it| row(it.name, it.about)).collect();
    let checkers = fencepost_checker::registry().iter().map(|it| row(it.name, it.about)).collect();
    let kinds = LockKind::ALL.map(|kind| row(kind.name(), kind.about())).to_vec();
    vec![
        ("locks", locks),
        ("kinds", kinds),
        ("servers", servers),
        ("workloads", workloads),
        ("nemeses", nemeses),
        ("guards", guards),
        ("checkers", checkers),
    ]
}

/// `fencepost list [WHAT…] [FOLDER…]`.
pub fn list(words: &[String]) -> Result<i32> {
    let mut sections = sections(fencepost_locks::registry());
    let names: Vec<&str> = sections.iter().map(|(name, _)| *name).collect();
    let words = words.iter().filter(|word| *word != "all").map(|word| name_here(word));
    let (what, locks): (Vec<&str>, Vec<&str>) = words.partition(|word| names.contains(word));
    match &locks[..] {
        [] => {}
        [wrong, ..] if what.is_empty() && !folder::is_folder(wrong) => {
            return Err(BadUsage::new(unknown("list of", wrong, &names)).into());
        }
        locks => {
            let locks: Vec<_> = locks.iter().map(|lock| find_lock(lock)).collect::<Result<_, _>>()?;
            sections = self::sections(&locks);
        }
    }
    let width = sections.iter().flat_map(|(_, rows)| rows).map(|(name, _)| name.len()).max().unwrap_or(0);
    let shown = sections.iter().filter(|(name, _)| what.is_empty() || what.contains(name));
    let blocks: Vec<String> = shown
        .map(|(name, rows)| {
            let indent = format!("\n  {:width$}  ", "");
            let rows: String = rows
                .iter()
                .map(|(name, lines)| format!("  {name:width$}  {}\n", lines.join(&indent)))
                .collect();
            format!("{name}\n{rows}")
        })
        .collect();
    say!("{}", blocks.join("\n").trim_end());
    Ok(0)
}

/// What a list is called here: locks are often called backends.
fn name_here(list: &str) -> &str {
    match list {
        "backends" => "locks",
        "faults" => "nemeses",
        list => list,
    }
}
