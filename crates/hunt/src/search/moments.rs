use fencepost_history::{Kind, Stream, f};
use fencepost_nemesis::Trigger;
use rand::RngExt;

/// Moments that a fault can wait for: right after a grant, while a grant is being collected, after the holder
/// has read what it will write back, as it writes, and as it begins to release.
fn moments() -> [(&'static str, Kind); 5] {
    [
        (f::ACQUIRE, Kind::Ok),
        (f::ACQUIRE, Kind::Invoke),
        (f::READ, Kind::Ok),
        (f::WRITE, Kind::Invoke),
        (f::RELEASE, Kind::Invoke),
    ]
}

/// Draws one of them. Every second is a grant: no other moment matters to as many faults.
pub(super) fn draw_moment(random: &mut Stream) -> Trigger {
    let moments = moments();
    let at = if random.random_bool(0.4) { 0 } else { random.random_range(0..moments.len()) };
    let (name, kind) = moments[at];
    Trigger::of(name).with_kind(kind)
}
