//! A run's history in the formats of other tools.

mod csv;
mod edn;
mod fields;

use anyhow::Result;
pub use fields::EventSource;
use std::io::Write;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum Format {
    Edn,
    Csv,
}

pub fn write(format: Format, events: EventSource, out: &mut dyn Write) -> Result<()> {
    match format {
        Format::Edn => edn::write(events, out)?,
        Format::Csv => csv::write(events, out)?,
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod testing {
    use super::*;

    /// A run as it is, and values that are hard to quote.
    pub fn lines() -> String {
        let nasty = r#"{"index":9000,"time":9223372036854775807,"process":7,"type":"fail","f":"write","key":"a \"b\", c\\","value":[1.5,-3,true,null,{"x y":"two\nlines, \"quoted\" \\ ü","ok?":{"n-1":[]}}],"error":"timeout: no answer, \"yet\""}
{"index":9001,"time":1,"process":8,"type":"info","f":"two words","value":"\t;#_ :k {"}
"#;
        let run = include_str!("../fixtures/redlock-clock-jump.jsonl");
        format!("{}\n{nasty}", run.trim_end())
    }

    pub fn exported(format: Format) -> Vec<u8> {
        let lines = lines();
        let mut events = lines.lines().map(|line| Ok(serde_json::from_str(line)?));
        let mut out = Vec::new();
        write(format, &mut events, &mut out).unwrap();
        out
    }
}
