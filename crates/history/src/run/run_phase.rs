/// The name (`f`) of the event with which a phase begins; the value is the phase's name.
pub const PHASE: &str = "phase";

worded! {
    /// A phase of a run. Histories of other tools may have phases of other names.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum RunPhase {
        Main = "main",
        /// Every fault that is still in force is healed.
        Heal = "heal",
        /// The processes go on without faults: the lock must be granted again.
        Liveness = "liveness",
        /// The closing reads, after the processes have ended.
        Closing = "closing",
    }
    pub fn name;
}

impl RunPhase {
    /// The phase of this name; none where Fencepost has no such phase.
    pub fn named(name: &str) -> Option<RunPhase> {
        RunPhase::ALL.into_iter().find(|phase| phase.name() == name)
    }
}
