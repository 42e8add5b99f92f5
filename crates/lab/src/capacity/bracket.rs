//! Finds where a condition stops holding: bracketing by doubling and halving, then bisection.

use std::collections::BTreeMap;

/// The range of points to search, from the easiest to the hardest for the condition.
///
/// Either end may be the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SearchRange {
    pub(super) easy: u64,
    pub(super) hard: u64,
}

/// The last point at which a predicate is true and the first at which it is false; none if the
/// range has no such point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) last: Option<u64>,
    pub(super) first_not: Option<u64>,
}

/// The state of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// The point to try next; none if the edge is found.
    pub(super) next: Option<u64>,
    /// The edge as far as it is known.
    pub(super) edge: Edge,
}

impl SearchRange {
    pub(super) fn is_harder(&self, a: u64, than: u64) -> bool {
        if self.easy <= self.hard { a > than } else { a < than }
    }

    /// The point twice as hard, limited by the range.
    fn harder(&self, point: u64) -> u64 {
        let next = if self.easy <= self.hard { point.saturating_mul(2).max(1) } else { point / 2 };
        if self.is_harder(next, self.hard) { self.hard } else { next }
    }

    /// The point half as hard, limited by the range.
    fn easier(&self, point: u64) -> u64 {
        let next = if self.easy <= self.hard { point / 2 } else { point.saturating_mul(2).max(1) };
        if self.is_harder(self.easy, next) { self.easy } else { next }
    }

    /// One step of the search for the edge of a predicate over the known points.
    ///
    /// It assumes a single edge: points harder than the first failure are ignored.
    pub(super) fn edge<V>(
        &self,
        start: u64,
        known: &BTreeMap<u64, V>,
        is_true: impl Fn(&V) -> bool,
    ) -> Step {
        let by_hardness = |a: &u64, b: &u64| {
            if self.easy <= self.hard { a.cmp(b) } else { b.cmp(a) }
        };
        let points = |truth: bool| {
            let is_true = &is_true;
            known.iter().filter(move |(_, v)| is_true(v) == truth).map(|(point, _)| *point)
        };
        let first_not = points(false).min_by(by_hardness);
        let before = |point: &u64| first_not.is_none_or(|first| self.is_harder(first, *point));
        let last = points(true).filter(before).max_by(by_hardness);
        let next = match (last, first_not) {
            (None, None) => Some(start),
            (Some(last), None) => (last != self.hard).then(|| self.harder(last)),
            (None, Some(first)) => (first != self.easy).then(|| self.easier(first)),
            (Some(last), Some(first)) => {
                let apart = last.abs_diff(first);
                (apart > 1).then(|| last.min(first) + apart / 2)
            }
        };
        Step { next, edge: Edge { last, first_not } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds an edge and counts the tries.
    fn find(range: SearchRange, start: u64, holds: impl Fn(u64) -> bool) -> (Edge, usize) {
        let mut known = BTreeMap::new();
        loop {
            let Step { next, edge } = range.edge(start, &known, |v: &bool| *v);
            let Some(point) = next else { return (edge, known.len()) };
            let inside = !range.is_harder(range.easy, point);
            assert!(inside && !range.is_harder(point, range.hard), "{point} of {range:?}");
            assert!(known.insert(point, holds(point)).is_none(), "{point} tried twice");
        }
    }

    #[test]
    fn every_edge_is_found_from_every_start() {
        for easy in 0..4 {
            for hard in easy..20 {
                for start in easy..=hard {
                    for edge in easy..=hard + 1 {
                        let last = (edge > easy).then(|| edge - 1);
                        let first_not = (edge <= hard).then_some(edge);
                        let expected = Edge { last, first_not };
                        let range = SearchRange { easy, hard };
                        assert_eq!(find(range, start, |p| p < edge).0, expected, "{range:?}");
                        // With easy and hard exchanged.
                        let range = SearchRange { easy: hard, hard: easy };
                        let expected = Edge { last: first_not, first_not: last };
                        assert_eq!(find(range, start, |p| p >= edge).0, expected, "{range:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn tries_grow_with_the_logarithm() {
        let range = SearchRange { easy: 1, hard: 1_000_000 };
        let (edge, tries) = find(range, 20, |p| p <= 314_159);
        assert_eq!((edge.last, edge.first_not), (Some(314_159), Some(314_160)));
        assert!(tries < 36, "{tries}");
    }

    #[test]
    fn of_contradictions_the_first_failure_counts() {
        let range = SearchRange { easy: 1, hard: 100 };
        let known = BTreeMap::from([(10, true), (11, false), (20, true), (21, false)]);
        let edge = Edge { last: Some(10), first_not: Some(11) };
        assert_eq!(range.edge(1, &known, |v| *v), Step { next: None, edge });
    }
}
