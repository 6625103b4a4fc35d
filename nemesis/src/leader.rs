//! Faults that are aimed at whoever leads at the moment of the strike.

use crate::{Scene, subset};
use fencepost_history::Stream;

/// In place of a server's name in a plan: whoever leads when the strike comes, as the servers say. Any fault can be
/// aimed so.
pub const LEADER: &str = "leader";

/// The leader; where each server stands for itself, as in Redlock, one that is drawn: it is its own leader.
pub(crate) fn draw_leader(scene: &Scene, random: &mut Stream) -> Option<Vec<String>> {
    let drawn = subset(&scene.servers, 1, random);
    match scene.has_leader {
        true => Some(vec![LEADER.to_owned()]),
        false => (!drawn.is_empty()).then_some(drawn),
    }
}
