use crate::AnyNemesis;
use crate::schedule::Schedule;
use crate::search::{DrawnOptions, Space};
use fencepost_cluster::Capability;
use fencepost_engine::{BadUsage, RunOptions};
use fencepost_history::Seed;
use fencepost_nemesis::registry;

/// A nemesis that cannot be tried, and why.
pub struct NotApplicable {
    pub nemesis: &'static str,
    pub why: String,
}

/// Splits nemeses into those that these options and this driver allow, and the others. Errors: bad options.
pub fn fitting(
    options: &RunOptions,
    drawn: DrawnOptions,
    nemeses: Vec<AnyNemesis>,
    offered: &[Capability],
) -> Result<(Vec<AnyNemesis>, Vec<NotApplicable>), BadUsage> {
    let space = Space::new(options.clone(), drawn, nemeses.clone())?;
    let (mut fit, mut not_applicable) = (Vec::new(), Vec::new());
    for nemesis in nemeses {
        match why_not_applicable(nemesis, &space, offered) {
            None => fit.push(nemesis),
            Some(why) => not_applicable.push(NotApplicable { nemesis: nemesis.name(), why }),
        }
    }
    Ok((fit, not_applicable))
}

pub fn every_nemesis() -> Vec<AnyNemesis> {
    registry().to_vec()
}

fn why_not_applicable(nemesis: AnyNemesis, space: &Space, offered: &[Capability]) -> Option<String> {
    if let Some(unmet) = nemesis.description().unmet(offered) {
        return Some(format!("it needs {unmet}, which the driver does not offer on this machine"));
    }
    // A draw may fail by chance, where its fault would not fit into the schedule that was drawn for it.
    let mut random = Seed(0).stream(nemesis.name());
    let drawn: Vec<Schedule> = (0..16).filter_map(|_| space.fresh(nemesis, None, &mut random)).collect();
    if drawn.is_empty() {
        return Some("it finds no target in this setup".to_owned());
    }
    let refused: Option<Vec<BadUsage>> = drawn.iter().map(|schedule| schedule.spec().err()).collect();
    refused.map(|reasons| reasons.into_iter().next().map_or(String::new(), |reason| reason.sentence))
}
