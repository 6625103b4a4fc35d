/// The name (`f`) of the event with which a phase begins; the value is the phase's name.
pub const PHASE: &str = "phase";

/// A phase of a run. Histories of other tools may have phases of other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunPhase {
    Main,
    /// Every fault that is still in force is healed.
    Heal,
    /// The processes go on without faults: the lock must be granted again.
    Liveness,
    /// The closing reads, after the processes have ended.
    Closing,
}

impl RunPhase {
    const ALL: [RunPhase; 4] = [RunPhase::Main, RunPhase::Heal, RunPhase::Liveness, RunPhase::Closing];

    pub fn name(self) -> &'static str {
        match self {
            RunPhase::Main => "main",
            RunPhase::Heal => "heal",
            RunPhase::Liveness => "liveness",
            RunPhase::Closing => "closing",
        }
    }

    /// The phase of this name; none where Fencepost has no such phase.
    pub fn named(name: &str) -> Option<RunPhase> {
        RunPhase::ALL.into_iter().find(|phase| phase.name() == name)
    }
}
