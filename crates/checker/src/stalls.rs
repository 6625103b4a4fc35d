use crate::spans::{Span, difference, length_ns, union};
use std::collections::BTreeMap;

/// By this part of its length a stall may have begun earlier than its report says.
const LATE_PART: u64 = 10;

/// When the machine gave nodes hardly any time: what that explains is neither library's nor service's doing.
#[derive(Debug, Default)]
pub struct Stalls<'a> {
    of_node: BTreeMap<&'a str, Vec<Span>>,
    /// The stretches in which any node stalled, in order.
    pub any: Vec<Span>,
}

impl<'a> Stalls<'a> {
    /// Notes a node that stalled until a moment. A report is a little late: a stall in parts would have gaps.
    pub(crate) fn add(&mut self, node: &'a str, for_ms: u64, until_ns: u64) {
        let for_ns = for_ms.saturating_mul(1_000_000);
        let span = (until_ns.saturating_sub(for_ns + for_ns / LATE_PART), until_ns);
        self.of_node.entry(node).or_default().push(span);
        self.any.push(span);
    }

    pub(crate) fn settle(&mut self) {
        for spans in self.of_node.values_mut().chain([&mut self.any]) {
            *spans = union(std::mem::take(spans));
        }
    }

    /// For how long of a span any node stalled: all are on one machine, and may wait for each other.
    pub fn within(&self, span: Span) -> u64 {
        shared_ns(&self.any, span)
    }

    pub fn of(&self, node: &str, span: Span) -> u64 {
        shared_ns(self.of_node.get(node).map_or(&[], Vec::as_slice), span)
    }

    /// The length of a span, without the time in which a node stalled.
    pub(crate) fn rest_of(&self, span: Span) -> u64 {
        span.1.saturating_sub(span.0) - self.within(span)
    }

    pub(crate) fn of_each(&self, span: Span) -> impl Iterator<Item = (&'a str, Span)> {
        self.of_node.iter().flat_map(move |(node, stalls)| {
            let meets = move |stall: &&Span| stall.0 < span.1 && stall.1 > span.0;
            stalls.iter().filter(meets).map(|stall| (*node, *stall))
        })
    }
}

fn shared_ns(stalls: &[Span], span: Span) -> u64 {
    if stalls.is_empty() || span.1 < span.0 {
        return 0;
    }
    span.1 - span.0 - length_ns(&difference(&[span], stalls, span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_touches_a_span_is_not_in_it() {
        let mut stalls = Stalls::default();
        stalls.add("n1", 10, 111_000_000);
        stalls.add("n2", 20, 300_000_000);
        stalls.settle();
        let of = |from_ms: u64, until_ms: u64| {
            let span = (from_ms * 1_000_000, until_ms * 1_000_000);
            let nodes: Vec<&str> = stalls.of_each(span).map(|(node, _)| node).collect();
            (nodes, stalls.within(span) / 1_000_000, stalls.rest_of(span) / 1_000_000)
        };
        // Those of n1 last from 100 to 111 ms, by its report, which is a tenth late; those of n2 from 278 on.
        assert_eq!(of(50, 100), (vec![], 0, 50));
        assert_eq!(of(111, 278), (vec![], 0, 167));
        assert_eq!(of(99, 101), (vec!["n1"], 1, 1));
        assert_eq!(of(0, 400), (vec!["n1", "n2"], 33, 367));
        assert_eq!(stalls.of("n2", (0, 400_000_000)), 22_000_000);
        assert_eq!(stalls.of("n3", (0, 400_000_000)), 0);
    }
}
