//! Selects the flows of a run to explain.

use punctual_core::{Duration, FlowId, Instant};
use punctual_results::{FlowRow, FlowStatus};
use std::cmp::Reverse;

/// Limit on the flows that [`Pick::Missed`] selects.
pub const MISSED_MAX: usize = 100;

/// Which flows of a run to explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// One flow.
    Flow(FlowId),
    /// The worst flows: first those that missed their deadline by the most, then those with the
    /// largest slowdown.
    Worst(usize),
    /// The flows that missed their deadline, at most the worst [`MISSED_MAX`].
    Missed,
    /// A number of completed flows, spread evenly over the run.
    Sample(usize),
}

/// The selected flows of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The flows; for [`Pick::Worst`] and [`Pick::Missed`] the worst comes first.
    pub flows: Vec<FlowId>,
    /// The number of flows to choose from.
    pub of: usize,
    /// How the flows were selected, in words.
    pub how: String,
}

/// Selects flows of a run. Flows that are not measured can only be selected by number.
pub fn pick(rows: &[FlowRow], which: Pick) -> Chosen {
    let ended_at = rows.iter().filter_map(|row| row.ended).max().unwrap_or(Instant::ZERO);
    let mut measured: Vec<&FlowRow> = rows.iter().filter(|row| row.measured).collect();
    let (of, how) = match which {
        Pick::Flow(flow) => {
            let flows = rows.iter().filter(|row| row.flow == flow).map(|row| row.flow).collect();
            return Chosen { flows, of: rows.len(), how: format!("flow {}", flow.0) };
        }
        Pick::Worst(most) => {
            let of = measured.len();
            measured.sort_by_key(|row| badness(row, ended_at));
            measured.truncate(most);
            (of, format!("the worst {} of {of}", measured.len()))
        }
        Pick::Missed => {
            measured.retain(|row| row.met == Some(false));
            let of = measured.len();
            measured.sort_by_key(|row| badness(row, ended_at));
            measured.truncate(MISSED_MAX);
            let how = match of > MISSED_MAX {
                true => format!("the worst {MISSED_MAX} of {of} that missed their deadline"),
                false => format!("all {of} that missed their deadline"),
            };
            (of, how)
        }
        Pick::Sample(most) => {
            measured.retain(|row| row.status == FlowStatus::Completed);
            let of = measured.len();
            let taken = most.min(of);
            measured = (0..taken).map(|n| measured[n * of / taken]).collect();
            (of, format!("{taken} of {of} completed flows"))
        }
    };
    Chosen { flows: measured.iter().map(|row| row.flow).collect(), of, how }
}

/// A sort key that puts the worst flow first: by lateness, then by slowdown.
fn badness(row: &FlowRow, ended_at: Instant) -> impl Ord + use<> {
    let missed = row.met == Some(false);
    let late = row.deadline.map_or(Duration::ZERO, |deadline| {
        row.ended.unwrap_or(ended_at).saturating_since(deadline)
    });
    let late = if missed { late } else { Duration::ZERO };
    let slowdown = row.slowdown.map_or(0, |slowdown| (slowdown * 1e6) as u64);
    (Reverse(missed), Reverse(late), Reverse(slowdown), row.flow)
}
