//! `fencepost clean`: removes what killed runs left.

use crate::exit::FAILED;
use crate::output::{complain, say};
use anyhow::Result;

/// Exit code 0, or 255 where something could not be removed.
pub async fn clean() -> Result<i32> {
    let cleaned = fencepost_cluster::clean_up().await;
    let lines = cleaned.lines();
    if lines.is_empty() && cleaned.failures.is_empty() {
        say!("nothing was left");
    }
    for line in &lines {
        say!("{line}");
    }
    if let Some(reason) = &cleaned.engine_skipped {
        say!("not searched: {reason}");
    }
    for failure in &cleaned.failures {
        complain!("fencepost: {failure}");
    }
    Ok(if cleaned.failures.is_empty() { 0 } else { FAILED })
}
