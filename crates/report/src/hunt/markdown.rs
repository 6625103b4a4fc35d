//! A hunt as Markdown, for a pull request or a chat.

use super::file::HuntFile;
use super::page::{facts, time};
use super::worth::HuntWorth;
use crate::markdown::{escaped, line};
use std::fmt::Write;

/// The whole text.
pub fn markdown(hunt: &HuntFile) -> String {
    let mut text = format!(
        "# Hunt: {}\n\n**{}.** Hunted for {}. {}\n",
        escaped(&hunt.lock),
        escaped(&hunt.summary()),
        time(hunt.spent_ms),
        escaped(&hunt.coverage())
    );
    for missing in &hunt.missing {
        let _ = write!(text, "\n**Incomplete:** {}.\n", escaped(missing));
    }
    for (number, group) in (1..).zip(hunt.groups()) {
        let finding = group.example;
        let signature = escaped(&finding.signature.to_string());
        let _ = write!(text, "\n## {number}. {signature}\n\n{}\n\n", escaped(&finding.sentence));
        let _ = writeln!(text, "{} · {}", finding.state.words(), escaped(&facts(finding)));
        if let Some(also) = group.also_under() {
            let _ = write!(text, "\n{}.\n", escaped(&also));
        }
        if let Some(command) = &finding.command {
            let _ = write!(text, "\n    {}\n", line(command));
        }
    }
    for line in [hunt.of_servers(), hunt.undecided()].into_iter().flatten() {
        let _ = write!(text, "\n{}.\n", escaped(&line));
    }
    for finding in hunt.undecided_findings() {
        let what = escaped(&finding.signature.to_string());
        let _ = write!(text, "\n- {what}: {}", escaped(&finding.sentence));
        if let Some(command) = &finding.command {
            let _ = write!(text, "\n\n      {}\n", line(command));
        }
    }
    if let HuntWorth::TooLittle(why) = hunt.worth() {
        let _ = write!(text, "\n**This hunt says nothing of the lock:** {}.\n", escaped(&why));
    }
    if hunt.covered() > 0 {
        text += "\n## Situations covered\n\n| fault | target | phase | times | nearest |\n|---|---|---|---:|---:|\n";
    }
    for situation in hunt.situations.values().filter(|situation| situation.times > 0) {
        let nearest = situation.nearest_ms.map_or(String::new(), |ms| format!("{ms:.0} ms"));
        let [fault, role, phase] =
            [&situation.fault, &situation.role, &situation.phase].map(|name| escaped(name));
        let _ = writeln!(text, "| {fault} | {role} | {phase} | {} | {nearest} |", situation.times);
    }
    for remark in &hunt.remarks {
        let _ = write!(text, "\n- {}", escaped(remark));
    }
    let _ = write!(text, "\nTo repeat this hunt:\n\n    {}\n", line(&hunt.command));
    text
}
