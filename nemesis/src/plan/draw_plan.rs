//! Draws plans: three of four faults are aimed at roles and moments, one is at nodes and a time of its own.

use crate::nemesis::{Draw, Drawing, Nemesis, NemesisSettings};
use crate::plan::Plan;
use crate::plan::aim::{PossibleAim, WhichAim, draw_aim};
use crate::plan::distributions::millis;
use crate::plan::planned_fault::PlannedFault;
use crate::plan::topology::Topology;
use crate::plan::trigger::Trigger;
use fencepost_history::{Seed, Stream, f};
use rand::RngExt;

/// Draws the plan of a run: each nemesis from a random stream of its own, so that adding one shifts no other.
///
/// Faults of one nemesis follow each other with a pause between half and one and a half times the interval;
/// those that end with an event are expected to end by then. The first comes early enough to fit, where any
/// can. Faults of different ones overlap freely, but for those that would undo each other: there the nemesis
/// that is named later gives way. Every fault is healed within `time_limit`.
pub fn draw(nemeses: &[&dyn Nemesis], topology: &Topology, settings: &NemesisSettings, seed: Seed) -> Plan {
    let mut faults: Vec<PlannedFault> = Vec::new();
    for nemesis in nemeses {
        faults.extend(draw_beside(&faults, *nemesis, topology, settings, seed));
    }
    faults.sort_by_key(|fault| fault.at_ms);
    Plan { faults, ..Plan::default() }
}

/// Draws the faults of one nemesis, without those that would undo, or be undone by, the others.
pub(crate) fn draw_beside(
    faults: &[PlannedFault],
    nemesis: &dyn Nemesis,
    topology: &Topology,
    settings: &NemesisSettings,
    seed: Seed,
) -> Vec<PlannedFault> {
    let mut more = draw_one(nemesis, topology, settings, seed);
    more.retain(|fault| !faults.iter().any(|other| fault.clashes_with(other).is_some()));
    more
}

/// When a fault that ends with an event mostly has ended, in TTLs.
const AWAITED_TTLS: f64 = 1.5;

fn draw_one(
    nemesis: &dyn Nemesis,
    topology: &Topology,
    settings: &NemesisSettings,
    seed: Seed,
) -> Vec<PlannedFault> {
    let mut random = seed.stream(&format!("nemesis-{}", nemesis.name()));
    let limit_ms = millis(settings.time_limit);
    let gap_ms = |random: &mut Stream| {
        let interval_ms = millis(settings.interval);
        random.random_range(interval_ms / 2..=interval_ms * 3 / 2).max(1)
    };
    let mut faults: Vec<PlannedFault> = Vec::new();
    let mut at_ms = gap_ms(&mut random);
    loop {
        let from = &mut Drawing { topology, settings, random: &mut random };
        let Some(fault) = draw_next(&faults, nemesis, from) else { break };
        let lasts_ms = match fault.until {
            Some(_) => fault.for_ms.min(millis(topology.ttl.mul_f64(AWAITED_TTLS))),
            None => fault.for_ms,
        };
        let Some(latest_ms) = limit_ms.checked_sub(lasts_ms) else { break };
        if faults.is_empty() {
            at_ms = at_ms.min(latest_ms);
        }
        if at_ms > latest_ms {
            break;
        }
        faults.push(PlannedFault { at_ms, for_ms: fault.for_ms.min(limit_ms - at_ms), ..fault });
        at_ms += lasts_ms + gap_ms(&mut random);
    }
    faults
}

/// Draws the fault that follows these. Two of four are at the first aim of the nemesis, so that each run,
/// however short, tries what most locks are broken by. The others are at a point of the recipe; where it has
/// none, one is at the other aims in turns, and one at any nodes and any time.
fn draw_next(faults: &[PlannedFault], nemesis: &dyn Nemesis, from: &mut Drawing<'_>) -> Option<PlannedFault> {
    let (place, topology) = (faults.len(), from.topology);
    let mut drawn = |which| {
        let drawn = draw_from(nemesis, which, from);
        drawn.filter(|fault| leaves_two(nemesis, faults, fault, topology))
    };
    let mut aimed = |which| drawn(Some(which));
    let first = WhichAim::InTurn(0);
    let other = WhichAim::InTurn(1 + place / 4);
    let fault = match place % 4 {
        0 | 2 => aimed(first),
        1 => aimed(WhichAim::AtPoint).or_else(|| aimed(other)).or_else(|| aimed(first)),
        _ => aimed(WhichAim::AtPoint),
    };
    fault.or_else(|| drawn(None))
}

/// Whether at least two clients go on after these faults: killed clients are not started again.
fn leaves_two(
    nemesis: &dyn Nemesis,
    faults: &[PlannedFault],
    next: &PlannedFault,
    topology: &Topology,
) -> bool {
    if !nemesis.description().ends_clients {
        return true;
    }
    let ends_client = |fault: &&PlannedFault| {
        let is_client =
            |name: &String| topology.candidates(name).iter().any(|node| topology.clients.contains(node));
        fault.on.iter().any(is_client)
    };
    let ended = faults.iter().chain([next]).filter(ends_client).count();
    ended == 0 || ended + 2 <= topology.clients.len()
}

