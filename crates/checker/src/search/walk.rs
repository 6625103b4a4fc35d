use super::bits::Bits;
use super::frontier::{Config, Frontier};
use super::outcome::{Exhausted, SearchOutcome, Stuck};
use super::trail::{START, Trail};
use super::used::{NOTHING, UsedSets};
use super::values::{Left, Needs, needs};
use crate::budget::Budget;
use crate::model::{Effect, History, Model};
use fencepost_history::sorted_once;
use rustc_hash::FxHashMap;

struct OperationClass<Op> {
    op: Op,
    effect: Effect,
    members: Vec<u32>,
}

#[derive(Clone, Copy)]
enum Action {
    Slot(usize),
    OperationClass(usize),
}

struct SearchWalk<'a, M: Model, const W: usize> {
    model: &'a M,
    history: &'a History<M>,
    operations: Vec<u32>,
    effects: Vec<Effect>,
    /// Equal open operations that must complete earlier.
    earlier_twins: Vec<Bits<W>>,
    free: Vec<usize>,
    open: Bits<W>,
    pure: Bits<W>,
    classes: Vec<OperationClass<M::Op>>,
    class_of: FxHashMap<M::Op, usize>,
    /// Classes by what makes them worth trying: writes of a value, swaps that take one away, and the rest.
    writes: FxHashMap<u32, usize>,
    swaps: FxHashMap<u32, Vec<usize>>,
    others: Vec<usize>,
    values: Needs,
    sets: UsedSets,
    trail: Trail,
    frontier: Frontier<M::State, W>,
    seen: Frontier<M::State, W>,
    next: Frontier<M::State, W>,
}

/// Walks a whole history. `W` times 64 is the greatest number of certain operations open at the same time.
pub(super) fn walk<M: Model, const W: usize>(
    model: &M,
    history: &History<M>,
    budget: &Budget,
) -> SearchOutcome<M::State> {
    let mut walk = SearchWalk::<M, W> {
        model,
        history,
        operations: vec![0; 64 * W],
        effects: vec![Effect::Other; 64 * W],
        earlier_twins: vec![Bits::EMPTY; 64 * W],
        free: (0..64 * W).rev().collect(),
        open: Bits::EMPTY,
        pure: Bits::EMPTY,
        classes: Vec::new(),
        class_of: FxHashMap::default(),
        writes: FxHashMap::default(),
        swaps: FxHashMap::default(),
        others: Vec::new(),
        values: Needs::new(model, history),
        sets: UsedSets::new(),
        trail: Trail::new(),
        frontier: Frontier::new(),
        seen: Frontier::new(),
        next: Frontier::new(),
    };
    let start = Config { state: model.start(), done: Bits::EMPTY, used: NOTHING, link: START };
    walk.frontier.insert(start, &walk.sets);
    let mut steps = 0_u32;
    for (place, &event) in history.order.iter().enumerate() {
        let at = event >> 1;
        if event & 1 == 0 {
            walk.invoke(at);
            continue;
        }
        let slot = walk.open.iter().find(|&slot| walk.operations[slot] == at).expect("it was invoked");
        let exhausted = |reason| Exhausted { reason, events_done: place, events: history.order.len() };
        match walk.complete(slot, budget, &mut steps) {
            Ok(true) => {}
            Ok(false) => return SearchOutcome::Stuck(walk.stuck(at)),
            Err(reason) => return SearchOutcome::Exhausted(exhausted(reason)),
        }
        if walk.trail.is_full() {
            walk.trail.collect(walk.frontier.list.iter_mut().map(|config| &mut config.link));
        }
    }
    SearchOutcome::Order(walk.trail.operations(walk.frontier.list[0].link))
}

