//! What explicit-rate transports run at ports: packets are shown to their controllers both ways.

use crate::engine::Engine;
use crate::events::{EventClass, EventQueue};
use crate::record::ControllerRecord;
use crate::tap::Tap;
use crate::timers::Timers;
use crate::world::World;
use punctual_core::{Controller, Instant, PacketId, PortId, TransportId};
use punctual_transports::AnyController;

/// A controller at a port, and the transport whose packets it reads.
pub(crate) struct PortController {
    pub(crate) transport: TransportId,
    pub(crate) controller: AnyController,
    pub(crate) timer: u32,
    /// What the timer is set to.
    pub(crate) timeout: Option<Instant>,
}

impl<T: Tap> Engine<T> {
    /// Shows a packet of a flow's data to the controllers of the port by which it will leave.
    #[inline(always)]
    pub(crate) fn control_forward(&mut self, port_id: PortId, id: PacketId) {
        self.catch_up(port_id);
        let view = self.ports[port_id.index()].view(port_id, self.line.now);
        let packet = &mut self.line.packets[id];
        for c in &mut self.controllers[port_id.index()] {
            if c.transport == packet.transport {
                let before = T::WATCHES_CONTROLLERS.then(|| c.controller.state());
                c.controller.handle_forward(packet, &view, &mut self.ext);
                if let Some(before) = before {
                    self.line.tap.controlled(port_id, &before, &c.controller.state());
                }
                arm(c, &mut self.timers, &mut self.line.events);
            }
        }
    }

    /// Shows a packet to the controllers of the port whose link it comes back along.
    #[inline(always)]
    pub(crate) fn control_reverse(&mut self, port_id: PortId, id: PacketId) {
        self.catch_up(port_id);
        let view = self.ports[port_id.index()].view(port_id, self.line.now);
        let packet = &mut self.line.packets[id];
        for c in &mut self.controllers[port_id.index()] {
            if c.transport == packet.transport {
                c.controller.handle_reverse(packet, &view, &mut self.ext);
                arm(c, &mut self.timers, &mut self.line.events);
            }
        }
    }

    pub(crate) fn control_timeout(&mut self, transport: TransportId, port_id: PortId) {
        self.catch_up(port_id);
        let view = self.ports[port_id.index()].view(port_id, self.line.now);
        for c in &mut self.controllers[port_id.index()] {
            if c.transport == transport {
                c.timeout = None; // it has fired
                c.controller.handle_timeout(&view);
                arm(c, &mut self.timers, &mut self.line.events);
            }
        }
    }

    pub(crate) fn reset_switches(&mut self) {
        while let Some(reset) = self.setup.switch_resets.get(self.setup.next_reset).copied() {
            if reset.at > self.line.now {
                self.world(reset.at, World::SwitchReset);
                return;
            }
            self.setup.next_reset += 1;
            for (link, list) in self.network.links.iter().zip(&mut self.controllers) {
                for c in list.iter_mut().filter(|_| link.from == reset.switch) {
                    c.controller.reset();
                    arm(c, &mut self.timers, &mut self.line.events);
                }
            }
        }
    }

    /// What controllers know, counted into the totals.
    pub(crate) fn controller_records(&mut self) -> Vec<ControllerRecord> {
        let count = self.controllers.iter().map(Vec::len).sum();
        let mut records = Vec::with_capacity(count);
        for (p, list) in self.controllers.iter().enumerate() {
            for c in list {
                let state = c.controller.state();
                self.totals.deadline_requests += state.deadline_requests;
                self.totals.priority_inversions += state.inversions;
                let (port, transport) = (PortId::from(p), c.transport);
                records.push(ControllerRecord { port, transport, state });
            }
        }
        records
    }
}

/// Sets a controller's timer to what it wants it to be.
#[inline]
pub(crate) fn arm(c: &mut PortController, timers: &mut Timers, events: &mut EventQueue) {
    let timeout = c.controller.next_timeout();
    if timeout != c.timeout {
        c.timeout = timeout;
        set_timer(c, timers, events);
    }
}

#[inline(never)]
fn set_timer(c: &PortController, timers: &mut Timers, events: &mut EventQueue) {
    match c.timeout {
        Some(at) => {
            if timers.set(c.timer, at) {
                events.push(at, EventClass::Timer, c.timer, c.timer);
            }
        }
        None => timers.clear(c.timer),
    }
}
