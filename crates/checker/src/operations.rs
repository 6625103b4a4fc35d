//! A history as the algorithms want it: operations in order of invocation, and the order of the events.

use crate::prose::seconds;

/// The completion of an operation that has none.
pub const NEVER: u32 = u32::MAX;

/// One operation. `invoke` and `complete` are places in [`Operations::order`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation<Op, Ret> {
    pub op: Op,
    /// None: it is unknown what it returned, or whether it happened.
    pub ret: Option<Ret>,
    pub invoke: u32,
    /// [`NEVER`] for an indeterminate operation, which may take effect at any later moment, or not at all.
    pub complete: u32,
}

impl<Op, Ret> Operation<Op, Ret> {
    /// Whether it happened for certain, and when it was over.
    pub fn certain(&self) -> bool {
        self.complete != NEVER
    }
}

/// Where an operation comes from, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Source {
    pub process: u64,
    pub invoke_index: u64,
    pub complete_index: u64,
    pub invoke_ns: u64,
    pub complete_ns: u64,
}

/// The operations of one object, without those that certainly did not happen.
#[derive(Clone, Debug)]
pub struct Operations<Op, Ret> {
    /// In order of invocation.
    pub list: Vec<Operation<Op, Ret>>,
    /// Each event as twice the operation's place in `list`, plus one if it is the completion.
    pub order: Vec<u32>,
    pub sources: Vec<Source>,
    /// Whether the times in `sources` are real; else events are only numbered.
    pub timed: bool,
}

impl<Op, Ret> Operations<Op, Ret> {
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn invoked(&self, at: u32) -> String {
        let source = &self.sources[at as usize];
        self.when(source.invoke_ns, source.invoke_index)
    }

    pub fn completed(&self, at: u32) -> String {
        let source = &self.sources[at as usize];
        if self.list[at as usize].certain() {
            self.when(source.complete_ns, source.complete_index)
        } else {
            "no known time".into()
        }
    }

    fn when(&self, ns: u64, index: u64) -> String {
        if self.timed { seconds(ns) } else { format!("event {index}") }
    }

    pub fn process(&self, at: u32) -> u64 {
        self.sources[at as usize].process
    }
}

impl<Op: Clone, Ret: Clone> Operations<Op, Ret> {
    /// The history that only these operations make, in the same order of events. `kept` must be ascending.
    pub fn only(&self, kept: &[u32]) -> Operations<Op, Ret> {
        let mut events: Vec<(u32, u32)> = Vec::with_capacity(2 * kept.len());
        for (new, &old) in kept.iter().enumerate() {
            let operation = &self.list[old as usize];
            events.push((operation.invoke, 2 * new as u32));
            if operation.certain() {
                events.push((operation.complete, 2 * new as u32 + 1));
            }
        }
        events.sort_unstable();
        let mut list: Vec<_> = kept.iter().map(|&old| self.list[old as usize].clone()).collect();
        let order: Vec<u32> = events.into_iter().map(|(_, event)| event).collect();
        place(&mut list, &order);
        let sources = kept.iter().map(|&old| self.sources[old as usize]).collect();
        Operations { list, order, sources, timed: self.timed }
    }
}

fn place<Op, Ret>(list: &mut [Operation<Op, Ret>], order: &[u32]) {
    for (place, &event) in order.iter().enumerate() {
        let operation = &mut list[(event >> 1) as usize];
        if event & 1 == 0 {
            operation.invoke = place as u32;
        } else {
            operation.complete = place as u32;
        }
    }
}

/// Builds [`Operations`] event by event.
#[derive(Debug)]
pub struct Builder<Op, Ret> {
    list: Vec<Operation<Op, Ret>>,
    order: Vec<u32>,
    sources: Vec<Source>,
    timed: bool,
    dropped: usize,
}

/// What an invocation returns, for its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenHandle(u32);

/// When an event was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub index: u64,
    pub time_ns: Option<u64>,
}

/// Marks, while a history is built, an operation that is to be left out.
const DROPPED: u32 = u32::MAX;

