//! Charts of flows: the distribution of FCTs, and FCTs against deadlines.

use super::Budget;
use super::model::{Axis, Body, Chart, Mark, Reference, Section, Series, Unit, View};
use punctual_core::Duration;
use punctual_results::{FlowRow, FlowStatus, stats::sorted};

/// The flows of one curve: those of a transport, of every repetition.
pub(crate) struct Group {
    /// By number.
    pub(crate) transport: usize,
    /// Measured flows, each with the seed of its run.
    pub(crate) flows: Vec<(u64, FlowRow)>,
}

/// The distribution of completion times and that of slowdowns, each also with its tail: the share
/// of flows that took longer, on a logarithmic axis.
pub(crate) fn cdf(groups: &[Group], budget: &Budget) -> Option<Section> {
    let all = || groups.iter().flat_map(|group| group.flows.iter().map(|(_, flow)| flow));
    let mut reduced = false;
    let mut views = Vec::new();
    let times = Axis::log("Flow completion time", Unit::Time);
    let slowdowns = Axis::log("Slowdown: FCT over FCT on an empty network", Unit::Factor);
    let get_time: fn(&FlowRow) -> Option<f64> = |flow| Some(flow.fct?.as_micros_f64());
    let get_slowdown: fn(&FlowRow) -> Option<f64> = |flow| flow.slowdown;
    for (label, x, get) in
        [("completion time", &times, get_time), ("slowdown", &slowdowns, get_slowdown)]
    {
        let axis = || (x.unit != times.unit).then(|| x.clone());
        let mut whole =
            View { label: label.into(), x: axis(), before: Some(0.0), ..View::default() };
        let not_completed = Axis::log("Flows not completed", Unit::Share);
        let mut tail = View {
            label: format!("{label}, tail (1 − CDF)"),
            x: axis(),
            y: Some(not_completed),
            before: Some(1.0),
            ..View::default()
        };
        for group in groups {
            let values = sorted(group.flows.iter().filter_map(|(_, flow)| get(flow)));
            let (flows, transport) = (group.flows.len(), group.transport);
            reduced |= values.len() > budget.cdf;
            let (x, y) = curve(&values, flows, budget.cdf);
            whole.series.push(Series { transport, x, y, ..Series::default() });
            let (x, y) = tail_curve(&values, flows, budget.cdf / 4);
            tail.series.push(Series { transport, x, y, ..Series::default() });
        }
        if whole.series.iter().any(|series| !series.x.is_empty()) {
            views.extend([whole, tail]);
        }
    }
    if all().all(|flow| flow.fct.is_none()) {
        return None;
    }
    if let Some(deadline) = common_deadline(all()) {
        let at = deadline.as_micros_f64();
        for view in views.iter_mut().filter(|view| view.x.is_none()) {
            view.lines.push(Reference::Vertical { at, label: "deadline".into() });
        }
    }
    let mut lead = "The share of measured flows that had completed after a time, the flows of all \
                    runs pooled. A transport that leaves flows unfinished does not reach 100 %. \
                    The tail shows the share that took longer, on a logarithmic axis."
        .to_owned();
    if reduced {
        // In tenths of a per cent, rounded up.
        let points = budget.cdf;
        let error = 1000usize.div_ceil(even(points)) as f64 / 10.0;
        lead += &format!(
            " A curve goes through at most {points} of its flows, with more of them in the tail: \
             its error is at most {error:.1} % of flows."
        );
    }
    let share = Axis { range: Some([0.0, 1.0]), ..Axis::new("Flows completed", Unit::Share) };
    let body = Body::Chart(Chart { mark: Mark::Step, x: times, y: share, views });
    let (id, title) = ("fct".to_owned(), "Flow completion times".to_owned());
    Some(Section { id, title, lead, point: None, body })
}

/// The deadline that all flows share, counted from the start of each; none when they differ or some
/// flow has none.
fn common_deadline<'a>(mut flows: impl Iterator<Item = &'a FlowRow>) -> Option<Duration> {
    let allowed = |flow: &FlowRow| Some(flow.deadline?.saturating_since(flow.start));
    let first = allowed(flows.next()?)?;
    flows.all(|flow| allowed(flow) == Some(first)).then_some(first)
}

