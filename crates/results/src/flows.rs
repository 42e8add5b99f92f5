//! Flows on disk, one row per flow.

use crate::columns::{Cell, Column, Field, Kind, Table, column, misplaced};
use punctual_core::{Bytes, Duration, FlowId, HostId, Instant};
use punctual_record::{FlowRecord, Outcome, Totals};
use std::sync::Arc;

pub use punctual_record::{ByCause, FlowCounts, FlowStatus};

/// A row of `flows.parquet`: one flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowRow {
    /// The flow.
    pub flow: FlowId,
    /// The sending host.
    pub src: HostId,
    /// The receiving host.
    pub dst: HostId,
    /// Name of the transport that carried it.
    pub transport: Arc<str>,
    /// Which of the scenario's traffic patterns it came from, counted from 0.
    pub pattern: u16,
    /// Name of that traffic; empty where it has none, see [`FlowRow::name_traffic`].
    pub traffic: Arc<str>,
    /// Background traffic, which is not measured itself.
    pub background: bool,
    /// Whether it is in the statistics of flows: it is not background, has an end, and started in
    /// the measured window.
    pub measured: bool,
    /// Its size; none for an endless flow.
    pub size: Option<Bytes>,
    /// When the application handed it over.
    pub start: Instant,
    /// When the last byte had to arrive.
    pub deadline: Option<Instant>,
    /// When the last byte arrived or the flow was abandoned.
    pub ended: Option<Instant>,
    /// Its status at the end of the run.
    pub status: FlowStatus,
    /// Whether it met its deadline.
    ///
    /// None without deadline, and none when the run ended before both the flow and its deadline,
    /// because the outcome is then unknown.
    pub met: Option<bool>,
    /// Start to last byte, of a completed flow.
    pub fct: Option<Duration>,
    /// Start to the end of the run, of an unfinished flow: it takes at least as long.
    pub censored: Option<Duration>,
    /// Bytes its receiver got, each counted once.
    pub delivered: Bytes,
    /// Its counts in the measured window.
    pub in_window: FlowCounts,
    /// Data packets retransmitted.
    pub retransmits: u32,
    /// `retransmits` by cause.
    pub retransmits_by: ByCause<u32>,
    /// Retransmission timers fired.
    pub timeouts: u32,
    /// Trimmed headers its receiver saw.
    pub trims: u32,
    /// Headers returned to its sender.
    pub bounces: u32,
    /// Completion time on an empty network, where it is known.
    pub ideal: Option<Duration>,
    /// Completion time over the completion time on an empty network.
    pub slowdown: Option<f64>,
}

impl FlowRow {
    /// All flows of a run, in the order of the outcome.
    ///
    /// `transports` are the names by [`TransportId`](punctual_core::TransportId); `ideal` gives a
    /// flow's completion time on an empty network, where it is known.
    ///
    /// # Panics
    /// When a flow's transport has no name.
    pub fn all(
        outcome: &Outcome,
        transports: &[&str],
        ideal: impl Fn(&FlowRecord) -> Option<Duration>,
    ) -> Vec<FlowRow> {
        let names: Vec<Arc<str>> = transports.iter().map(|name| Arc::from(*name)).collect();
        let Totals { ended_at, measure, .. } = outcome.totals;
        let row = |record: &FlowRecord| {
            let transport = names[record.spec.transport.index()].clone();
            let row = FlowRow::new(record, transport, ended_at, ideal(record));
            FlowRow { measured: row.measured && measure.contains(row.start), ..row }
        };
        outcome.flows.iter().map(row).collect()
    }

    /// Fills in the names of the flows' traffic. `names` are in the order of the scenario.
    pub fn name_traffic(flows: &mut [FlowRow], names: &[String]) {
        let names: Vec<Arc<str>> = names.iter().map(|name| Arc::from(&**name)).collect();
        for flow in flows {
            flow.traffic = names.get(usize::from(flow.pattern)).cloned().unwrap_or_default();
        }
    }

