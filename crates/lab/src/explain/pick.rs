//! Which flows of a run to explain.

use punctual_core::{Duration, FlowId, Instant};
use punctual_results::{FlowRow, FlowStatus};
use std::cmp::Reverse;

/// Missed flows explained at most.
pub const MISSED_MAX: usize = 100;

/// Which flows of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// This one.
    Flow(FlowId),
    /// The worst: those that missed their deadline by the most, then those that took the longest
    /// beside what they would have taken alone.
    Worst(usize),
    /// Those that missed their deadline, the worst [`MISSED_MAX`] of them.
    Missed,
    /// So many completed ones, spread evenly over the run.
    Sample(usize),
}

/// Flows chosen of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The flows, the worst first where that was asked for.
    pub flows: Vec<FlowId>,
    /// How many there were to choose from.
    pub of: usize,
    /// How they were chosen, in words.
    pub how: String,
}

/// Chooses flows of a run. Background traffic and endless flows are chosen by name only.
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

/// What sorts the worst first: how late it was, then how much slower than alone.
fn badness(row: &FlowRow, ended_at: Instant) -> impl Ord + use<> {
    let missed = row.met == Some(false);
    let late = row.deadline.map_or(Duration::ZERO, |deadline| {
        row.ended.unwrap_or(ended_at).saturating_since(deadline)
    });
    let late = if missed { late } else { Duration::ZERO };
    let slowdown = row.slowdown.map_or(0, |slowdown| (slowdown * 1e6) as u64);
    (Reverse(missed), Reverse(late), Reverse(slowdown), row.flow)
}