/// The number of points of a curve with evenly spread ranks; the rest are for the tail.
fn even(points: usize) -> usize {
    (points * 3 / 4).max(1)
}

/// The distribution of values in ascending order, of so many flows.
fn curve(values: &[f64], flows: usize, points: usize) -> (Vec<f64>, Vec<f64>) {
    let n = values.len();
    let mut ranks: Vec<usize> = if n <= points {
        (1..=n).collect()
    } else {
        let even = even(points);
        let spread = (0..=even).map(|i| (i * n).div_ceil(even).max(1));
        // From all but a tenth to all but one: as many points for each decade of the tail.
        let tail = points - even;
        let decades = libm::log10(n as f64);
        let left = |i: usize| libm::pow(10.0, -decades * i as f64 / tail as f64);
        let tail = (0..tail).map(|i| n - ((n as f64 * left(i)) as usize).min(n - 1));
        spread.chain(tail).collect()
    };
    ranks.sort_unstable();
    ranks.dedup();
    let (mut x, mut y): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    for rank in ranks {
        let (value, share) = (values[rank - 1], rank as f64 / flows as f64);
        if x.last() == Some(&value) {
            y.pop();
        } else {
            x.push(value);
        }
        y.push(share);
    }
    (x, y)
}

/// The share of so many flows that took longer than each value, for values in ascending order: as
/// many points for each decade of the share.
fn tail_curve(values: &[f64], flows: usize, points: usize) -> (Vec<f64>, Vec<f64>) {
    let (n, points) = (values.len(), points.max(2));
    let decades = libm::log10(flows.max(2) as f64);
    // From all flows down to one.
    let longer = |i: usize| flows as f64 * libm::pow(10.0, -decades * i as f64 / points as f64);
    let mut ranks: Vec<usize> = match n <= points {
        true => (1..=n).collect(),
        false => (0..=points).map(|i| flows - (longer(i) as usize).min(flows - 1)).collect(),
    };
    ranks.push(n);
    ranks.retain(|rank| (1..=n).contains(rank));
    ranks.sort_unstable();
    ranks.dedup();
    let (mut x, mut y): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    for rank in ranks {
        if x.last() == Some(&values[rank - 1]) {
            y.pop();
        } else {
            x.push(values[rank - 1]);
        }
        y.push((flows - rank) as f64 / flows as f64);
    }
    (x, y)
}

/// Completion times of flows against their deadlines, both counted from their start.
pub(crate) fn deadlines(groups: &[Group], budget: &Budget) -> Option<Section> {
    let (mut all, mut drawn, mut without_end) = (0, 0, 0);
    let mut view = View::default();
    for group in groups {
        let mut flows: Vec<Dot<'_>> =
            group.flows.iter().filter_map(|(seed, flow)| dot(*seed, flow)).collect();
        let due = |flow: &FlowRow| flow.deadline.is_some();
        without_end += group.flows.iter().filter(|(_, flow)| due(flow)).count() - flows.len();
        all += flows.len();
        // By how much of its time a flow took, then every n-th: the earliest and the latest are
        // always among them, and the others as often as they should be.
        flows.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        let flows = spread(flows, budget.points);
        drawn += flows.len();
        let mut series = Series { transport: group.transport, ..Series::default() };
        for (i, dot) in flows.iter().enumerate() {
            series.x.push(dot.allowed.as_micros_f64());
            series.y.push(dot.took.as_micros_f64());
            series.about.push(dot.about());
            if dot.flow.status != FlowStatus::Completed {
                series.crosses.push(i);
            }
        }
        view.series.push(series);
    }
    if all == 0 {
        return None;
    }
    view.lines.push(Reference::Diagonal { label: "deadline".into() });
    let mut lead =
        "A plot for each transport, a point for each flow: the time its deadline allowed \
                    and its completion time. Above the diagonal it was late; a cross is a flow \
                    that its sender gave up."
            .to_owned();
    if drawn < all {
        lead += &format!(" {drawn} of {all} flows are drawn, spread evenly from early to late.");
    }
    if without_end > 0 {
        lead +=
            &format!(" {without_end} flows were unfinished at the end of their run: not drawn.");
    }
    let chart = Chart {
        mark: Mark::Points,
        x: Axis::log("Allowed: deadline − start", Unit::Time),
        y: Axis::log("Taken: completion − start", Unit::Time),
        views: vec![view],
    };
    let (id, title) = ("deadlines".to_owned(), "Completion time against deadline".to_owned());
    Some(Section { id, title, lead, point: None, body: Body::Chart(chart) })
}