    fn new(
        record: &FlowRecord,
        transport: Arc<str>,
        run_ended: Instant,
        ideal: Option<Duration>,
    ) -> FlowRow {
        let spec = &record.spec;
        let completed = record.ended.filter(|_| record.status == FlowStatus::Completed);
        let fct = completed.map(|at| at.saturating_since(spec.start));
        let slowdown = fct.zip(ideal.filter(|ideal| !ideal.is_zero()));
        let is_open = record.status == FlowStatus::Unfinished;
        FlowRow {
            flow: spec.id,
            src: spec.src,
            dst: spec.dst,
            transport,
            pattern: spec.pattern,
            traffic: Arc::default(),
            background: spec.background,
            measured: !spec.background && spec.size != Bytes::ENDLESS,
            size: Some(spec.size).filter(|size| *size != Bytes::ENDLESS),
            start: spec.start,
            deadline: spec.deadline,
            ended: record.ended,
            status: record.status,
            met: met(record, run_ended),
            fct,
            censored: is_open.then(|| run_ended.saturating_since(spec.start)),
            delivered: record.delivered,
            in_window: record.in_window,
            retransmits: record.retransmits,
            retransmits_by: record.retransmits_by,
            timeouts: record.timeouts,
            trims: record.trims,
            bounces: record.bounces,
            ideal,
            slowdown: slowdown.map(|(fct, ideal)| fct.as_picos() as f64 / ideal.as_picos() as f64),
        }
    }
}

/// Whether a flow met its deadline, if that is known.
///
/// A flow that is unfinished at the end of the run has missed its deadline only if that had passed.
/// An abandoned flow has always missed it.
fn met(record: &FlowRecord, run_ended: Instant) -> Option<bool> {
    let deadline = record.spec.deadline?;
    if record.status == FlowStatus::Unfinished && deadline > run_ended {
        return None;
    }
    record.met_deadline()
}

#[rustfmt::skip]
impl Table for FlowRow {
    const COLUMNS: &'static [Column<FlowRow>] = &[
        column!(flow, "flow", "", "number of the flow, in order of start"),
        column!(src, "src", "", "sending host"),
        column!(dst, "dst", "", "receiving host"),
        column!(transport, "transport", "", "transport that carried it"),
        column!(pattern, "pattern", "", "which `[[traffic]]` of the scenario it came from, counted from 0"),
        column!(background, "background", "", "background traffic, which is not in the statistics"),
        column!(size, "size_bytes", "bytes", "size; null for an endless flow"),
        column!(start, "start_ps", "ps", "when it started"),
        column!(deadline, "deadline_ps", "ps", "deadline; the last one where it was changed; null without deadline"),
        column!(ended, "ended_ps", "ps", "when the last byte arrived or the sender gave up; null if the run ended first"),
        column!(status, "status", "", "`completed`, `abandoned` or `unfinished`"),
        column!(met, "met", "", "whether it met its deadline; null without deadline, or when the run ended before both the flow and its deadline"),
        column!(fct, "fct_ps", "ps", "completion time of a completed flow: from its start to the last byte at the receiver"),
        column!(delivered, "delivered_bytes", "bytes", "bytes that arrived, each counted once"),
        column!(retransmits, "retransmits", "packets", "data packets sent again"),
        column!(retransmits_by.nack, "retransmits_nack", "packets", "those of `retransmits` that followed a NACK"),
        column!(retransmits_by.bounce, "retransmits_bounce", "packets", "those of `retransmits` that followed a header returned by a switch"),
        column!(retransmits_by.timeout, "retransmits_timeout", "packets", "those of `retransmits` that followed a timeout, of the sender or the receiver"),
        column!(retransmits_by.duplicate_ack, "retransmits_duplicate_ack", "packets", "those of `retransmits` that followed acknowledgements of later packets"),
        column!(timeouts, "timeouts", "", "retransmission timers that fired"),
        column!(trims, "trims", "packets", "trimmed headers that its receiver got"),
        column!(bounces, "bounces", "packets", "headers that switches returned to its sender"),
        column!(slowdown, "slowdown", "", "`fct_ps` over `ideal_ps`"),
        column!(censored, "censored_ps", "ps", "of an unfinished flow: from its start to the end of the run, a lower bound of its completion time"),
        column!(ideal, "ideal_ps", "ps", "least completion time on an empty network; null where it is not known"),
        column!(measured, "measured", "", "whether it is in the statistics of flows: not background, not endless, and started in the measured window"),
        column!(in_window.delivered, "window_bytes", "bytes", "`delivered_bytes`, counted in the measured window"),
        column!(in_window.retransmits, "window_retransmits", "packets", "`retransmits`, counted in the measured window"),
        column!(in_window.retransmits_by.nack, "window_retransmits_nack", "packets", "`retransmits_nack`, counted in the measured window"),
        column!(in_window.retransmits_by.bounce, "window_retransmits_bounce", "packets", "`retransmits_bounce`, counted in the measured window"),
        column!(in_window.retransmits_by.timeout, "window_retransmits_timeout", "packets", "`retransmits_timeout`, counted in the measured window"),
        column!(in_window.retransmits_by.duplicate_ack, "window_retransmits_duplicate_ack", "packets", "`retransmits_duplicate_ack`, counted in the measured window"),
        column!(in_window.timeouts, "window_timeouts", "", "`timeouts`, counted in the measured window"),
        column!(traffic, "traffic", "", "name of its `[[traffic]]`; its pattern where that has no name"),
    ];
}

