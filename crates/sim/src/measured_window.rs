//! The measured window.
//!
//! Counters are copied when it begins and when it ends, and subtracted at the end of the run. So
//! the window costs nothing on the packet path.

use crate::engine::Engine;
use crate::tap::Tap;
use punctual_core::{PortId, TransportSet};
use punctual_record::{FlowCounts, PortTotals, Totals};

/// A snapshot of all counters of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    pub(crate) totals: Totals,
    pub(crate) ports: Vec<PortTotals>,
    /// Of the flows that have started.
    pub(crate) flows: Vec<FlowCounts>,
}

impl<S: TransportSet, T: Tap> Engine<S, T> {
    /// The window begins.
    pub(crate) fn begin_window(&mut self) {
        self.recording.window_begin = Some(self.counters());
    }

    /// The window ends. A run that stops when done may be over now.
    pub(crate) fn end_window(&mut self) {
        self.recording.window_end = Some(self.counters());
        if !self.is_copy() {
            self.end.awaited -= 1;
        }
        if self.is_done() {
            self.end.check_at = 0;
        }
    }

    /// Everything counted up to now.
    fn counters(&mut self) -> Counters {
        for port in 0..self.fabric.ports.len() {
            self.catch_up(PortId::from(port));
        }
        let mut totals = self.recording.totals.clone();
        let now = self.cx.now;
        let clock =
            |port| self.fabric.lossless.as_ref().map(|lossless| lossless.clock(port).totals(now));
        let port_totals = self.fabric.port_totals.iter().zip(&self.fabric.ports).enumerate();
        let ports: Vec<PortTotals> = port_totals
            .map(|(p, (counted, port))| PortTotals {
                sent_bytes: port.sent_bytes,
                sent_packets: port.sent_packets,
                pauses: clock(PortId::from(p)).unwrap_or_default(),
                ..*counted
            })
            .collect();
        for port in &ports {
            totals.paused += port.pauses.time;
            totals.longest_pause = totals.longest_pause.max(port.pauses.longest);
        }
        let counts = |flow: &punctual_record::FlowRecord| FlowCounts {
            delivered: flow.delivered,
            retransmits: flow.retransmits,
            retransmits_by: flow.retransmits_by,
            timeouts: flow.timeouts,
        };
        let flows: Vec<FlowCounts> = self.recording.records.iter().map(counts).collect();
        totals.retransmits = flows.iter().map(|flow| u64::from(flow.retransmits)).sum();
        for flow in &flows {
            let sums = totals.retransmits_by;
            totals.retransmits_by =
                sums.zip(flow.retransmits_by, |sum, count| sum + u64::from(count));
        }
        totals.timeouts = flows.iter().map(|flow| u64::from(flow.timeouts)).sum();
        for port in (0..self.fabric.ports.len()).map(PortId::from) {
            for (_, c) in self.fabric.controllers.at(port) {
                let state = punctual_core::Controller::state(&c.controller);
                totals.deadline_requests += state.deadline_requests;
                totals.priority_inversions += state.inversions;
            }
        }
        Counters { totals, ports, flows }
    }

    /// At the end of the run, replaces the counts of the whole run by those of the window.
    pub(crate) fn close_window(&mut self) {
        let whole = self.counters();
        let end = self.recording.window_end.take().unwrap_or_else(|| whole.clone());
        let begin = match self.recording.window_begin.take() {
            Some(begin) => begin,
            // The run ended before its window began.
            None if self.recording.measure.from > self.cx.now => end.clone(),
            None => Counters::default(),
        };
        self.recording.totals = Totals {
            events: whole.totals.events,
            longest_pause: whole.totals.longest_pause,
            ..end.totals.since(&begin.totals)
        };
        for (p, counted) in self.fabric.port_totals.iter_mut().enumerate() {
            let before = begin.ports.get(p).copied().unwrap_or_default();
            *counted = end.ports[p].since(&before);
            counted.pauses.longest = whole.ports[p].pauses.longest;
        }
        for (f, flow) in end.flows.iter().enumerate() {
            let before = begin.flows.get(f).copied().unwrap_or_default();
            self.recording.records[f].in_window = flow.since(&before);
        }
    }
}
