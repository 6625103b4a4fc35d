//! Schedules about renewals: a holder keeps its lock for several TTLs and does not look at its validity, and
//! the connection breaks over which the lock is prolonged. A client that looks at the validity stops by
//! itself when a renewal did not come, and so hides a renewal that died. A library promises that it prolongs
//! the lock again, or reports it as lost.

use super::space::{Space, is_of_holder};
use crate::schedule::Schedule;
use fencepost_engine::RunOptions;
use fencepost_history::{Stream, TimeSpan, f};
use fencepost_nemesis::{Nemesis, Plan, PossibleAim, Role, Trigger, WhichAim, aims};
use rand::RngExt;

const HOLD_TTLS: u32 = 4;
const LIMIT_TTLS: u32 = 8;

/// How long the connection is broken: most libraries prolong a lock every third of its TTL, and try again.
const BROKEN_TTLS: (f64, f64) = (0.5, 1.2);

/// What breaks a connection: the end of its server, silence of the server or of the network, and a reset.
const BREAKERS: [&str; 4] = ["kill", "pause", "partition", "reset"];

impl Space {
    pub(super) fn breaks_renewals(&self) -> Vec<(&'static dyn Nemesis, WhichAim)> {
        let named = |name: &&str| self.nemeses.iter().copied().find(|nemesis| nemesis.name() == *name);
        let aimed = |nemesis: &'static dyn Nemesis| {
            // Those at points of a recipe take no turns.
            let in_turn = aims(nemesis, &self.topology).into_iter().filter(|aim| !is_at_point(aim));
            let place = in_turn.into_iter().position(|aim| breaks(&aim, self.topology.storage.as_deref()))?;
            Some((nemesis, WhichAim::InTurn(place)))
        };
        BREAKERS.iter().filter_map(named).filter_map(aimed).collect()
    }

    /// The same options, with a holder that holds for several TTLs whatever becomes of its lock.
    pub(super) fn held_for_long(&self, options: RunOptions) -> RunOptions {
        let ttl = options.ttl.0;
        RunOptions {
            careful: options.careful && !self.drawn.careful,
            hold: if self.drawn.hold { Some(TimeSpan(ttl * HOLD_TTLS)) } else { options.hold },
            time_limit: if self.drawn.time_limit { TimeSpan(ttl * LIMIT_TTLS) } else { options.time_limit },
            ..options
        }
    }

    /// A schedule in which a fault of this nemesis breaks the connection over which the lock is prolonged.
    pub(super) fn breaking_a_renewal(
        &self,
        nemesis: &'static dyn Nemesis,
        aim: WhichAim,
        random: &mut Stream,
    ) -> Option<Schedule> {
        let options = self.held_for_long(self.options(random));
        let mut fault = self.fault(nemesis, Some(aim), &options, random)?;
        let (shortest, longest) = BROKEN_TTLS;
        let length = options.ttl.0.mul_f64(random.random_range(shortest..=longest));
        fault.for_ms = TimeSpan(length).millis().max(1);
        // At the first grant, so that most of the hold comes after the lease that was prolonged last.
        (fault.at_ms, fault.then) = (0, Some(Trigger::of(f::ACQUIRE)));
        fault.until = None;
        let mut schedule = Schedule::new(options, Plan { faults: vec![fault], ..Plan::default() });
        self.put_in_order(&mut schedule).then_some(schedule)
    }
}

fn is_at_point(aim: &PossibleAim) -> bool {
    aim.moments.iter().any(|moment| moment.point.is_some())
}

/// Whether a fault with this aim breaks what a holder has open to its servers, and spares the storage.
fn breaks(aim: &PossibleAim, storage: Option<&str>) -> bool {
    let is_of_servers = |target: &String| {
        [Role::Granting.name(), Role::Leader.name()].iter().any(|role| target.starts_with(role))
    };
    let spares_storage = aim.peers.iter().all(|peer| Some(peer.as_str()) != storage);
    is_of_holder(aim) && !aim.peers.is_empty() && spares_storage || aim.on.iter().all(is_of_servers)
}
