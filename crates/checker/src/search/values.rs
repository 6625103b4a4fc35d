//! What the search knows from effects that speak of values, where every operation of the history has one. An
//! operation *needs* the value that it reads or swaps away, and *gives* the one that it writes or swaps in.
//!
//!
//! - *Lost.* If the value is about to be overwritten while somebody still needs it, and no write can give it
//!   again, the configuration leads nowhere.
//! - *Closed.* A value is closed when all that need it were invoked, and are reads, and no operation is open
//!   or to come that wants just another value ([`Effect::Differs`]). An open write of a closed value can then
//!   take effect, with all its reads, right before any other write: no read sees it. It is of no use later
//!   either, since no read needs the value any more. So this is always done.
//! - *Worth.* Any other write takes effect early only if something that is open needs its value at once, or
//!   if it is not closed and can be spared; an indeterminate write only if something open needs it.

use super::bits::Bits;
use crate::model::{Effect, History, Model};

pub(super) struct Needs {
    /// Whether all effects speak of values; else nothing here is used.
    pub active: bool,
    /// Certain operations that need the value and were not invoked yet.
    needs_to_come: Vec<u32>,
    /// Operations that give the value and were not invoked yet.
    gives_to_come: Vec<u32>,
    /// Swaps that need the value, open or to come. An indeterminate one stays open.
    swaps: Vec<u32>,
    /// Operations that want another value than some, open or to come.
    differs: u32,
}

/// The open operations of a configuration that have not taken effect, with the effects of all slots.
#[derive(Clone, Copy)]
pub(super) struct Left<'a, const W: usize> {
    pub slots: Bits<W>,
    pub effects: &'a [Effect],
}

impl<const W: usize> Left<'_, W> {
    fn effects(&self) -> impl Iterator<Item = Effect> {
        self.slots.iter().map(|slot| self.effects[slot])
    }
}

pub(super) fn needs(effect: Effect, value: u32) -> bool {
    matches!(effect, Effect::Read(needed) | Effect::Swap(needed, _) if needed == value)
}

fn gives(effect: Effect, value: u32) -> bool {
    matches!(effect, Effect::Write(given) | Effect::Swap(_, given) if given == value)
}

impl Needs {
    pub fn new<M: Model>(model: &M, history: &History<M>) -> Needs {
        let effects = || {
            let effect = |operation: &crate::operations::Operation<M::Op, M::Ret>| {
                (model.effect(&operation.op, operation.ret.as_ref()), operation.certain())
            };
            // An indeterminate operation without effect does not matter at all.
            history.list.iter().map(effect).filter(|(effect, certain)| *certain || !effect.is_pure())
        };
        let mut values =
            Needs { active: true, needs_to_come: vec![], gives_to_come: vec![], swaps: vec![], differs: 0 };
        let mut greatest = 0;
        for (effect, _) in effects() {
            match effect {
                Effect::Other | Effect::Pure => values.active = false,
                Effect::Read(value) | Effect::Write(value) | Effect::Differs(value) => {
                    greatest = greatest.max(value)
                }
                Effect::Swap(from, to) => greatest = greatest.max(from).max(to),
            }
        }
        values.active &= greatest as usize <= 4 * history.len() + 1024;
        if !values.active {
            return values;
        }
        let count = greatest as usize + 1;
        for counts in [&mut values.needs_to_come, &mut values.gives_to_come, &mut values.swaps] {
            counts.resize(count, 0);
        }
        for (effect, certain) in effects() {
            match effect {
                Effect::Read(value) => values.needs_to_come[value as usize] += 1,
                Effect::Write(value) => values.gives_to_come[value as usize] += 1,
                Effect::Differs(_) => values.differs += 1,
                Effect::Swap(from, to) => {
                    values.needs_to_come[from as usize] += u32::from(certain);
                    values.gives_to_come[to as usize] += 1;
                    values.swaps[from as usize] += 1;
                }
                Effect::Other | Effect::Pure => {}
            }
        }
        values
    }

    pub fn invoked(&mut self, effect: Effect, certain: bool) {
        if !self.active {
            return;
        }
        match effect {
            Effect::Read(value) => self.needs_to_come[value as usize] -= 1,
            Effect::Write(value) => self.gives_to_come[value as usize] -= 1,
            Effect::Swap(from, to) => {
                self.needs_to_come[from as usize] -= u32::from(certain);
                self.gives_to_come[to as usize] -= 1;
            }
            Effect::Differs(_) | Effect::Other | Effect::Pure => {}
        }
    }

    pub fn completed(&mut self, effect: Effect) {
        if !self.active {
            return;
        }
        match effect {
            Effect::Swap(from, _) => self.swaps[from as usize] -= 1,
            Effect::Differs(_) => self.differs -= 1,
            _ => {}
        }
    }

    /// Whether a write of the value can be hidden right before another write at no cost.
    pub fn closed(&self, value: u32) -> bool {
        self.needs_to_come[value as usize] == 0 && self.swaps[value as usize] == 0 && self.differs == 0
    }

    pub fn needed<const W: usize>(&self, value: u32, left: Left<W>) -> bool {
        self.needs_to_come[value as usize] > 0 || left.effects().any(|effect| needs(effect, value))
    }

    /// Whether an operation that is to come needs the value. Open reads take effect with the write.
    pub fn needed_later(&self, value: u32) -> bool {
        self.needs_to_come[value as usize] > 0
    }

    /// Whether the value can come again by a certain operation, or by an indeterminate one that is to come.
    pub fn comes_again<const W: usize>(&self, value: u32, left: Left<W>) -> bool {
        self.gives_to_come[value as usize] > 0 || left.effects().any(|effect| gives(effect, value))
    }

    /// Whether something open wants the value now: what completes, a swap, or what wants another than this.
    pub fn wanted_now<const W: usize>(&self, value: u32, completing: Effect, left: Left<W>) -> bool {
        needs(completing, value)
            || left.effects().any(|effect| match effect {
                Effect::Swap(from, _) => from == value,
                Effect::Differs(other) => other != value,
                _ => false,
            })
    }
}
