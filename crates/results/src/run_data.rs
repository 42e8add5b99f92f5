//! The data from which the metrics of a run are computed.

use crate::stats::jain;
use crate::times::Times;
use crate::{FlowCounts, FlowRow, FlowStatus, RunFacts, RunKind};
use punctual_record::Totals;

/// A run, or some of its flows.
#[derive(Debug)]
pub(crate) struct RunData<'a> {
    /// What happened in the network.
    pub(crate) totals: &'a Totals,
    /// Facts about the run besides flows and totals.
    facts: &'a RunFacts<'a>,
    /// The flows, measured or not.
    pub(crate) flows: &'a [&'a FlowRow],
    /// Completion times of measured flows, in microseconds.
    pub(crate) fct: Times,
    /// Slowdowns of measured flows.
    pub(crate) slowdown: Times,
    /// How measured flows with a deadline ended.
    pub(crate) deadlines: Deadlines,
}

impl<'a> RunData<'a> {
    pub(crate) fn new(
        totals: &'a Totals,
        flows: &'a [&'a FlowRow],
        facts: &'a RunFacts<'a>,
    ) -> RunData<'a> {
        let measured = || flows.iter().copied().filter(|flow| flow.measured);
        // A bound abandons flows that it cannot schedule; that does not mean they never complete.
        let timed = || measured().filter(|flow| facts.kind != RunKind::Bound || flow.fct.is_some());
        RunData {
            totals,
            facts,
            flows,
            fct: Times::of(timed(), FlowRow::time_us),
            slowdown: Times::of(timed(), FlowRow::time_slowdown),
            deadlines: Deadlines::of(measured()),
        }
    }

    /// Whether whole flows were simulated, without packets.
    pub(crate) fn is_of_flows(&self) -> bool {
        self.facts.kind == RunKind::Flows
    }

    /// The measured flows.
    pub(crate) fn measured(&self) -> impl Iterator<Item = &'a FlowRow> {
        self.flows.iter().copied().filter(|flow| flow.measured)
    }

    /// The number of measured flows with this status.
    pub(crate) fn ended_as(&self, status: FlowStatus) -> f64 {
        self.measured().filter(|flow| flow.status == status).count() as f64
    }

    /// A count in the measured window, summed over all flows.
    pub(crate) fn sum(&self, get: fn(&FlowCounts) -> u32) -> f64 {
        self.flows.iter().map(|flow| u64::from(get(&flow.in_window))).sum::<u64>() as f64
    }

    /// Data delivered per measured time. A bound is no schedule and delivers nothing.
    pub(crate) fn goodput_gbps(&self) -> Option<f64> {
        let time = self.totals.measured_time();
        let bits = self.totals.delivered_bytes as f64 * 8.0;
        (!time.is_zero() && self.facts.kind != RunKind::Bound)
            .then(|| bits / time.as_secs_f64() / 1e9)
    }

    /// Share of the capacity into receiving hosts that delivered packets took.
    pub(crate) fn utilisation(&self) -> Option<f64> {
        self.facts.utilisation.filter(|share| share.is_finite())
    }

    /// Jain's index over background and endless flows.
    pub(crate) fn fairness(&self) -> Option<f64> {
        let long = self.flows.iter().filter(|flow| flow.background || flow.size.is_none());
        let delivered: Vec<f64> = long.map(|flow| flow.in_window.delivered.get() as f64).collect();
        if delivered.len() < 2 { None } else { jain(&delivered) }
    }
}

/// How flows with a deadline ended.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// Flows whose outcome is known.
    pub(crate) known: usize,
    /// Flows that met their deadline.
    pub(crate) met: usize,
    /// Flows that their sender abandoned.
    pub(crate) abandoned: usize,
    /// Flows that do not count.
    pub(crate) unknown: usize,
}

impl Deadlines {
    /// Counts the measured flows.
    ///
    /// If some are unfinished, flows with a deadline after the end of the run do not count,
    /// completed or not: counting only the completed ones would favour fast flows.
    fn of<'a>(measured: impl Iterator<Item = &'a FlowRow> + Clone) -> Deadlines {
        let run_ended = measured.clone().find_map(|flow| Some(flow.start + flow.censored?));
        let mut deadlines = Deadlines::default();
        for flow in measured {
            let Some(deadline) = flow.deadline else { continue };
            if run_ended.is_some_and(|end| deadline > end) {
                deadlines.unknown += 1;
                continue;
            }
            deadlines.known += 1;
            deadlines.met += usize::from(flow.met == Some(true));
            deadlines.abandoned += usize::from(flow.status == FlowStatus::Abandoned);
        }
        deadlines
    }

    /// Flows that neither met their deadline nor were abandoned.
    pub(crate) fn late(&self) -> usize {
        self.known - self.met - self.abandoned
    }

    /// Share of the known outcomes that are met deadlines.
    pub(crate) fn share(&self) -> Option<f64> {
        (self.known > 0).then(|| self.met as f64 / self.known as f64)
    }
}
