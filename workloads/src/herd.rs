//! `herd`: every process waits for the lock all the time. What a release costs, and whether it is fair.
//! Source: the ZooKeeper recipes, "Locks", on the herd effect: a release wakes every waiter that watches the
//! lock. Each acquire says `"queue": true`, so clients report wake-ups; the report shows wake-ups a release,
//! and how many grants overtook an earlier process.

use crate::length::{Length, SectionPlan};
use crate::section::{Do, Sections, Work};
use crate::workload::{Script, Settings, Workload};
use fencepost_history::{AcquireArguments, Stream};
use std::time::Duration;

pub(crate) const HERD: Workload = Workload {
    uses_storage: false,
    fits: |_| true,
    ..Workload::new(
        "herd",
        "acquire, hold, release, and come back at once; measures wake-ups per release, and grants out of the order of arrival",
        script,
    )
};

fn script(settings: &Settings, _process: u64, random: Stream) -> Box<dyn Script> {
    // What waiting costs is measured: sections of one length, and a short one, make many releases.
    let length = match settings.length {
        Length::Drawn(drawn) => Length::Fixed(drawn.ttl / 20),
        given => given,
    };
    let settings = Settings { pause: Duration::ZERO, length, ..settings.clone() };
    let begin = |plan: SectionPlan| -> Work {
        Box::new(move |step, _| (step == 0).then_some(Do::Until(plan.length)))
    };
    Box::new(
        Sections::new(&settings, random, begin)
            .requesting(AcquireArguments { queue: Some(true), ..AcquireArguments::default() }.into()),
    )
}
