//! What explicit-rate transports run at ports: packets are shown to their controllers both ways.

use crate::engine::Engine;
use crate::events::{EventClass, EventQueue};
use crate::tap::Tap;
use crate::timers::Timers;
use crate::world::World;
use punctual_core::{Controller, Instant, PacketId, PortId, TransportId};
use punctual_record::ControllerRecord;
use punctual_transports::AnyController;

/// A transport's controller at a port.
pub(crate) struct PortController {
    pub(crate) controller: AnyController,
    timer: u32,
    /// What the timer is set to, or never.
    timeout: Instant,
}

impl PortController {
    pub(crate) fn new(controller: AnyController, timer: u32) -> Self {
        PortController { controller, timer, timeout: Instant::NEVER }
    }

    /// Sets its timer to what it wants it to be.
    #[inline]
    fn arm(&mut self, timeout: Instant, timers: &mut Timers, events: &mut EventQueue) {
        if timeout != self.timeout {
            self.timeout = timeout;
            self.set_timer(timers, events);
        }
    }

    #[inline(never)]
    fn set_timer(&self, timers: &mut Timers, events: &mut EventQueue) {
        if self.timeout == Instant::NEVER {
            timers.clear(self.timer);
        } else if timers.set(self.timer, self.timeout) {
            events.push(self.timeout, EventClass::Timer, self.timer, self.timer);
        }
    }

    /// The same, by asking it.
    fn arm_again(&mut self, timers: &mut Timers, events: &mut EventQueue) {
        let timeout = self.controller.next_timeout();
        self.arm(timeout.unwrap_or(Instant::NEVER), timers, events);
    }
}

/// The controllers of a network: by transport, then by port, so that a packet finds its own at
/// once. Transports without any have an empty list.
#[derive(Default)]
pub(crate) struct Controllers(Vec<Vec<Option<PortController>>>);

impl Controllers {
    /// Adds those of the next transport.
    pub(crate) fn push(&mut self, mut of_ports: Vec<Option<PortController>>) {
        if of_ports.iter().all(Option::is_none) {
            of_ports = Vec::new();
        }
        self.0.push(of_ports);
    }

    #[inline]
    pub(crate) fn get(&self, transport: TransportId, port: PortId) -> Option<&PortController> {
        self.0.get(transport.index())?.get(port.index())?.as_ref()
    }

    #[inline]
    fn get_mut(&mut self, transport: TransportId, port: PortId) -> Option<&mut PortController> {
        self.0.get_mut(transport.index())?.get_mut(port.index())?.as_mut()
    }

    /// Those of a port, and the transports whose they are.
    pub(crate) fn at(&self, port: PortId) -> impl Iterator<Item = (TransportId, &PortController)> {
        let transports = (0..self.0.len()).map(|t| TransportId(t as u8));
        transports.filter_map(move |t| self.get(t, port).map(|c| (t, c)))
    }
}

impl<T: Tap> Engine<T> {
    /// Shows a packet of a flow's data to the controller of the port by which it will leave.
    #[inline(never)]
    pub(crate) fn control_forward(&mut self, port_id: PortId, id: PacketId) {
        self.control_forward_here(port_id, id);
    }

    /// The same, for the one place where most packets pass.
    #[inline(always)]
    pub(crate) fn control_forward_here(&mut self, port_id: PortId, id: PacketId) {
        let packet = &self.line.packets[id];
        let Some(c) = self.controllers.get_mut(packet.transport, port_id) else { return };
        let port = &mut self.ports[port_id.index()];
        port.catch_up(port_id, &mut self.line);
        let view = port.view(port_id, self.line.now);
        let before = T::WATCHES_CONTROLLERS.then(|| c.controller.state());
        let timeout = c.controller.forward(&mut self.line.packets[id], &view, &mut self.ext);
        if let Some(before) = before {
            self.line.tap.controlled(port_id, &before, &c.controller.state());
        }
        c.arm(timeout, &mut self.timers, &mut self.line.events);
    }

    /// Shows a packet to the controller of the port whose link it comes back along.
    #[inline(never)]
    pub(crate) fn control_reverse(&mut self, port_id: PortId, id: PacketId) {
        let packet = &mut self.line.packets[id];
        if let Some(c) = self.controllers.get_mut(packet.transport, port_id) {
            c.controller.handle_reverse(packet, port_id);
        }
    }

    #[inline(never)]
    pub(crate) fn control_timeout(&mut self, transport: TransportId, port_id: PortId) {
        self.catch_up(port_id);
        let view = self.ports[port_id.index()].view(port_id, self.line.now);
        if let Some(c) = self.controllers.get_mut(transport, port_id) {
            c.timeout = Instant::NEVER; // it has fired
            c.controller.handle_timeout(&view);
            c.arm_again(&mut self.timers, &mut self.line.events);
        }
    }

    pub(crate) fn reset_switches(&mut self) {
        while let Some(reset) = self.setup.switch_resets.get(self.setup.next_reset).copied() {
            if reset.at > self.line.now {
                self.world(reset.at, World::SwitchReset);
                return;
            }
            self.setup.next_reset += 1;
            let links = self.network.links.iter();
            for list in &mut self.controllers.0 {
                for (_, c) in links.clone().zip(list).filter(|(link, _)| link.from == reset.switch)
                {
                    if let Some(c) = c {
                        c.controller.reset();
                        c.arm_again(&mut self.timers, &mut self.line.events);
                    }
                }
            }
        }
    }

    /// What controllers know.
    pub(crate) fn controller_records(&self) -> Vec<ControllerRecord> {
        let mut records = Vec::new();
        for port in (0..self.ports.len()).map(PortId::from) {
            for (transport, c) in self.controllers.at(port) {
                let state = c.controller.state();
                records.push(ControllerRecord { port, transport, state });
            }
        }
        records
    }
}
