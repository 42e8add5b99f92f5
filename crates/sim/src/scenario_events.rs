//! Events that concern no packet: flows start, links change, switches restart, samples are taken.

use crate::engine::Engine;
use crate::events::EventClass;
use crate::setup::LinkFault;
use crate::tap::{Observation, Tap};
use punctual_core::rng::Stream;
use punctual_core::{Instant, PortId, TransportSet};
use punctual_record::PortSample;

/// What an event of [`EventClass::Scenario`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScenarioEvent {
    LinkChange = 0,
    WindowBegins = 1,
    FlowStart = 2,
    Sample = 3,
    SwitchReset = 4,
    DeadlineChange = 5,
    WindowEnds = 6,
}

impl ScenarioEvent {
    /// Targets from here on are numbers of pause frames. Their sources are as far above those of
    /// other events, which are the events' own numbers.
    pub(crate) const FIRST_FRAME: u32 = 16;
}

/// Whether a link loses packets: it is down, or loses them at random.
#[derive(Debug)]
pub(crate) struct LinkHealth {
    is_down: bool,
    loss: f64,
    stream: Stream,
}

impl<S: TransportSet, T: Tap> Engine<S, T> {
    pub(crate) fn frame_event(&mut self, at: Instant, port: PortId, frame: u32) {
        let from_first = |number: u32| ScenarioEvent::FIRST_FRAME + number;
        self.cx.events.push(at, EventClass::Scenario, from_first(port.0), from_first(frame));
    }

    pub(crate) fn schedule(&mut self, at: Instant, what: ScenarioEvent) {
        // The begin and the end of the window have one tie-breaking key, so that both split the
        // events of an instant at the same place.
        let key =
            if what == ScenarioEvent::WindowEnds { ScenarioEvent::WindowBegins } else { what };
        self.cx.events.push(at, EventClass::Scenario, key as u32, what as u32);
    }

    /// Schedules the start of the next flows. There is at most one such event at a time, because
    /// each schedules the next one.
    pub(crate) fn expect_flows(&mut self, at: Instant) {
        if at < self.starts.flow_start_at {
            self.starts.flow_start_at = at;
            self.schedule(at, ScenarioEvent::FlowStart);
        }
    }

    pub(crate) fn schedule_scenario(&mut self) {
        if let Some(first) = self.starts.flows.first() {
            self.expect_flows(first.start);
        }
        if let Some(first) = self.faults.link_changes.first() {
            self.schedule(first.at, ScenarioEvent::LinkChange);
        }
        if let Some(first) = self.faults.switch_resets.first() {
            self.schedule(first.at, ScenarioEvent::SwitchReset);
        }
        if let Some(sampling) = &self.recording.sampling {
            self.schedule(Instant::ZERO + sampling.every, ScenarioEvent::Sample);
        }
        if self.recording.measure.from > Instant::ZERO {
            self.schedule(self.recording.measure.from, ScenarioEvent::WindowBegins);
        }
        if let Some(until) = self.recording.measure.until {
            self.schedule(until, ScenarioEvent::WindowEnds);
        }
    }

    #[cold]
    pub(crate) fn scenario_event(&mut self, what: u32) {
        if self.is_copy() && what < ScenarioEvent::FIRST_FRAME {
            self.recording.totals.events -= 1; // one share counts it for all
        }
        match what {
            w if w == ScenarioEvent::FlowStart as u32 => self.start_flows(),
            w if w == ScenarioEvent::LinkChange as u32 => self.change_links(),
            w if w == ScenarioEvent::Sample as u32 => self.sample(),
            w if w == ScenarioEvent::SwitchReset as u32 => self.reset_switches(),
            w if w == ScenarioEvent::DeadlineChange as u32 => self.change_deadlines(),
            w if w == ScenarioEvent::WindowBegins as u32 => self.begin_window(),
            w if w == ScenarioEvent::WindowEnds as u32 => self.end_window(),
            w => self.pause_arrives(w - ScenarioEvent::FIRST_FRAME),
        }
    }

    pub(crate) fn change_links(&mut self) {
        while let Some(change) = self.faults.link_changes.get(self.faults.next_change).copied() {
            if change.at > self.cx.now {
                self.schedule(change.at, ScenarioEvent::LinkChange);
                return;
            }
            self.faults.next_change += 1;
            self.change_link(change.port, change.what);
        }
    }

    pub(crate) fn change_link(&mut self, port_id: PortId, what: LinkFault) {
        if let LinkFault::Withdrawn(is_withdrawn) = what {
            self.faults.detours.set(port_id, is_withdrawn, self.fabric.ports.len());
            return;
        }
        self.catch_up(port_id);
        if self.faults.health.is_empty() {
            self.faults.health.resize_with(self.fabric.ports.len(), || None);
        }
        let health = self.faults.health[port_id.index()].get_or_insert_with(|| LinkHealth {
            is_down: false,
            loss: 0.0,
            stream: Stream::named(self.seed, "link loss", u64::from(port_id.0)),
        });
        let port = &mut self.fabric.ports[port_id.index()];
        match what {
            LinkFault::Rate(rate) => {
                port.set_rate(rate);
                self.cx.tap.observe(Observation::RateChanged { port: port_id, rate });
            }
            LinkFault::Loss(p) => health.loss = p,
            LinkFault::Down => health.is_down = true,
            LinkFault::Up => health.is_down = false,
            LinkFault::Withdrawn(_) => {}
        }
        port.needs_arrival_checks =
            health.is_down || health.loss > 0.0 || port.reverse_has_controller;
        self.faults.checks_arrivals |= port.needs_arrival_checks;
        match what {
            LinkFault::Down => {
                self.cx.tap.observe(Observation::LinkCut { port: port_id, is_cut: true });
                self.end_pauses(port_id);
            }
            LinkFault::Up => {
                self.cx.tap.observe(Observation::LinkCut { port: port_id, is_cut: false });
            }
            _ => {}
        }
    }

    /// Whether a link is cut.
    pub(crate) fn is_cut(&self, port: PortId) -> bool {
        self.faults.health.get(port.index()).is_some_and(|h| h.as_ref().is_some_and(|h| h.is_down))
    }

    #[cold]
    pub(crate) fn is_lost(&mut self, port: PortId) -> bool {
        match self.faults.health.get_mut(port.index()) {
            Some(Some(health)) => {
                health.is_down || health.loss > 0.0 && health.stream.chance(health.loss)
            }
            _ => false,
        }
    }

    pub(crate) fn sample(&mut self) {
        let Some(sampling) = self.recording.sampling.take() else {
            return;
        };
        for &port_id in &sampling.ports {
            if !self.owns(self.cx.network.link(port_id).from) {
                continue;
            }
            self.catch_up(port_id);
            let port = &self.fabric.ports[port_id.index()];
            let (bytes, packets) = port.queue.waiting();
            let in_service = port.in_service_at(self.cx.now);
            self.recording.samples.push(PortSample {
                at: self.cx.now,
                port: port_id,
                queue_bytes: bytes.get() + u64::from(in_service.bytes),
                queue_packets: packets + u32::from(in_service.bytes > 0),
                sent_bytes: port.sent_bytes,
                paused: self.paused_time(port_id),
            });
        }
        self.sample_gauges(&sampling);
        self.schedule(self.cx.now + sampling.every, ScenarioEvent::Sample);
        self.recording.sampling = Some(sampling);
    }
}
