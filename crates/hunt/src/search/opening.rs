use super::held::HeldPlay;
use super::peace::PeacePlay;
use crate::AnyNemesis;
use fencepost_nemesis::WhichAim;

#[derive(Clone, Copy)]
pub(super) enum Opening {
    /// No fault, for so long that it can be judged who gets the lock, and how soon.
    Peace(PeacePlay),
    Fault(AnyNemesis, Option<WhichAim>),
    Held(HeldPlay),
}