impl<M: Model, const W: usize> SearchWalk<'_, M, W> {
    fn invoke(&mut self, at: u32) {
        let operation = &self.history.list[at as usize];
        let effect = self.model.effect(&operation.op, operation.ret.as_ref());
        if !operation.certain() {
            if !effect.is_pure() {
                self.values.invoked(effect, false);
                self.add_to_class(at, effect);
            }
            return;
        }
        self.values.invoked(effect, true);
        let slot = self.free.pop().expect("as many slots as are ever open");
        self.operations[slot] = at;
        self.effects[slot] = effect;
        self.earlier_twins[slot] = Bits::EMPTY;
        for other in self.open.iter() {
            let twin = &self.history.list[self.operations[other] as usize];
            if twin.op == operation.op && twin.ret == operation.ret {
                let (early, late) =
                    if twin.complete < operation.complete { (other, slot) } else { (slot, other) };
                self.earlier_twins[late].insert(early);
            }
        }
        self.open.insert(slot);
        if effect.is_pure() {
            self.pure.insert(slot);
            for config in &mut self.frontier.list {
                if self.model.step(&config.state, &operation.op, operation.ret.as_ref()).is_some() {
                    config.done.insert(slot);
                    config.link = self.trail.push(config.link, at);
                }
            }
        }
    }

    fn add_to_class(&mut self, at: u32, effect: Effect) {
        let op = &self.history.list[at as usize].op;
        if let Some(&class) = self.class_of.get(op) {
            self.classes[class].members.push(at);
            return;
        }
        let class = self.classes.len();
        self.class_of.insert(op.clone(), class);
        self.classes.push(OperationClass { op: op.clone(), effect, members: vec![at] });
        match effect {
            Effect::Write(value) if self.values.active => drop(self.writes.insert(value, class)),
            Effect::Swap(from, _) if self.values.active => self.swaps.entry(from).or_default().push(class),
            _ => self.others.push(class),
        }
    }

    /// Lets the slot's operation take effect in every configuration. False: impossible. Error: out of budget.
    fn complete(&mut self, slot: usize, budget: &Budget, steps: &mut u32) -> Result<bool, &'static str> {
        self.next.clear();
        self.seen.clear();
        let mut work = Vec::new();
        for mut config in self.frontier.list.drain(..) {
            if config.done.has(slot) {
                config.done.remove(slot);
                self.next.insert(config, &self.sets);
            } else {
                work.extend(self.seen.insert(config, &self.sets));
            }
        }
        self.frontier.clear();
        let mut at = 0;
        while at < work.len() {
            let config = self.seen.list[work[at]].clone();
            at += 1;
            for action in self.actions(&config, slot) {
                *steps = steps.wrapping_add(1);
                if *steps & 0xff == 0 {
                    self.check(budget)?;
                }
                let Some(mut after) = self.apply(&config, action) else { continue };
                if after.done.has(slot) {
                    after.done.remove(slot);
                    self.next.insert(after, &self.sets);
                } else {
                    work.extend(self.seen.insert(after, &self.sets));
                }
            }
        }
        if self.next.list.is_empty() {
            return Ok(false);
        }
        std::mem::swap(&mut self.frontier, &mut self.next);
        self.values.completed(self.effects[slot]);
        self.open.remove(slot);
        self.pure.remove(slot);
        self.free.push(slot);
        for other in self.open.iter() {
            self.earlier_twins[other].remove(slot);
        }
        Ok(true)
    }

    fn check(&self, budget: &Budget) -> Result<(), &'static str> {
        let configs = self.frontier.bytes() + self.seen.bytes() + self.next.bytes();
        if configs + self.trail.bytes() + self.sets.bytes() > budget.memory_bytes {
            return Err("the memory is used up");
        }
        if budget.is_over() { Err("the time is over") } else { Ok(()) }
    }

    fn left(&self, config: &Config<M::State, W>) -> Bits<W> {
        self.open.minus(&config.done)
    }

    /// What may usefully take effect next, on the way to the operation that completes.
    fn actions(&self, config: &Config<M::State, W>, completing: usize) -> Vec<Action> {
        let left = self.left(config);
        let mut actions = Vec::new();
        for slot in left.minus(&self.pure).iter() {
            // Equal operations in order of deadline. What completes now is the earliest of its kind.
            let early = left.minus(&left.minus(&self.earlier_twins[slot]));
            if slot == completing || early.is_empty() && self.worth(slot, completing, left) {
                actions.push(Action::Slot(slot));
            }
        }
        let mut consider = |class: usize| {
            let has_more =
                self.sets.count(config.used, class as u32) < self.classes[class].members.len() as u32;
            if has_more && !self.certain_instead(config, left, class) {
                actions.push(Action::OperationClass(class));
            }
        };
        self.others.iter().copied().for_each(&mut consider);
        if self.values.active && !self.classes.is_empty() {
            let mut wanted: Vec<usize> = Vec::new();
            for slot in left.iter() {
                match self.effects[slot] {
                    Effect::Read(value) | Effect::Swap(value, _) => wanted.extend(self.writes.get(&value)),
                    Effect::Differs(_) => wanted.extend(self.writes.values()),
                    Effect::Other | Effect::Pure | Effect::Write(_) => {}
                }
            }
            // An indeterminate swap may be what makes an indeterminate write worth it.
            wanted.extend(self.swaps.keys().filter_map(|from| self.writes.get(from)));
            if let Some(swaps) = self.model.value(&config.state).and_then(|value| self.swaps.get(&value)) {
                wanted.extend(swaps);
            }
            sorted_once(wanted).into_iter().for_each(&mut consider);
        }
        actions
    }

    /// Whether an open write is worth to take effect before what completes; see [`super::values`].
    fn worth(&self, slot: usize, completing: usize, left: Bits<W>) -> bool {
        let Effect::Write(value) = self.effects[slot] else { return true };
        if !self.values.active {
            return true;
        }
        let mut others = left;
        others.remove(slot);
        let others = Left { slots: others, effects: &self.effects };
        self.values.wanted_now(value, self.effects[completing], others)
            || self.swaps.contains_key(&value)
            || !self.values.closed(value)
                && (!self.values.needed_later(value) || self.comes_again(value, others))
    }

    /// Whether a value can come again, as far as can be said without counting what was used.
    fn comes_again(&self, value: u32, left: Left<W>) -> bool {
        let swaps_in =
            |class: &usize| matches!(self.classes[*class].effect, Effect::Swap(_, to) if to == value);
        self.values.comes_again(value, left)
            || self.writes.contains_key(&value)
            || self.swaps.values().flatten().any(swaps_in)
    }

    /// Whether an equal operation that is certain could take effect as well.
    fn certain_instead(&self, config: &Config<M::State, W>, left: Bits<W>, class: usize) -> bool {
        left.minus(&self.pure).iter().any(|slot| {
            let operation = &self.history.list[self.operations[slot] as usize];
            operation.op == self.classes[class].op
                && self.model.step(&config.state, &operation.op, operation.ret.as_ref()).is_some()
        })
    }

    /// The configuration after something took effect, with all that follows. None if it leads nowhere.
    fn apply(&mut self, config: &Config<M::State, W>, action: Action) -> Option<Config<M::State, W>> {
        let history = self.history;
        let (at, effect, state) = match action {
            Action::Slot(slot) => {
                let at = self.operations[slot];
                let operation = &history.list[at as usize];
                let state = self.model.step(&config.state, &operation.op, operation.ret.as_ref())?;
                (at, self.effects[slot], state)
            }
            Action::OperationClass(class) => {
                let class_of = &self.classes[class];
                let state = self
                    .model
                    .step(&config.state, &class_of.op, None)
                    .filter(|state| *state != config.state)?;
                let used = self.sets.count(config.used, class as u32);
                (class_of.members[used as usize], class_of.effect, state)
            }
        };
        let mut after = config.clone();
        if let Action::Slot(slot) = action {
            after.done.insert(slot);
        }
        if self.values.active {
            if matches!(effect, Effect::Write(_)) {
                self.hide(&mut after);
            }
            self.keeps_what_is_needed(config, &state, &after).then_some(())?;
        }
        if let Action::OperationClass(class) = action {
            after.used = self.sets.add(after.used, class as u32);
        }
        after.state = state;
        after.link = self.trail.push(after.link, at);
        self.apply_pure(&mut after).then_some(after)
    }

    /// Every open write of a closed value takes effect, with its reads.
    fn hide(&mut self, config: &mut Config<M::State, W>) {
        for slot in self.left(config).minus(&self.pure).iter() {
            let Effect::Write(value) = self.effects[slot] else { continue };
            if !self.values.closed(value) {
                continue;
            }
            config.done.insert(slot);
            config.link = self.trail.push(config.link, self.operations[slot]);
            for read in self.left(config).iter().filter(|&read| needs(self.effects[read], value)) {
                config.done.insert(read);
                config.link = self.trail.push(config.link, self.operations[read]);
            }
        }
    }

    /// Whether the value that the state had is not needed any more, or can come again.
    fn keeps_what_is_needed(
        &self,
        before: &Config<M::State, W>,
        state: &M::State,
        after: &Config<M::State, W>,
    ) -> bool {
        let Some(value) = self.model.value(&before.state) else { return true };
        if self.model.value(state) == Some(value) {
            return true;
        }
        let left = Left { slots: self.left(after), effects: &self.effects };
        !self.values.needed(value, left) || self.comes_again(value, left)
    }

    /// What has no effect takes effect where it can. False if something open never can any more.
    fn apply_pure(&mut self, config: &mut Config<M::State, W>) -> bool {
        for slot in self.left(config).iter() {
            let at = self.operations[slot];
            let operation = &self.history.list[at as usize];
            if self.pure.has(slot)
                && self.model.step(&config.state, &operation.op, operation.ret.as_ref()).is_some()
            {
                config.done.insert(slot);
                config.link = self.trail.push(config.link, at);
            } else if self.model.doomed(&config.state, &operation.op, operation.ret.as_ref()) {
                return false;
            }
        }
        true
    }

    fn stuck(&self, at: u32) -> Stuck<M::State> {
        let chains = self.seen.list.iter().map(|config| (self.trail.operations(config.link), config));
        let (longest, config) =
            chains.max_by_key(|(chain, _)| chain.len()).expect("there was a configuration before");
        Stuck { at, longest, state: config.state.clone() }
    }
}
