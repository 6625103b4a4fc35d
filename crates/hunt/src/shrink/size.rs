use crate::schedule::Schedule;
use fencepost_report::findings::Size;

/// The size of a schedule; the servers are none where it cannot be played.
pub fn size_of(schedule: &Schedule) -> Size {
    let options = &schedule.options;
    Size {
        faults: schedule.plan.faults.len(),
        clients: options.clients,
        processes: options.concurrency,
        keys: options.keys,
        servers: schedule.spec().map_or(0, |spec| spec.topology.servers.len()),
        time_limit: options.time_limit,
    }
}
