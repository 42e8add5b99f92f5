//! All flows of one transport on a set of hosts, so that drivers differ only in how packets move.

use crate::{
    Endpoint, ExtArena, FlowRoute, FlowSpec, HostCx, HostId, Instant, NicInfo, Outbox, Packet,
    Slab, Transport, Wait,
};

/// Senders, receivers and shared state of one transport, each in an arena of its own kind.
/// The driver keeps the slots it is given and names them in later calls.
pub struct Stack<T: Transport> {
    config: T,
    hosts: Vec<T::Shared>,
    senders: Slab<T::Sender>,
    receivers: Slab<T::Receiver>,
}

/// What a call needs besides the stack: the time, where, and where answers go.
pub struct Call<'a> {
    /// The time.
    pub now: Instant,
    /// The host called.
    pub host: HostId,
    /// Header extensions.
    pub ext: &'a mut ExtArena,
    /// Answers.
    pub out: &'a mut Outbox,
}

macro_rules! cx {
    ($self:ident, $call:ident) => {
        HostCx {
            now: $call.now,
            config: &$self.config,
            shared: &mut $self.hosts[$call.host.index()],
            ext: &mut *$call.ext,
            out: &mut *$call.out,
        }
    };
}

impl<T: Transport> Stack<T> {
    /// A stack on these hosts, in order of their ids.
    pub fn new(config: T, nics: &[NicInfo]) -> Self {
        let hosts = nics.iter().map(|nic| config.open_host(nic)).collect();
        Stack { config, hosts, senders: Slab::default(), receivers: Slab::default() }
    }

    /// The transport's parameters.
    pub fn config(&self) -> &T {
        &self.config
    }

    /// The shared state of a host.
    pub fn shared(&self, host: HostId) -> &T::Shared {
        &self.hosts[host.index()]
    }

    /// Starts a flow; returns its sender's slot.
    pub fn open_sender(&mut self, flow: &FlowSpec, route: &FlowRoute, call: Call<'_>) -> u32 {
        let sender = T::open_sender(flow, route, &mut cx!(self, call));
        self.senders.insert(sender)
    }

    /// Makes the receiver for a flow's first packet; returns its slot.
    pub fn open_receiver(&mut self, first: &Packet, route: &FlowRoute, call: Call<'_>) -> u32 {
        let receiver = T::open_receiver(first, route, &mut cx!(self, call));
        self.receivers.insert(receiver)
    }

    /// Hands a packet to a sender.
    #[inline]
    pub fn sender_packet(&mut self, slot: u32, packet: &Packet, call: Call<'_>) {
        if let Some(sender) = self.senders.get_mut(slot) {
            sender.handle_packet(packet, &mut cx!(self, call));
        }
    }

    /// Hands a packet to a receiver.
    #[inline]
    pub fn receiver_packet(&mut self, slot: u32, packet: &Packet, call: Call<'_>) {
        if let Some(receiver) = self.receivers.get_mut(slot) {
            receiver.handle_packet(packet, &mut cx!(self, call));
        }
    }

    /// Fires a sender's timer.
    pub fn sender_timeout(&mut self, slot: u32, call: Call<'_>) {
        if let Some(sender) = self.senders.get_mut(slot) {
            sender.handle_timeout(&mut cx!(self, call));
        }
    }

    /// Fires a receiver's timer.
    pub fn receiver_timeout(&mut self, slot: u32, call: Call<'_>) {
        if let Some(receiver) = self.receivers.get_mut(slot) {
            receiver.handle_timeout(&mut cx!(self, call));
        }
    }

    /// Tells a sender its flow's new deadline.
    pub fn sender_deadline(&mut self, slot: u32, deadline: Option<Instant>, call: Call<'_>) {
        if let Some(sender) = self.senders.get_mut(slot) {
            sender.handle_deadline(deadline, &mut cx!(self, call));
        }
    }

    /// Fires the timer of a host's shared state.
    pub fn host_timeout(&mut self, call: Call<'_>) {
        T::handle_host_timeout(&mut cx!(self, call));
    }

    /// Asks a sender for its next packet.
    #[inline]
    pub fn poll_transmit(&mut self, slot: u32, call: Call<'_>) -> Option<Packet> {
        self.senders.get_mut(slot)?.poll_transmit(&mut cx!(self, call))
    }

    /// Forgets a sender of `host` that has ended.
    pub fn close_sender(&mut self, slot: u32, host: HostId) {
        self.senders.remove(slot).close(&mut self.hosts[host.index()]);
    }

    /// Forgets a receiver of `host`.
    pub fn close_receiver(&mut self, slot: u32, host: HostId) {
        self.receivers.remove(slot).close(&mut self.hosts[host.index()]);
    }

    /// Asks a sender of `host` for its gauges.
    pub fn sender_gauges(&self, slot: u32, host: HostId, tell: &mut dyn FnMut(&'static str, f64)) {
        if let Some(sender) = self.senders.get(slot) {
            sender.gauges(&self.hosts[host.index()], tell);
        }
    }

    /// Asks a receiver of `host` for its gauges.
    pub fn receiver_gauges(
        &self,
        slot: u32,
        host: HostId,
        tell: &mut dyn FnMut(&'static str, f64),
    ) {
        if let Some(receiver) = self.receivers.get(slot) {
            receiver.gauges(&self.hosts[host.index()], tell);
        }
    }

    /// Asks a sender what it waits for.
    pub fn sender_waits_for(&self, slot: u32) -> Wait {
        self.senders.get(slot).map_or(Wait::Timer, Endpoint::waits_for)
    }

    /// Asks a receiver what it waits for.
    pub fn receiver_waits_for(&self, slot: u32) -> Wait {
        self.receivers.get(slot).map_or(Wait::Timer, Endpoint::waits_for)
    }

    /// A sender's state, for tests and time series.
    pub fn sender(&self, slot: u32) -> Option<&T::Sender> {
        self.senders.get(slot)
    }

    /// A receiver's state, for tests and time series.
    pub fn receiver(&self, slot: u32) -> Option<&T::Receiver> {
        self.receivers.get(slot)
    }
}