/// The name of a status in files.
fn status_name(status: FlowStatus) -> &'static str {
    match status {
        FlowStatus::Completed => "completed",
        FlowStatus::Abandoned => "abandoned",
        FlowStatus::Unfinished => "unfinished",
    }
}

impl Field for FlowStatus {
    const KIND: Kind = Kind::Text;

    fn to_cell(&self) -> Cell<'_> {
        Cell::Text(status_name(*self))
    }

    fn from_cell(cell: Cell<'_>) -> Result<FlowStatus, String> {
        let name = match cell {
            Cell::Text(name) => name,
            Cell::Shared(name) => name,
            other => return Err(misplaced(other, Kind::Text)),
        };
        [FlowStatus::Completed, FlowStatus::Abandoned, FlowStatus::Unfinished]
            .into_iter()
            .find(|status| status_name(*status) == name)
            .ok_or_else(|| format!("holds the unknown status `{name}`"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use punctual_core::{Class, FlowSpec, TransportId};

    /// A flow of 1000 bytes that started at 1 µs, took 9 µs and had a deadline after 10 µs.
    pub(crate) fn record(id: u32) -> FlowRecord {
        FlowRecord {
            spec: FlowSpec {
                id: FlowId(id),
                src: HostId(0),
                dst: HostId(1),
                size: Bytes::new(1_000),
                start: micros(1),
                deadline: Some(micros(11)),
                transport: TransportId(0),
                class: Class::DATA,
                background: false,
                pattern: 0,
            },
            status: FlowStatus::Completed,
            ended: Some(micros(10)),
            delivered: Bytes::new(1_000),
            retransmits: 0,
            retransmits_by: Default::default(),
            timeouts: 0,
            trims: 0,
            bounces: 0,
            in_window: FlowCounts { delivered: Bytes::new(1_000), ..FlowCounts::default() },
        }
    }

    pub(crate) fn micros(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn row(record: FlowRecord, run_ended: Instant) -> FlowRow {
        FlowRow::new(&record, "ndp".into(), run_ended, Some(Duration::from_micros(3)))
    }

    fn unfinished() -> FlowRecord {
        FlowRecord { status: FlowStatus::Unfinished, ended: None, ..record(0) }
    }

    #[test]
    fn completed_flow_has_time_and_slowdown() {
        let row = row(record(0), micros(100));
        assert_eq!(row.fct, Some(Duration::from_micros(9)));
        assert_eq!(row.slowdown, Some(3.0));
        assert_eq!(row.met, Some(true));
    }

    #[test]
    fn unfinished_flow_is_censored_at_the_end_of_the_run() {
        assert_eq!(row(unfinished(), micros(12)).censored, Some(Duration::from_micros(11)));
        assert_eq!(row(record(0), micros(12)).censored, None);
    }

    #[test]
    fn completed_flow_on_the_dot_is_on_time_and_a_picosecond_later_is_not() {
        let at = |ended| row(FlowRecord { ended: Some(ended), ..record(0) }, micros(100)).met;
        assert_eq!(at(micros(11)), Some(true));
        assert_eq!(at(micros(11) + Duration::from_picos(1)), Some(false));
    }

    #[test]
    fn unfinished_flow_missed_its_deadline_only_if_it_was_up() {
        assert_eq!(row(unfinished(), micros(12)).met, Some(false));
        assert_eq!(row(unfinished(), micros(11)).met, Some(false), "deadline at the very end");
        assert_eq!(row(unfinished(), micros(10)).met, None, "the outcome is unknown");
    }

    #[test]
    fn abandoned_flow_missed_its_deadline_even_before_it_was_up() {
        let abandoned = FlowRecord { status: FlowStatus::Abandoned, ..record(0) };
        let row = row(abandoned, micros(10));
        assert_eq!((row.met, row.fct, row.slowdown), (Some(false), None, None));
        assert_eq!(row.ended, Some(micros(10)));
    }

    #[test]
    fn endless_flow_has_no_size_and_is_not_measured() {
        let mut record = unfinished();
        record.spec.size = Bytes::ENDLESS;
        let row = row(record, micros(100));
        assert_eq!(row.size, None);
        assert!(!row.measured);
    }

    #[test]
    fn status_names_go_both_ways() {
        for status in [FlowStatus::Completed, FlowStatus::Abandoned, FlowStatus::Unfinished] {
            assert_eq!(FlowStatus::from_cell(status.to_cell()), Ok(status));
        }
        assert!(FlowStatus::from_cell(Cell::Text("lost")).is_err());
    }
}
