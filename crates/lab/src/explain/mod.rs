//! Explains where flows' time went: repeats a run and traces the flows.

mod pick;
mod words;

pub use pick::{Chosen, MISSED_MAX, Pick, pick};

use crate::execute::ExecuteError;
use crate::plan::{PlannedRun, Study};
use crate::scenario::RunSetup;
use punctual_core::{Duration, FlowId, Instant, WaitNames};
use punctual_net::Network;
use punctual_results::{ExplainedFlow, ExplainedPart, FlowRow, FlowStatus, TimeLine};
use punctual_sim::{Behind, Explanation, Outcome, Progress, Simulate, What};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Number of slices of a flow's time line.
const SLICES: usize = 60;
/// Limit on the flows that a part names.
const NAMED: usize = 3;

/// Why flows cannot be explained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExplainError {
    /// The run could not be repeated.
    #[error(transparent)]
    Run(#[from] ExecuteError),
    /// The run is at flow level, which has no packets.
    #[error(
        "this run is at flow level and has no packets to explain; run the scenario with \
         --level packet and explain that run"
    )]
    FlowLevel,
    /// The run is one on a testbed.
    #[error(
        "this run was made on a testbed, and only simulations can be explained; simulate the \
         scenario without --on testbed"
    )]
    Testbed,
    /// The run is of an ideal scheduler, which has no packets.
    #[error(
        "{0} is an ideal scheduler without packets, so there is nothing to explain; explain a run \
         of a transport"
    )]
    Ideal(String),
    /// The repeated run has other results.
    #[error(
        "flow {flow} has another result when its run is repeated; either punctual {version} wrote \
         the results, or files that the scenario names have changed"
    )]
    Differs {
        /// The first flow that differs.
        flow: FlowId,
        /// The version that wrote the results.
        version: String,
    },
}