struct Dot<'a> {
    seed: u64,
    flow: &'a FlowRow,
    allowed: Duration,
    took: Duration,
}

/// The point of a flow that has a deadline and an end.
fn dot(seed: u64, flow: &FlowRow) -> Option<Dot<'_>> {
    let allowed = flow.deadline?.saturating_since(flow.start);
    let took = flow.ended?.saturating_since(flow.start);
    Some(Dot { seed, flow, allowed, took })
}

impl Dot<'_> {
    fn ratio(&self) -> f64 {
        self.took.as_picos() as f64 / self.allowed.as_picos().max(1) as f64
    }

    /// A text that identifies the flow.
    fn about(&self) -> String {
        let size = self.flow.size.map_or(0, |size| size.get());
        format!("flow {}, seed {}, {size} B", self.flow.flow, self.seed)
    }
}

/// At most `most` of some values, evenly spread, including the first and the last.
pub(crate) fn spread<T>(values: Vec<T>, most: usize) -> Vec<T> {
    let n = values.len();
    if n <= most {
        return values;
    }
    let last = most.max(2) - 1;
    let mut chosen = (0..=last).map(|i| i * (n - 1) / last).peekable();
    let mut kept = Vec::with_capacity(last + 1);
    for (i, value) in values.into_iter().enumerate() {
        if chosen.peek() == Some(&i) {
            chosen.next();
            kept.push(value);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_are_all_drawn_and_equal_ones_once() {
        assert_eq!(curve(&[1.0, 2.0, 2.0], 4, 10), (vec![1.0, 2.0], vec![0.25, 0.75]));
        assert_eq!(curve(&[], 4, 10), (vec![], vec![]));
    }

    #[test]
    fn many_values_are_drawn_within_the_bound() {
        let values: Vec<f64> = (1..=100_000).map(f64::from).collect();
        let (x, y) = curve(&values, 100_000, 400);
        assert!(x.len() <= 401, "{}", x.len());
        assert_eq!((x[0], x[x.len() - 1]), (1.0, 1e5));
        // Until the next point the step stays: off by no more than the distance of points.
        let gap = y.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        assert!(gap <= 1.0 / 300.0 + 1e-5, "{gap}");
        // The tail has points of its own.
        assert!(y.iter().filter(|share| **share > 0.999 && **share < 1.0).count() > 20);
    }

    #[test]
    fn a_tail_has_points_in_every_decade() {
        assert_eq!(tail_curve(&[1.0, 2.0, 2.0], 4, 10), (vec![1.0, 2.0], vec![0.75, 0.25]));
        assert_eq!(tail_curve(&[], 4, 10), (vec![], vec![]));
        let values: Vec<f64> = (1..=100_000).map(f64::from).collect();
        let (x, y) = tail_curve(&values, 100_000, 100);
        assert!(x.len() <= 102, "{}", x.len());
        // All completed: the curve ends at nothing.
        assert_eq!((x[x.len() - 1], y[y.len() - 1]), (1e5, 0.0));
        for decade in 0..4 {
            let (to, from) =
                (libm::pow(10.0, -f64::from(decade)), libm::pow(10.0, -f64::from(decade + 1)));
            let within = y.iter().filter(|share| (from..to).contains(*share)).count();
            assert!(within >= 15, "{within} between {from} and {to}");
        }
    }

    #[test]
    fn spread_keeps_both_ends() {
        assert_eq!(spread((0..10).collect(), 4), [0, 3, 6, 9]);
        assert_eq!(spread(vec![5, 6], 4), [5, 6]);
    }
}
