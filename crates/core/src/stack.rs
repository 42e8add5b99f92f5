//! All flows of one transport on a set of hosts, so that drivers differ only in how packets move.

use crate::{
    Endpoint, ExtArena, FlowRoute, FlowSpec, HostCx, HostId, Instant, NicInfo, Outbox, Packet,
    Slab, Transport, Wait, prefetch_lines_at,
};

/// How many cache lines of a host's shared state are prefetched.
const HOT_LINES: usize = 3;

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The end that sends the flow's data.
    Sender,
    /// The end that receives the flow's data.
    Receiver,
}

/// Senders, receivers and shared state of one transport, each in an arena of its own type.
///
/// Opening one end of a flow returns its slot. The driver names an end by [`End`] and slot in all
/// later calls.
pub struct Stack<T: Transport> {
    config: T,
    hosts: Vec<T::Shared>,
    senders: Slab<T::Sender>,
    receivers: Slab<T::Receiver>,
}

/// What a call needs besides the stack: the time, the host and the outbox.
pub struct Call<'a> {
    /// The time.
    pub now: Instant,
    /// The host on which the call happens.
    pub host: HostId,
    /// Header extensions.
    pub ext: &'a mut ExtArena,
    /// What the call asks of the driver.
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
            nic: 0,
        }
    };
}

/// Calls one end of a flow, if it is still open.
macro_rules! at_end {
    ($self:ident, $end:ident, $slot:ident, |$endpoint:ident| $call:expr) => {
        match $end {
            End::Sender => {
                if let Some($endpoint) = $self.senders.get_mut($slot) {
                    $call;
                }
            }
            End::Receiver => {
                if let Some($endpoint) = $self.receivers.get_mut($slot) {
                    $call;
                }
            }
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

    /// Prefetches what a call of one end, which is at `host`, will touch.
    #[inline]
    pub fn prefetch(&self, end: End, slot: u32, host: HostId) {
        match end {
            End::Sender => self.senders.prefetch(slot),
            End::Receiver => self.receivers.prefetch(slot),
        }
        self.prefetch_host(host);
    }

    /// Prefetches what one end, which has been fetched, points to. `packet` is what it will handle,
    /// if that is a packet.
    #[inline]
    pub fn prefetch_content(&self, end: End, slot: u32, host: HostId, packet: Option<&Packet>) {
        let shared = &self.hosts[host.index()];
        match end {
            End::Sender => {
                if let Some(sender) = self.senders.get(slot) {
                    sender.prefetch(packet, shared);
                }
            }
            End::Receiver => {
                if let Some(receiver) = self.receivers.get(slot) {
                    receiver.prefetch(packet, shared);
                }
            }
        }
    }

    /// Prefetches the first cache lines of the shared state of a host.
    #[inline]
    pub fn prefetch_host(&self, host: HostId) {
        prefetch_lines_at(&self.hosts, host.index(), HOT_LINES);
    }

    /// Prefetches what the shared state of a host, which has been fetched, points to.
    #[inline]
    pub fn prefetch_shared(&self, host: HostId) {
        T::prefetch_shared(&self.hosts[host.index()]);
    }

    /// Hands a packet to one end of its flow.
    #[inline(always)]
    pub fn handle_packet(&mut self, end: End, slot: u32, packet: &Packet, call: Call<'_>) {
        at_end!(self, end, slot, |endpoint| endpoint.handle_packet(packet, &mut cx!(self, call)));
    }

    /// Fires the timer of one end of a flow.
    #[inline(always)]
    pub fn handle_timeout(&mut self, end: End, slot: u32, call: Call<'_>) {
        at_end!(self, end, slot, |endpoint| endpoint.handle_timeout(&mut cx!(self, call)));
    }

    /// Gives a sender its flow's new deadline.
    pub fn handle_deadline(&mut self, slot: u32, deadline: Option<Instant>, call: Call<'_>) {
        if let Some(sender) = self.senders.get_mut(slot) {
            sender.handle_deadline(deadline, &mut cx!(self, call));
        }
    }

    /// Abandons a sender's flow.
    pub fn handle_cancel(&mut self, slot: u32, call: Call<'_>) {
        if let Some(sender) = self.senders.get_mut(slot) {
            sender.handle_cancel(&mut cx!(self, call));
        }
    }

    /// Fires the timer of a host's shared state.
    pub fn host_timeout(&mut self, call: Call<'_>) {
        T::handle_host_timeout(&mut cx!(self, call));
    }

    /// Asks a sender for its next packet, for this NIC of its host.
    #[inline]
    pub fn poll_transmit(&mut self, slot: u32, nic: u32, call: Call<'_>) -> Option<Packet> {
        self.senders.get_mut(slot)?.poll_transmit(&mut HostCx { nic, ..cx!(self, call) })
    }

    /// Forgets one end of a flow, which is at `host`.
    pub fn close(&mut self, end: End, slot: u32, host: HostId) {
        let shared = &mut self.hosts[host.index()];
        match end {
            End::Sender => self.senders.remove(slot).close(shared),
            End::Receiver => self.receivers.remove(slot).close(shared),
        }
    }

    /// Asks one end of a flow, which is at `host`, for its gauges.
    pub fn gauges(
        &self,
        end: End,
        slot: u32,
        host: HostId,
        report: &mut dyn FnMut(&'static str, f64),
    ) {
        let shared = &self.hosts[host.index()];
        match end {
            End::Sender => {
                if let Some(sender) = self.senders.get(slot) {
                    sender.gauges(shared, report);
                }
            }
            End::Receiver => {
                if let Some(receiver) = self.receivers.get(slot) {
                    receiver.gauges(shared, report);
                }
            }
        }
    }

    /// Asks one end of a flow what it waits for.
    pub fn waits_for(&self, end: End, slot: u32) -> Wait {
        match end {
            End::Sender => self.senders.get(slot).map_or(Wait::Timer, Endpoint::waits_for),
            End::Receiver => self.receivers.get(slot).map_or(Wait::Timer, Endpoint::waits_for),
        }
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
