//! A hunt as Markdown, for a pull request or a chat.

use super::file::HuntFile;
use super::page::{facts, time};
use std::fmt::Write;

/// The whole text.
pub fn markdown(hunt: &HuntFile) -> String {
    let mut text = format!("# Hunt: {}\n\n**{}.** {}", hunt.lock, hunt.summary(), hunt.coverage());
    let _ = write!(text, ", in {}.", time(hunt.spent_ms));
    if let Some(miss) = &hunt.nearest_miss {
        let _ = write!(text, " Nearest miss: {:.0} ms ({}).", miss.ms, miss.sentence);
    }
    text += "\n";
    for (number, finding) in (1..).zip(&hunt.findings) {
        let _ = write!(text, "\n## {number}. {}\n\n{}\n\n", finding.signature, finding.sentence);
        let _ = writeln!(text, "{} · {}", finding.state.words(), facts(finding));
        if let Some(command) = &finding.command {
            let _ = write!(text, "\n    {command}\n");
        }
    }
    text +=
        "\n## Situations covered\n\n| fault | target | phase | times | nearest |\n|---|---|---|---:|---:|\n";
    for situation in hunt.situations.values().filter(|situation| situation.times > 0) {
        let nearest = situation.nearest_ms.map_or(String::new(), |ms| format!("{ms:.0} ms"));
        let [fault, role, phase] = [&situation.fault, &situation.role, &situation.phase];
        let _ = writeln!(text, "| {fault} | {role} | {phase} | {} | {nearest} |", situation.times);
    }
    for remark in &hunt.remarks {
        let _ = write!(text, "\n- {remark}");
    }
    let _ = write!(text, "\nTo repeat this hunt:\n\n    {}\n", hunt.command);
    text
}
