use super::held::HeldPlay;
use super::peace::PeacePlay;
use fencepost_nemesis::{Nemesis, WhichAim};

#[derive(Clone, Copy)]
pub(super) enum Opening {
    /// No fault, for so long that it can be judged who gets the lock, and how soon.
    Peace(PeacePlay),
    Fault(&'static dyn Nemesis, Option<WhichAim>),
    Held(HeldPlay),
}
