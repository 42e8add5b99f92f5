//! Controllers of explicit-rate transports at ports, which see packets of both directions.

use crate::engine::Engine;
use crate::events::{EventClass, EventQueue};
use crate::scenario_events::ScenarioEvent;
use crate::tap::{Observation, Tap};
use crate::timers::Timers;
use punctual_core::{Controller, Instant, PacketId, PortId, TransportId, TransportSet};
use punctual_record::ControllerRecord;

/// A transport's controller at a port.
pub(crate) struct PortController<C> {
    pub(crate) controller: C,
    timer: u32,
    /// When the timer fires, or never.
    timeout: Instant,
}

impl<C: Controller> PortController<C> {
    pub(crate) fn new(controller: C, timer: u32) -> Self {
        PortController { controller, timer, timeout: Instant::NEVER }
    }

    /// Sets the controller's timer to `timeout`.
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

    /// Asks the controller for its timeout and sets its timer to that.
    fn arm_again(&mut self, timers: &mut Timers, events: &mut EventQueue) {
        let timeout = self.controller.next_timeout();
        self.arm(timeout.unwrap_or(Instant::NEVER), timers, events);
    }
}

/// The controllers of a network, by transport, then by port.
pub(crate) struct Controllers<C> {
    /// Transports without controllers have an empty list, and so do those that
    /// [`Controllers::owners`] sends to another.
    lists: Vec<Vec<Option<PortController<C>>>>,
    /// The transport whose controllers serve each transport, usually its own.
    owners: Vec<TransportId>,
}

impl<C> Default for Controllers<C> {
    fn default() -> Self {
        Controllers { lists: Vec::new(), owners: Vec::new() }
    }
}

/// The transport of a run whose controllers serve `transports[index]`: see
/// [`TransportInfo::ports_of`](punctual_core::TransportInfo::ports_of).
pub(crate) fn owner<S: TransportSet>(transports: &[S], index: usize) -> TransportId {
    let shared = transports[index].info().ports_of;
    let found = shared.and_then(|name| transports.iter().position(|t| t.name() == name));
    TransportId(found.unwrap_or(index) as u8)
}

impl<C> Controllers<C> {
    /// Adds the controllers of the next transport, by port, which those of `owner` serve.
    pub(crate) fn push(
        &mut self,
        owner: TransportId,
        mut of_ports: Vec<Option<PortController<C>>>,
    ) {
        if of_ports.iter().all(Option::is_none) {
            of_ports = Vec::new();
        }
        self.lists.push(of_ports);
        self.owners.push(owner);
    }

    /// Takes over the controllers that another shard of the network has.
    pub(crate) fn adopt(&mut self, other: Controllers<C>) {
        for (own, theirs) in self.lists.iter_mut().zip(other.lists) {
            own.resize_with(own.len().max(theirs.len()), || None);
            for (own, their) in own.iter_mut().zip(theirs) {
                if their.is_some() {
                    *own = their;
                }
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, transport: TransportId, port: PortId) -> Option<&PortController<C>> {
        let owner = self.owners.get(transport.index())?;
        self.lists.get(owner.index())?.get(port.index())?.as_ref()
    }

    #[inline]
    fn get_mut(&mut self, transport: TransportId, port: PortId) -> Option<&mut PortController<C>> {
        let owner = self.owners.get(transport.index())?;
        self.lists.get_mut(owner.index())?.get_mut(port.index())?.as_mut()
    }

    /// The controllers of a port, each with the transport that it belongs to.
    pub(crate) fn at(
        &self,
        port: PortId,
    ) -> impl Iterator<Item = (TransportId, &PortController<C>)> {
        let lists = self.lists.iter().enumerate();
        lists.filter_map(move |(t, list)| {
            let c = list.get(port.index())?.as_ref()?;
            Some((TransportId(t as u8), c))
        })
    }
}

impl<S: TransportSet, T: Tap> Engine<S, T> {
    /// Shows a packet of a flow's data to the controller of the port by which it will leave.
    #[inline(never)]
    pub(crate) fn control_forward(&mut self, port_id: PortId, id: PacketId) {
        self.control_forward_inlined(port_id, id);
    }

    /// Force-inlined copy of [`Engine::control_forward`] for arrivals at switches, the hot path.
    #[inline(always)]
    pub(crate) fn control_forward_inlined(&mut self, port_id: PortId, id: PacketId) {
        let packet = &self.cx.packets[id];
        let Some(c) = self.fabric.controllers.get_mut(packet.transport, port_id) else { return };
        let port = &mut self.fabric.ports[port_id.index()];
        port.catch_up(port_id, &mut self.cx);
        let view = port.view(port_id, self.cx.now);
        let before = T::WATCHES_CONTROLLERS.then(|| c.controller.state());
        let timeout = c.controller.forward(&mut self.cx.packets[id], &view, &mut self.fabric.ext);
        if let Some(before) = before {
            let (before, after) = (&before, &c.controller.state());
            self.cx.tap.observe(Observation::PacketControlled { port: port_id, before, after });
        }
        c.arm(timeout, &mut self.timers, &mut self.cx.events);
        self.show_extension(id);
    }

    /// Shows the header extension of a packet to observers that want it.
    #[inline(always)]
    pub(crate) fn show_extension(&mut self, id: PacketId) {
        if T::WATCHES_HEADERS
            && let Some(ext) = self.cx.packets[id].ext
        {
            let block = self.fabric.ext.get(ext);
            self.cx.tap.observe(Observation::HeaderExtended { id, block });
        }
    }

    /// Shows a packet of the reverse direction to the controller of the port of the forward one.
    #[inline(never)]
    pub(crate) fn control_reverse(&mut self, port_id: PortId, id: PacketId) {
        let packet = &mut self.cx.packets[id];
        if let Some(c) = self.fabric.controllers.get_mut(packet.transport, port_id) {
            c.controller.handle_reverse(packet, port_id);
        }
    }

    #[inline(never)]
    pub(crate) fn control_timeout(&mut self, transport: TransportId, port_id: PortId) {
        self.catch_up(port_id);
        let view = self.fabric.ports[port_id.index()].view(port_id, self.cx.now);
        if let Some(c) = self.fabric.controllers.get_mut(transport, port_id) {
            c.timeout = Instant::NEVER; // it has fired
            c.controller.handle_timeout(&view);
            c.arm_again(&mut self.timers, &mut self.cx.events);
        }
    }

    pub(crate) fn reset_switches(&mut self) {
        while let Some(reset) = self.faults.switch_resets.get(self.faults.next_reset).copied() {
            if reset.at > self.cx.now {
                self.schedule(reset.at, ScenarioEvent::SwitchReset);
                return;
            }
            self.faults.next_reset += 1;
            let links = self.cx.network.links.iter();
            for list in &mut self.fabric.controllers.lists {
                for (_, c) in links.clone().zip(list).filter(|(link, _)| link.from == reset.switch)
                {
                    if let Some(c) = c {
                        c.controller.reset();
                        c.arm_again(&mut self.timers, &mut self.cx.events);
                    }
                }
            }
        }
    }

    /// The state of every controller, by port.
    pub(crate) fn controller_records(&self) -> Vec<ControllerRecord> {
        let mut records = Vec::new();
        for port in (0..self.fabric.ports.len()).map(PortId::from) {
            for (transport, c) in self.fabric.controllers.at(port) {
                let state = c.controller.state();
                records.push(ControllerRecord { port, transport, state });
            }
        }
        records
    }
}
