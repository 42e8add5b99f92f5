//! What happens besides packets: flows start, links change, switches restart, samples are taken.

use crate::engine::Engine;
use crate::events::EventClass;
use crate::setup::LinkFault;
use crate::tap::Tap;
use punctual_core::rng::Stream;
use punctual_core::{Instant, PortId};
use punctual_record::PortSample;

/// What a `World` event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum World {
    LinkChange = 0,
    WindowBegins = 1,
    FlowStart = 2,
    Sample = 3,
    SwitchReset = 4,
    DeadlineChange = 5,
    WindowEnds = 6,
}

impl World {
    /// From here on, targets are frames that pause links.
    const FIRST_FRAME: u32 = 16;
}

/// What befalls packets on a link that is not sound.
#[derive(Debug)]
pub(crate) struct LinkHealth {
    is_down: bool,
    loss: f64,
    stream: Stream,
}

impl<T: Tap> Engine<T> {
    pub(crate) fn frame_event(&mut self, at: Instant, port: PortId, frame: u32) {
        self.line.events.push(at, EventClass::World, port.0, World::FIRST_FRAME + frame);
    }

    pub(crate) fn world(&mut self, at: Instant, what: World) {
        // A window that ends and one that begins at an instant divide its events alike.
        let key = if what == World::WindowEnds { World::WindowBegins } else { what };
        self.line.events.push(at, EventClass::World, key as u32, what as u32);
    }

    /// Flows start at this time. One event stands for all: each sets the next, so that a second
    /// would set one more for every start to come.
    pub(crate) fn expect_flows(&mut self, at: Instant) {
        if at < self.flow_start_at {
            self.flow_start_at = at;
            self.world(at, World::FlowStart);
        }
    }

    pub(crate) fn schedule_world(&mut self) {
        if let Some(first) = self.workload.flows.first() {
            self.expect_flows(first.start);
        }
        if let Some(first) = self.setup.link_changes.first() {
            self.world(first.at, World::LinkChange);
        }
        if let Some(first) = self.setup.switch_resets.first() {
            self.world(first.at, World::SwitchReset);
        }
        if let Some(sampling) = &self.setup.sampling {
            self.world(Instant::ZERO + sampling.every, World::Sample);
        }
        if self.setup.measure.from > Instant::ZERO {
            self.world(self.setup.measure.from, World::WindowBegins);
        }
        if let Some(until) = self.setup.measure.until {
            self.world(until, World::WindowEnds);
        }
    }

    #[cold]
    pub(crate) fn world_event(&mut self, what: u32) {
        match what {
            w if w == World::FlowStart as u32 => self.start_flows(),
            w if w == World::LinkChange as u32 => self.change_links(),
            w if w == World::Sample as u32 => self.sample(),
            w if w == World::SwitchReset as u32 => self.reset_switches(),
            w if w == World::DeadlineChange as u32 => self.change_deadlines(),
            w if w == World::WindowBegins as u32 => self.begin_window(),
            w if w == World::WindowEnds as u32 => self.end_window(),
            w => self.pause_arrives(w - World::FIRST_FRAME),
        }
    }

    pub(crate) fn change_links(&mut self) {
        while let Some(change) = self.setup.link_changes.get(self.setup.next_change).copied() {
            if change.at > self.line.now {
                self.world(change.at, World::LinkChange);
                return;
            }
            self.setup.next_change += 1;
            self.change_link(change.port, change.what);
        }
    }

    pub(crate) fn change_link(&mut self, port_id: PortId, what: LinkFault) {
        if let LinkFault::Withdrawn(is_withdrawn) = what {
            self.detours.set(port_id, is_withdrawn, self.ports.len());
            return;
        }
        self.catch_up(port_id);
        if self.health.is_empty() {
            self.health.resize_with(self.ports.len(), || None);
        }
        let health = self.health[port_id.index()].get_or_insert_with(|| LinkHealth {
            is_down: false,
            loss: 0.0,
            stream: Stream::named(self.seed, "link loss", u64::from(port_id.0)),
        });
        let port = &mut self.ports[port_id.index()];
        match what {
            LinkFault::Rate(rate) => {
                port.set_rate(rate);
                self.line.tap.rate_changed(port_id, rate);
            }
            LinkFault::Loss(p) => health.loss = p,
            LinkFault::Down => health.is_down = true,
            LinkFault::Up => health.is_down = false,
            LinkFault::Withdrawn(_) => {}
        }
        port.is_watched = health.is_down || health.loss > 0.0 || port.is_answered;
        match what {
            LinkFault::Down => {
                self.line.tap.cut(port_id, true);
                self.end_pauses(port_id);
            }
            LinkFault::Up => self.line.tap.cut(port_id, false),
            _ => {}
        }
    }

    /// Whether a link is cut.
    pub(crate) fn is_cut(&self, port: PortId) -> bool {
        self.health.get(port.index()).is_some_and(|h| h.as_ref().is_some_and(|h| h.is_down))
    }

    #[cold]
    pub(crate) fn is_lost(&mut self, port: PortId) -> bool {
        match self.health.get_mut(port.index()) {
            Some(Some(health)) => {
                health.is_down || health.loss > 0.0 && health.stream.chance(health.loss)
            }
            _ => false,
        }
    }

    pub(crate) fn sample(&mut self) {
        let Some(sampling) = self.setup.sampling.take() else {
            return;
        };
        for &port_id in &sampling.ports {
            self.catch_up(port_id);
            let port = &self.ports[port_id.index()];
            let (bytes, packets) = port.queue.waiting();
            let in_service = port.in_service_at(self.line.now);
            self.samples.push(PortSample {
                at: self.line.now,
                port: port_id,
                queue_bytes: bytes.get() + u64::from(in_service.bytes),
                queue_packets: packets + u32::from(in_service.bytes > 0),
                sent_bytes: port.sent_bytes,
                paused: self.paused_time(port_id),
            });
        }
        self.sample_gauges(&sampling);
        self.world(self.line.now + sampling.every, World::Sample);
        self.setup.sampling = Some(sampling);
    }
}