/// Repeats a run and explains where the time of some of its flows went.
///
/// `rows` are its flows as `version` of punctual wrote them.
pub fn explain<S: Simulate>(
    study: &Study<S>,
    run: &PlannedRun<S>,
    (rows, version): (&[FlowRow], &str),
    flows: &[FlowId],
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Vec<ExplainedFlow>, ExplainError> {
    let setup = study.setup(&run.scenario, &run.subject, run.seed).map_err(ExecuteError::from)?;
    let setup = match setup {
        RunSetup::Packets(setup) => setup,
        RunSetup::Testbed(_) => return Err(ExplainError::Testbed),
        RunSetup::Flows(_) => return Err(ExplainError::FlowLevel),
        RunSetup::Ideal(_) => return Err(ExplainError::Ideal(run.subject.label.clone())),
    };
    let outcome = punctual_sim::explain(*setup, flows, progress);
    if outcome.interrupted {
        return Err(ExecuteError::Interrupted { done: 0, total: 1 }.into());
    }
    if !outcome.violations.is_empty() {
        let (run, violations) = (run.title(), outcome.violations);
        return Err(ExecuteError::Violated { run, violations }.into());
    }
    if let Some(flow) = first_difference(rows, &outcome) {
        return Err(ExplainError::Differs { flow, version: version.to_owned() });
    }
    let network = &run.scenario.network;
    let explanations = outcome.explained.iter();
    Ok(explanations
        .map(|explanation| {
            let row = &rows[explanation.flow.index()];
            let info = S::catalogue().iter().find(|info| info.name == &*row.transport);
            let names = info.map_or(&WaitNames::DEFAULT, |info| &info.waits);
            explained_flow(explanation, row, network, names)
        })
        .collect())
}

/// The first flow whose result differs from its row.
fn first_difference(rows: &[FlowRow], outcome: &Outcome) -> Option<FlowId> {
    if let Some(more) = outcome.flows.get(rows.len()) {
        return Some(more.spec.id);
    }
    let is_same = |row: &FlowRow| {
        outcome.flows.get(row.flow.index()).is_some_and(|record| {
            (row.start, row.deadline, row.ended, row.status)
                == (record.spec.start, record.spec.deadline, record.ended, record.status)
                && (row.delivered, row.retransmits, row.timeouts, row.trims)
                    == (record.delivered, record.retransmits, record.timeouts, record.trims)
        })
    };
    rows.iter().find(|row| !is_same(row)).map(|row| row.flow)
}

/// Makes the result of an explanation: names for ids, and parts of one kind merged.
fn explained_flow(
    explanation: &Explanation,
    row: &FlowRow,
    network: &Network,
    names: &WaitNames,
) -> ExplainedFlow {
    let name = |host: punctual_core::HostId| network.names[host.index()].to_string();
    let since = |at: Instant| at.saturating_since(explanation.from).as_picos();
    let mut flow = ExplainedFlow {
        flow: row.flow.0,
        transport: row.transport.to_string(),
        src: name(row.src),
        dst: name(row.dst),
        size_bytes: row.size.map(|size| size.get()),
        status: match row.status {
            FlowStatus::Completed => "completed",
            FlowStatus::Abandoned => "abandoned",
            FlowStatus::Unfinished => "unfinished",
        }
        .to_owned(),
        start_ps: explanation.from.as_picos(),
        time_ps: since(explanation.to),
        deadline_ps: row.deadline.map(Instant::as_picos),
        met: row.met,
        behind_since_ps: behind_since(explanation, row).map(Instant::as_picos),
        trips: explanation.trips,
        parts: merge_parts(explanation, network, names),
        time_line: time_line(explanation, row),
        sentence: String::new(),
    };
    flow.sentence = words::sentence(&flow, names);
    flow
}

/// Whether packets spend this kind of time at every port, so that parts do not name the port.
fn is_at_every_port(what: What) -> bool {
    matches!(what, What::Propagation | What::Serialisation)
}

/// Merges the parts of one kind at one port.
fn merge_parts(
    explanation: &Explanation,
    network: &Network,
    names: &WaitNames,
) -> Vec<ExplainedPart> {
    let mut order = Vec::new();
    let mut sums: BTreeMap<_, (Duration, u32, Behind)> = BTreeMap::new();
    for part in &explanation.parts {
        let key = (part.what, part.port.filter(|_| !is_at_every_port(part.what)));
        if !sums.contains_key(&key) {
            order.push(key);
        }
        let (time, times, behind) = sums.entry(key).or_default();
        *time += part.time();
        *times += 1;
        behind.merge(&part.behind);
    }
    let part = |key: &(What, Option<punctual_core::PortId>)| {
        let (time, times, behind) = &sums[key];
        ExplainedPart {
            what: key.0.name().to_owned(),
            title: key.0.words(names).map_or(key.0.title(), |words| words.title).to_owned(),
            port: key.1.map(|port| network.port_name(port)),
            time_ps: time.as_picos(),
            times: *times,
            behind: behind.flows.iter().take(NAMED).map(|(flow, _)| flow.0).collect(),
            behind_count: behind.count() as u32,
        }
    };
    order.iter().map(part).collect()
}

/// The last time at which a late flow fell behind an even pace to its deadline.
fn behind_since(explanation: &Explanation, row: &FlowRow) -> Option<Instant> {
    if row.met != Some(false) {
        return None;
    }
    let (deadline, size) = (row.deadline?, row.size?.get().max(1));
    let allowance = deadline.saturating_since(explanation.from).as_picos();
    // The time at which an even pace has delivered that many bytes.
    let due = |bytes: u64| {
        let picos = u128::from(allowance) * u128::from(bytes) / u128::from(size);
        explanation.from + Duration::from_picos(picos as u64)
    };
    let mut delivered = 0;
    let mut since = Some(explanation.from);
    for &(at, bytes) in &explanation.progress {
        if at > due(delivered) {
            since = since.or(Some(due(delivered)));
        }
        delivered = bytes;
        if at <= due(delivered) {
            since = None;
        }
    }
    since.or_else(|| Some(due(delivered)))
}

/// The share of each kind of time in slices of equal length.
fn time_line(explanation: &Explanation, row: &FlowRow) -> TimeLine {
    let whole = (explanation.to - explanation.from).as_picos();
    let bound = |slice: usize| {
        let picos = u128::from(whole) * slice as u128 / SLICES as u128;
        explanation.from + Duration::from_picos(picos as u64)
    };
    let mut line = TimeLine::default();
    for what in What::ALL {
        let parts: Vec<_> = explanation.parts.iter().filter(|part| part.what == what).collect();
        if parts.is_empty() {
            continue;
        }
        let percent = |slice: usize| {
            let (from, to) = (bound(slice), bound(slice + 1));
            let within = |part: &&punctual_sim::Part| {
                part.to.min(to).saturating_since(part.from.max(from)).as_picos()
            };
            let time: u64 = parts.iter().map(within).sum();
            (u128::from(time) * 100 / u128::from((to - from).as_picos().max(1))) as u8
        };
        line.what.push(what.name().to_owned());
        line.percent.push((0..SLICES).map(percent).collect());
    }
    let size = row.size.map_or_else(|| row.delivered.get(), |size| size.get()).max(1);
    let delivered = |slice: usize| {
        let until = bound(slice + 1);
        let before = explanation.progress.iter().rev().find(|(at, _)| *at <= until);
        let bytes = before.map_or(0, |(_, bytes)| *bytes);
        (u128::from(bytes) * 100 / u128::from(size)).min(100) as u8
    };
    line.delivered_percent = (0..SLICES).map(delivered).collect();
    line
}
