//! Where along a line a condition ceases to hold: bracketing by doubling and halving, then
//! bisection, over what is known so far.

use std::collections::BTreeMap;

/// The points that may be tried, as whole numbers, from the end where the condition is easiest to
/// the end where it is hardest. Either may be the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) easy: u64,
    pub(super) hard: u64,
}

/// The last point of a line for which something is true and the first for which it is not; none
/// where the line ends before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) last: Option<u64>,
    pub(super) first_not: Option<u64>,
}

/// How far a search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// What to try next; none when the edge is found.
    pub(super) next: Option<u64>,
    /// The edge as far as it is known.
    pub(super) edge: Edge,
}

impl Line {
    pub(super) fn is_harder(&self, a: u64, than: u64) -> bool {
        if self.easy <= self.hard { a > than } else { a < than }
    }

    /// Twice as hard, up to the end.
    fn harder(&self, point: u64) -> u64 {
        let next = if self.easy <= self.hard { point.saturating_mul(2).max(1) } else { point / 2 };
        if self.is_harder(next, self.hard) { self.hard } else { next }
    }

    /// Half as hard, down to the end.
    fn easier(&self, point: u64) -> u64 {
        let next = if self.easy <= self.hard { point / 2 } else { point.saturating_mul(2).max(1) };
        if self.is_harder(self.easy, next) { self.easy } else { next }
    }

    /// Looks for the edge of what `is_true` of the verdicts. It is taken for granted that nothing
    /// is true again beyond the first point where it was found not to be.
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
    fn find(line: Line, start: u64, holds: impl Fn(u64) -> bool) -> (Edge, usize) {
        let mut known = BTreeMap::new();
        loop {
            let Step { next, edge } = line.edge(start, &known, |v: &bool| *v);
            let Some(point) = next else { return (edge, known.len()) };
            let inside = !line.is_harder(line.easy, point);
            assert!(inside && !line.is_harder(point, line.hard), "{point} of {line:?}");
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
                        let line = Line { easy, hard };
                        assert_eq!(find(line, start, |p| p < edge).0, expected, "{line:?}");
                        // The other way round.
                        let line = Line { easy: hard, hard: easy };
                        let expected = Edge { last: first_not, first_not: last };
                        assert_eq!(find(line, start, |p| p >= edge).0, expected, "{line:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn tries_grow_with_the_logarithm() {
        let line = Line { easy: 1, hard: 1_000_000 };
        let (edge, tries) = find(line, 20, |p| p <= 314_159);
        assert_eq!((edge.last, edge.first_not), (Some(314_159), Some(314_160)));
        assert!(tries < 36, "{tries}");
    }

    #[test]
    fn of_contradictions_the_first_failure_counts() {
        let line = Line { easy: 1, hard: 100 };
        let known = BTreeMap::from([(10, true), (11, false), (20, true), (21, false)]);
        let edge = Edge { last: Some(10), first_not: Some(11) };
        assert_eq!(line.edge(1, &known, |v| *v), Step { next: None, edge });
    }
}
