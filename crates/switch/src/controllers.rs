//! The controllers of D3, RCPdc and PDQ at the ports of a switch.

use crate::context::{SwitchContext, What};
use punctual_core::{
    Controller, ControllerState, ExtArena, Instant, PacketId, PortId, TransportId, TransportSet,
};
use punctual_net::Port;
use punctual_transports::{AnyController, AnyTransport};

/// A transport's controller at a port.
struct PortController {
    controller: AnyController,
    port: PortId,
    /// When it wants to be called, or never.
    timeout: Instant,
    /// The earliest event that is scheduled for it, or never.
    event_at: Instant,
}

/// All controllers, found by transport and port.
#[derive(Default)]
pub(crate) struct Controllers {
    list: Vec<PortController>,
    /// By transport, then by port: the place in `list` plus 1, or 0.
    places: Vec<Vec<u32>>,
}

impl Controllers {
    /// Creates the controllers of every transport at the ports for which `wants` holds.
    pub(crate) fn new(
        transports: &[AnyTransport],
        ports: &[Port],
        wants: impl Fn(PortId) -> bool,
    ) -> Self {
        let mut all = Controllers::default();
        for transport in transports {
            let mut places = vec![0; ports.len()];
            for (p, place) in places.iter_mut().enumerate() {
                let port = PortId::from(p);
                let view = ports[p].view(port, Instant::ZERO);
                let Some(controller) = wants(port).then(|| transport.controller(&view)).flatten()
                else {
                    continue;
                };
                let (timeout, event_at) = (Instant::NEVER, Instant::NEVER);
                all.list.push(PortController { controller, port, timeout, event_at });
                *place = all.list.len() as u32;
            }
            all.places.push(places);
        }
        all
    }

    /// Whether a transport has controllers.
    pub(crate) fn has(&self, transport: TransportId) -> bool {
        self.places.get(transport.index()).is_some_and(|places| places.iter().any(|p| *p > 0))
    }

    /// Whether a port has a controller, and whether one of its controllers reads answers.
    pub(crate) fn at(&self, port: PortId) -> (bool, bool) {
        let mut found = (false, false);
        for c in self.list.iter().filter(|c| c.port == port) {
            found = (true, found.1 | c.controller.reads_answers());
        }
        found
    }

    /// Goes on with old controllers: `same` has the old place of a transport and port whose
    /// controller may go on. Schedules the timers of all.
    pub(crate) fn take_over(
        &mut self,
        old: Controllers,
        same: impl Fn(usize, PortId) -> Option<(usize, PortId)>,
        cx: &mut SwitchContext,
    ) {
        let mut list: Vec<Option<PortController>> = old.list.into_iter().map(Some).collect();
        for (t, places) in self.places.iter().enumerate() {
            for (p, place) in places.iter().enumerate().filter(|(_, place)| **place > 0) {
                let Some((transport, port)) = same(t, PortId::from(p)) else { continue };
                let from = old.places.get(transport).and_then(|places| places.get(port.index()));
                let from = from.and_then(|from| (*from as usize).checked_sub(1));
                if let Some(from) = from.and_then(|from| list[from].take()) {
                    let own = &mut self.list[*place as usize - 1];
                    (own.controller, own.timeout) = (from.controller, from.timeout);
                }
            }
        }
        for (place, controller) in self.list.iter_mut().enumerate() {
            controller.schedule(place, cx);
        }
    }

    fn place(&self, transport: TransportId, port: PortId) -> Option<usize> {
        let place = *self.places.get(transport.index())?.get(port.index())?;
        (place as usize).checked_sub(1)
    }

    /// Shows a packet to the controller of the port by which it will leave.
    pub(crate) fn forward(
        &mut self,
        id: PacketId,
        port_id: PortId,
        port: &mut Port,
        cx: &mut SwitchContext,
        ext: &mut ExtArena,
    ) {
        let Some(place) = self.place(cx.packets[id].transport, port_id) else { return };
        port.catch_up(port_id, cx);
        let view = port.view(port_id, cx.now);
        let c = &mut self.list[place];
        c.timeout = c.controller.forward(&mut cx.packets[id], &view, ext);
        c.schedule(place, cx);
    }

    /// Shows a packet of the reverse direction to the controller of the forward direction's port.
    pub(crate) fn reverse(&mut self, id: PacketId, port: PortId, cx: &mut SwitchContext) {
        if let Some(place) = self.place(cx.packets[id].transport, port) {
            self.list[place].controller.handle_reverse(&mut cx.packets[id], port);
        }
    }

    /// The event of a controller's timer has come.
    pub(crate) fn timer(&mut self, place: u32, ports: &mut [Port], cx: &mut SwitchContext) {
        let place = place as usize;
        let c = &mut self.list[place];
        if cx.now < c.event_at {
            return; // a later event is still to come
        }
        c.event_at = Instant::NEVER;
        if c.timeout <= cx.now {
            let port = &mut ports[c.port.index()];
            port.catch_up(c.port, cx);
            c.controller.handle_timeout(&port.view(c.port, cx.now));
            c.timeout = c.controller.next_timeout().unwrap_or(Instant::NEVER);
        }
        c.schedule(place, cx);
    }

    /// The state of each controller, for reports.
    pub(crate) fn states(&self) -> impl Iterator<Item = (PortId, ControllerState)> + '_ {
        self.list.iter().map(|c| (c.port, c.controller.state()))
    }
}

impl PortController {
    /// Makes sure that an event comes when the controller wants to be called.
    #[inline]
    fn schedule(&mut self, place: usize, cx: &mut SwitchContext) {
        if self.timeout < self.event_at {
            self.event_at = self.timeout;
            cx.events.push(self.timeout, What::Timer(place as u32));
        }
    }
}
