/// Nanoseconds: from its first moment up to its last, which does not belong to it.
pub(crate) type Span = (u64, u64);

/// The moments of all spans, as spans in order that do not touch.
pub(crate) fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|(from, until)| from < until);
    spans.sort_unstable();
    spans.dedup_by(|next, last| {
        let touches = next.0 <= last.1;
        if touches {
            last.1 = last.1.max(next.1);
        }
        touches
    });
    spans
}

/// The moments of `all` within `bounds` that are in no span of `without`. Both are unions.
pub(crate) fn difference(all: &[Span], without: &[Span], bounds: Span) -> Vec<Span> {
    let mut left = Vec::new();
    let mut first = 0;
    for &(from, until) in all {
        let (mut from, until) = (from.max(bounds.0), until.min(bounds.1));
        while without.get(first).is_some_and(|span| span.1 <= from) {
            first += 1;
        }
        for &(begin, end) in without[first..].iter().take_while(|span| span.0 < until) {
            left.push((from, begin));
            from = from.max(end);
        }
        left.push((from, until));
    }
    left.retain(|(from, until)| from < until);
    left
}

/// Those of a union that share a moment with a span: to ask of a short one costs no look at all others.
pub(crate) fn meeting(spans: &[Span], (from, until): Span) -> &[Span] {
    let first = spans.partition_point(|span| span.1 <= from);
    let end = spans.partition_point(|span| span.0 < until);
    &spans[first..end.max(first)]
}

pub(crate) fn length_ns(spans: &[Span]) -> u64 {
    spans.iter().map(|(from, until)| until - from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: Span = (0, u64::MAX);

    #[test]
    fn spans_that_touch_become_one() {
        assert_eq!(union(vec![(5, 9), (0, 2), (2, 3), (6, 7), (4, 4)]), [(0, 3), (5, 9)]);
        assert_eq!(length_ns(&[(0, 3), (5, 9)]), 7);
    }

    #[test]
    fn what_is_taken_away_is_missing() {
        assert_eq!(difference(&[(0, 10), (20, 30)], &[(3, 5), (8, 22)], ALL), [(0, 3), (5, 8), (22, 30)]);
        assert_eq!(difference(&[(0, 10)], &[], (2, 4)), [(2, 4)]);
        assert_eq!(difference(&[(0, 10)], &[(0, 10)], ALL), []);
    }

    fn some_spans() -> impl Strategy<Value = Vec<Span>> {
        prop::collection::vec((0..60_u64, 0..12_u64).prop_map(|(from, length)| (from, from + length)), 0..8)
    }

    proptest! {
        #[test]
        fn every_moment_is_where_it_belongs(one in some_spans(), other in some_spans(), bounds in (0..60_u64, 0..60_u64)) {
            let inside = |spans: &[Span], at: u64| spans.iter().any(|(from, until)| (*from..*until).contains(&at));
            let (all, without) = (union(one.clone()), union(other.clone()));
            let left = difference(&all, &without, bounds);
            prop_assert_eq!(&difference(meeting(&all, bounds), meeting(&without, bounds), bounds), &left);
            for at in 0..80 {
                let expected = inside(&one, at) && !inside(&other, at) && inside(&[bounds], at);
                prop_assert_eq!(inside(&left, at), expected, "at {}", at);
            }
        }
    }
}