impl<Op, Ret> Default for Builder<Op, Ret> {
    fn default() -> Self {
        Builder { list: Vec::new(), order: Vec::new(), sources: Vec::new(), timed: false, dropped: 0 }
    }
}

impl<Op, Ret> Builder<Op, Ret> {
    pub fn new() -> Self {
        Builder::default()
    }

    /// An operation begins. Without a completion it is indeterminate.
    pub fn invoke(&mut self, process: u64, op: Op) -> OpenHandle {
        let index = self.order.len() as u64;
        self.invoke_at(process, op, Stamp { index, time_ns: None })
    }

    /// It happened, and returned this.
    pub fn complete(&mut self, handle: OpenHandle, ret: Ret) {
        let index = self.order.len() as u64;
        self.complete_at(handle, ret, Stamp { index, time_ns: None });
    }

    /// As [`invoke`](Builder::invoke), with its place and time in a file.
    pub fn invoke_at(&mut self, process: u64, op: Op, stamp: Stamp) -> OpenHandle {
        let at = u32::try_from(self.list.len()).ok().filter(|at| *at < 1 << 31);
        let at = at.expect("a history has less than 2^31 operations");
        self.timed |= stamp.time_ns.is_some();
        self.list.push(Operation { op, ret: None, invoke: self.order.len() as u32, complete: NEVER });
        let invoke_ns = stamp.time_ns.unwrap_or(0);
        self.sources.push(Source { process, invoke_index: stamp.index, invoke_ns, ..Source::default() });
        self.order.push(2 * at);
        OpenHandle(at)
    }

    /// As [`complete`](Builder::complete), with its place and time in a file.
    pub fn complete_at(&mut self, handle: OpenHandle, ret: Ret, stamp: Stamp) {
        let at = handle.0 as usize;
        self.list[at].ret = Some(ret);
        self.list[at].complete = self.order.len() as u32;
        self.sources[at].complete_index = stamp.index;
        self.sources[at].complete_ns = stamp.time_ns.unwrap_or(0);
        self.order.push(2 * handle.0 + 1);
    }

    /// It certainly did not happen, or makes no difference: it is left out.
    pub fn drop(&mut self, handle: OpenHandle) {
        self.list[handle.0 as usize].invoke = DROPPED;
        self.dropped += 1;
    }

    pub fn op(&self, handle: OpenHandle) -> &Op {
        &self.list[handle.0 as usize].op
    }

    /// The whole history.
    pub fn finish(self) -> Operations<Op, Ret> {
        let Builder { mut list, mut order, mut sources, timed, dropped } = self;
        if dropped > 0 {
            let mut new = 0;
            let renumbered: Vec<u32> = list
                .iter()
                .map(|operation| {
                    new += u32::from(operation.invoke != DROPPED);
                    if operation.invoke == DROPPED { DROPPED } else { new - 1 }
                })
                .collect();
            order.retain_mut(|event| {
                let at = renumbered[(*event >> 1) as usize];
                *event = at.wrapping_mul(2) | (*event & 1);
                at != DROPPED
            });
            let mut kept = renumbered.iter().map(|at| *at != DROPPED);
            sources.retain(|_| kept.next().expect("one a source"));
            list.retain(|operation| operation.invoke != DROPPED);
            place(&mut list, &order);
        }
        Operations { list, order, sources, timed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_what_did_not_happen() {
        let mut builder = Builder::new();
        let first = builder.invoke(1, 'a');
        let second = builder.invoke(2, 'b');
        builder.complete(first, ());
        let third = builder.invoke(1, 'c');
        builder.drop(second);
        builder.complete(third, ());
        let history = builder.finish();
        assert_eq!(history.list.iter().map(|operation| operation.op).collect::<String>(), "ac");
        assert_eq!(history.order, [0, 1, 2, 3]);
        assert_eq!((history.list[1].invoke, history.list[1].complete), (2, 3));
        assert_eq!(history.sources[1].process, 1);
        let last = history.only(&[1]);
        assert_eq!((last.list[0].op, last.list[0].invoke, last.list[0].complete), ('c', 0, 1));
    }
}