/// Draws one fault, at time 0: at this aim, or at any nodes; none where there is no such aim, or no target.
pub fn draw_fault(
    nemesis: &dyn Nemesis,
    topology: &Topology,
    settings: &NemesisSettings,
    which: Option<WhichAim>,
    random: &mut Stream,
) -> Option<PlannedFault> {
    draw_from(nemesis, which, &mut Drawing { topology, settings, random })
}

fn draw_from(nemesis: &dyn Nemesis, which: Option<WhichAim>, from: &mut Drawing<'_>) -> Option<PlannedFault> {
    let Drawing { topology, settings, random } = from;
    let description = nemesis.description();
    let (drawn, then, until) = match which {
        None => {
            let then = description.awaits_holder.then(|| Trigger::of(f::ACQUIRE));
            (nemesis.draw(topology, settings, random)?, then, None)
        }
        Some(which) => {
            let aim = draw_aim(description.aims, which, &description.reachable(topology), random)?;
            let drawn = nemesis.draw_aimed(&aim, Drawing { topology, settings, random })?;
            (drawn, Some(aim.then), aim.until)
        }
    };
    let Draw { on, length, parameters } = drawn;
    let (fault, for_ms) = (nemesis.name().to_owned(), millis(length).max(1));
    Some(PlannedFault { at_ms: 0, for_ms, fault, on, when: None, then, until, parameters })
}

/// Whether a nemesis can be aimed, in this run, at clients between two steps of their recipe.
pub fn reaches_points(nemesis: &dyn Nemesis, topology: &Topology) -> bool {
    let description = nemesis.description();
    let topology = description.reachable(topology);
    description.aims.iter().any(|aim| aim.is_at_point() && aim.possible(&topology).is_some())
}

