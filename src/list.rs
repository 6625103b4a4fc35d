//! The commands that only tell: `list`, `doctor`, `images`.

use crate::cli::ImagesCommand;
use crate::spec::{BadUsage, unknown};
use anyhow::Result;

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
            let rows: String = rows.iter().map(|(name, about)| format!("  {name:width$}  {about}\n")).collect();
            format!("{name}\n{rows}")
        })
        .collect();
    print!("{}", blocks.join("\n"));
    Ok(0)
}