/// What a nemesis can be aimed at in this run.
pub fn aims(nemesis: &dyn Nemesis, topology: &Topology) -> Vec<PossibleAim> {
    let description = nemesis.description();
    let topology = description.reachable(topology);
    description.aims.iter().filter_map(|aim| aim.possible(&topology)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::topology::{RecipePoint, ServerFaults};
    use crate::registry::{find, registry};
    use crate::testing::{settings, topology};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn same_seed_same_plan_and_healing_always_within_the_limit(
            seed in 0..1_u64 << 53, servers in 0..7_usize, clients in 1..7_usize, limit_s in 1..60_u64,
        ) {
            let (topology, settings) = (topology(servers, clients), settings(limit_s));
            let plan = draw(registry(), &topology, &settings, Seed(seed));
            prop_assert_eq!(&plan, &draw(registry(), &topology, &settings, Seed(seed)));
            for fault in &plan.faults {
                prop_assert!(fault.at_ms + fault.for_ms <= limit_s * 1000);
                prop_assert!(!fault.on.is_empty());
                let nemesis = find(&fault.fault).expect("a registered nemesis");
                for name in &fault.on {
                    prop_assert_eq!(nemesis.description().check_target(name, &topology), Ok(()));
                }
                prop_assert!(nemesis.prepare(&fault.on, &fault.parameters).is_ok());
            }
            for nemesis in registry() {
                let own: Vec<_> = plan.faults.iter().filter(|fault| fault.fault == nemesis.name()).collect();
                let ends_ms = |fault: &PlannedFault| {
                    fault.at_ms + if fault.until.is_some() { fault.for_ms.min(3000) } else { fault.for_ms }
                };
                let apart = |pair: &[&PlannedFault]| ends_ms(pair[0]) <= pair[1].at_ms;
                prop_assert!(own.windows(2).all(apart), "faults of one nemesis overlap");
            }
        }
    }

    #[test]
    fn a_nemesis_more_shifts_no_other() {
        let (topology, settings) = (topology(5, 5), settings(60));
        let alone = draw(&[find("pause").unwrap()], &topology, &settings, Seed(7));
        let mut together = draw(registry(), &topology, &settings, Seed(7));
        together.faults.retain(|fault| fault.fault == "pause");
        assert_eq!(alone, together);
        assert!(alone.faults.len() > 5);
    }

    #[test]
    fn a_short_run_has_a_fault_where_one_fits() {
        for seed in 0..50 {
            let plan = draw(&[find("pause").unwrap()], &topology(1, 5), &settings(4), Seed(seed));
            assert_eq!(plan.faults.len(), 1, "{plan:?}");
            let PlannedFault { at_ms, for_ms, .. } = plan.faults[0];
            assert!((2400..=4000 - at_ms).contains(&for_ms), "{plan:?}");
            assert_eq!(draw(&[find("pause").unwrap()], &topology(1, 5), &settings(2), Seed(seed)).faults, []);
        }
    }

    fn is_aimed(fault: &PlannedFault) -> bool {
        !fault.roles().is_empty() && fault.then.is_some()
    }

    #[test]
    fn of_four_faults_three_are_aimed_and_wait_for_their_moment() {
        let led = Topology { has_leader: true, ..topology(3, 5) };
        for topology in [&topology(5, 5), &topology(1, 3), &led] {
            for (nemesis, seed) in
                registry().iter().flat_map(|nemesis| (0..20).map(move |seed| (nemesis, seed)))
            {
                let plan = draw(&[*nemesis], topology, &settings(40), Seed(seed));
                let aimed = plan.faults.iter().filter(|fault| is_aimed(fault)).count();
                assert!(
                    plan.faults.len() - aimed <= plan.faults.len() / 4,
                    "{}, seed {seed}: {aimed}",
                    nemesis.name()
                );
                assert!(plan.faults.is_empty() || is_aimed(&plan.faults[0]), "{}", nemesis.name());
            }
        }
    }

    #[test]
    fn a_point_of_the_recipe_is_aimed_at_in_every_run() {
        let point = |name: &str, is_acquiring| RecipePoint { name: name.to_owned(), is_acquiring };
        let points = vec![point("before-replies", true), point("between-get-and-del", false)];
        let topology = Topology { points, ..topology(5, 5) };
        for seed in 0..20 {
            let plan = draw(&[find("pause").unwrap()], &topology, &settings(30), Seed(seed));
            let at_point =
                plan.faults.iter().find(|fault| fault.then.as_ref().is_some_and(|then| then.f == f::AT));
            let fault = at_point.expect("one of the first two");
            let (point, role) =
                (fault.then.as_ref().and_then(|then| then.point.clone()), fault.on[0].as_str());
            let fits = [("before-replies", "waiter"), ("between-get-and-del", "holder")];
            assert!(fits.contains(&(point.as_deref().unwrap(), role)), "{fault:?}");
            assert_eq!(fault.until.as_ref().unwrap().f, f::READ);
            assert_eq!(Plan::parse(&plan.to_toml(), &topology), Ok(plan));
        }
    }

    #[test]
    fn two_clients_are_never_killed() {
        for clients in 1..6 {
            let plan = draw(&[find("kill").unwrap()], &topology(1, clients), &settings(60), Seed(7));
            let killed = plan.faults.iter().filter(|fault| fault.on == ["holder"]).count();
            assert_eq!(killed, clients.saturating_sub(2), "of {clients}");
        }
    }

    #[test]
    fn an_aim_that_no_node_can_be_is_not_drawn() {
        // One client cannot be stopped in favour of another, and without servers none has granted anything.
        let alone = Topology { storage: None, ..topology(0, 1) };
        for nemesis in registry() {
            assert_eq!(aims(*nemesis, &alone), [], "{}", nemesis.name());
        }
        let one = aims(find("power-loss").unwrap(), &topology(1, 3));
        assert_eq!(one[0].on, ["granting"]);
        let five = aims(find("power-loss").unwrap(), &topology(5, 3));
        assert_eq!(five[0].on, ["granting:3"]);
        assert!(aims(find("partition").unwrap(), &topology(5, 3)).iter().all(|aim| !aim.peers.is_empty()));
    }

    /// Every drawn fault must be one that a plan with the same servers may have.
    #[test]
    fn servers_that_exist_without_the_run_are_spared() {
        let settings = settings(60);
        for (server_faults, spared) in [(ServerFaults::Packets, true), (ServerFaults::ByHook, false)] {
            let topology = Topology { server_faults, ..topology(3, 5) };
            for nemesis in registry() {
                let description = nemesis.description();
                let plan = draw(&[*nemesis], &topology, &settings, Seed(7));
                let refused = description.check_servers(&topology);
                assert_eq!(plan.faults.is_empty(), refused.is_err(), "{}: {refused:?}", description.name);
                for name in plan.faults.iter().flat_map(|fault| &fault.on) {
                    assert_eq!(description.check_target(name, &topology), Ok(()), "{}", description.name);
                }
            }
            let pause = find("pause").unwrap().description();
            assert_eq!(pause.check_target("n1", &topology).is_err(), spared);
            let jump = find("clock-jump").unwrap().description().check_target("granting", &topology);
            assert!(jump.unwrap_err().sentence.contains("there remain partition, delay"));
        }
    }

    #[test]
    fn an_aimed_fault_lasts_long_enough_to_do_harm() {
        let (topology, settings) = (topology(5, 5), settings(60));
        let mut random = Seed(3).stream("aimed");
        let mut aimed = |name: &str| {
            let which = Some(WhichAim::Any);
            draw_fault(find(name).unwrap(), &topology, &settings, which, &mut random).expect("an aimed fault")
        };
        for _ in 0..100 {
            assert!((2400..=6000).contains(&aimed("pause").for_ms));
            assert!(aimed("power-loss").for_ms < 1000);
            let jump = aimed("clock-jump");
            let forward = jump.parameters["wall_ms"].as_i64().unwrap() >= 2200;
            // A client's clock may also go back, so that it trusts its lease for longer.
            assert!(forward || jump.on == ["holder"] || jump.on == ["waiter"], "{jump:?}");
            let delay = aimed("delay");
            let to_storage = delay.parameters["peers"].as_array().unwrap().contains(&"storage".into());
            assert!(!to_storage || delay.parameters["delay_ms"].as_f64().unwrap() > 2500.0);
        }
    }
}
