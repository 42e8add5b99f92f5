//! The contract between a transport and whatever drives it: simulator, host stack or test.
//!
//! A transport is sans-IO. It is called with the time and a packet, a timeout or the chance to
//! send, and answers through [`HostCx`]. It never blocks, reads no clock and sees no payload.
//!
//! # What a driver must do
//!
//! 1. Time never goes back between calls.
//! 2. After each call it takes everything out of the [`Outbox`]: sends the packets in order,
//!    applies the timer changes, acts on the events.
//! 3. A timer fires at or after the instant set, once; setting it again replaces it.
//! 4. After [`HostCx::ready`], the driver calls the sender's [`Endpoint::poll_transmit`] once, when
//!    the NIC is free and it is the sender's turn. To be polled again, it calls `ready` again.
//!    At a host with several NICs this holds for each NIC that the sender is ready for.
//!    Whichever NIC asked, a packet leaves by the NIC of its path: a packet for another NIC joins
//!    that NIC's queue.
//! 5. A packet reaches the end it is addressed to, or none. Loss, duplication and reordering are
//!    allowed.
//! 6. The first packet of a flow to arrive opens the flow's receiver, which then gets that packet.
//!    The receiver stays until its sender has ended and, on a real network, until late duplicates
//!    are gone.
//! 7. After [`FlowEvent::Finished`] or [`FlowEvent::Abandoned`] a sender is not called again.

use crate::{
    Bytes, Class, Content, Controller, ExtArena, FlowEvent, FlowModel, FlowRoute, FlowSpec, HostId,
    Instant, Packet, PortView, QueueSpec, Rate, TransportInfo, Wait,
};

/// A host's interfaces as transports see them: all of a host are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicInfo {
    /// The host.
    pub host: HostId,
    /// Line rate of one interface.
    pub rate: Rate,
    /// Largest IP packet.
    pub mtu: Bytes,
    /// Bytes a link adds to each packet (Ethernet header, preamble, gap), if modelled.
    pub framing: Bytes,
    /// Number of interfaces, at least 1.
    pub nics: u32,
}

impl NicInfo {
    /// The line rate of all interfaces together.
    pub fn total_rate(&self) -> Rate {
        Rate::from_bps(self.rate.as_bps().saturating_mul(u64::from(self.nics)))
    }
}

/// What a call asks of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TimerChange {
    /// Leave it unchanged.
    #[default]
    Keep,
    /// Fire at this instant instead.
    Set(Instant),
    /// Fire at this instant instead, only to send a data packet.
    Depart(Instant),
    /// Do not fire.
    Clear,
}

/// What calls to a transport ask of the driver. Emptied by the driver after each call; its
/// vectors keep their memory.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Packets for the queues of the NICs that their paths leave by, in order.
    pub packets: Vec<Packet>,
    /// The called sender has data to send when a NIC of `ready_nics` has time for this class.
    pub ready: Option<Class>,
    /// A bit for each NIC that the sender is ready for; none means the NIC of the flow's
    /// [`ecmp_path`](FlowRoute::ecmp_path).
    pub ready_nics: u32,
    /// The timer of the called endpoint.
    pub timer: TimerChange,
    /// The timer of the host's shared state.
    pub host_timer: TimerChange,
    /// Events of the flow that the call is for.
    pub events: Vec<FlowEvent>,
}

/// The context of one call to a transport.
pub struct HostCx<'a, T: Transport> {
    /// The time.
    pub now: Instant,
    /// The transport's parameters.
    pub config: &'a T,
    /// What this host's flows share.
    pub shared: &'a mut T::Shared,
    /// Header extensions of packets in and out.
    pub ext: &'a mut ExtArena,
    /// What the call asks of the driver. Use the methods below.
    pub out: &'a mut Outbox,
    /// The NIC that is free, in [`Endpoint::poll_transmit`]; see [`FlowRoute::nics`].
    pub nic: u32,
}

impl<T: Transport> HostCx<'_, T> {
    /// Queues a packet at the NIC: control packets, and data that is paced already.
    #[inline]
    pub fn send(&mut self, packet: Packet) {
        self.out.packets.push(packet);
    }

    /// Asks to be polled for one data packet when the NIC of the flow's
    /// [`ecmp_path`](FlowRoute::ecmp_path) has time for `class`. Senders only.
    #[inline]
    pub fn ready(&mut self, class: Class) {
        self.out.ready = Some(class);
    }

    /// Asks to be polled for one data packet when this NIC has time for `class`.
    ///
    /// For senders that use several paths. A sender may be ready for several NICs at once, of one
    /// class, and is polled once for each.
    #[inline]
    pub fn ready_on(&mut self, class: Class, nic: u32) {
        self.out.ready = Some(class);
        self.out.ready_nics |= 1 << (nic & 31);
    }

    /// Sets this endpoint's one timer.
    #[inline]
    pub fn set_timer(&mut self, at: Instant) {
        self.out.timer = TimerChange::Set(at);
    }

    /// Sets this endpoint's timer, only to send its next data packet then.
    ///
    /// A driver whose NIC is idle by then may poll this sender at once, as if its timer had fired
    /// and it had called [`HostCx::ready`].
    #[inline]
    pub fn set_departure(&mut self, at: Instant) {
        self.out.timer = TimerChange::Depart(at);
    }

    /// Stops this endpoint's timer.
    #[inline]
    pub fn clear_timer(&mut self) {
        self.out.timer = TimerChange::Clear;
    }

    /// Sets the one timer of the host's shared state.
    #[inline]
    pub fn set_host_timer(&mut self, at: Instant) {
        self.out.host_timer = TimerChange::Set(at);
    }

    /// Reports an event of this flow.
    #[inline]
    pub fn emit(&mut self, event: FlowEvent) {
        self.out.events.push(event);
    }
}

/// One end of a flow.
pub trait Endpoint<T: Transport> {
    /// A packet of this flow arrived.
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, T>);

    /// This endpoint's timer fired.
    fn handle_timeout(&mut self, cx: &mut HostCx<'_, T>);

    /// Returns the next data packet, if there still is one.
    ///
    /// Called when this sender is ready and the NIC [`HostCx::nic`] is free. To be polled again, it
    /// calls [`HostCx::ready`] again. A sender that is ready for several NICs returns a packet whose
    /// path leaves by this one.
    fn poll_transmit(&mut self, _cx: &mut HostCx<'_, T>) -> Option<Packet> {
        None
    }

    /// Reports its gauges for time series: calls `tell` with the name and value of each.
    ///
    /// A name ends in its unit. Called at sampling instants only.
    fn gauges(&self, _shared: &T::Shared, _tell: &mut dyn FnMut(&'static str, f64)) {}

    /// What it waits for until its timer or the host's fires. For observers only, after a call.
    fn waits_for(&self) -> Wait {
        Wait::Timer
    }

    /// The application has changed or removed this flow's deadline.
    ///
    /// Senders only; those that do not use deadlines ignore it.
    fn handle_deadline(&mut self, _deadline: Option<Instant>, _cx: &mut HostCx<'_, T>) {}

    /// The application has abandoned this flow: the sender sends no more data, and leaves the ports on
    /// its path. It emits [`FlowEvent::Abandoned`], or [`FlowEvent::Finished`], when it has.
    ///
    /// Senders only. Those of which ports keep no state have nothing to do.
    fn handle_cancel(&mut self, cx: &mut HostCx<'_, T>) {
        cx.clear_timer();
        cx.emit(FlowEvent::Abandoned);
    }

    /// Prefetches memory outside the endpoint that its next call will touch: to handle `packet` if
    /// there is one, else to send. Affects speed only.
    #[inline]
    fn prefetch(&self, _packet: Option<&Packet>, _shared: &T::Shared) {}

    /// The driver is about to remove this endpoint: it releases what it holds of the shared state.
    fn close(&mut self, _shared: &mut T::Shared) {}
}

/// A transport protocol with its parameters: `Self` is the configuration.
pub trait Transport: Sized {
    /// State of a flow's sending end.
    type Sender: Endpoint<Self>;
    /// State of a flow's receiving end.
    type Receiver: Endpoint<Self>;
    /// State that one host's flows share: a pull queue, a scheduler, or nothing.
    type Shared;
    /// What it runs at every output port, if anything ([`NoController`](crate::NoController)).
    type Controller: Controller;

    /// Its name, a summary, and other facts that do not depend on its parameters.
    const INFO: TransportInfo;

    /// The shared state of one host.
    fn open_host(&self, nic: &NicInfo) -> Self::Shared;

    /// A flow starts at its sender, which may send its first packet now.
    fn open_sender(flow: &FlowSpec, route: &FlowRoute, cx: &mut HostCx<'_, Self>) -> Self::Sender;

    /// A flow's first packet reached its receiver, which gets that packet next.
    fn open_receiver(
        first: &Packet,
        route: &FlowRoute,
        cx: &mut HostCx<'_, Self>,
    ) -> Self::Receiver;

    /// The timer of the host's shared state fired. [`HostCx::send`] and
    /// [`HostCx::set_host_timer`] may be used; there is no flow.
    fn handle_host_timeout(_cx: &mut HostCx<'_, Self>) {}

    /// Prefetches memory outside the shared state that its timer will touch. Affects speed only.
    #[inline]
    fn prefetch_shared(_shared: &Self::Shared) {}

    /// The controller for an output port of a switch or host.
    fn controller(&self, _port: &PortView) -> Option<Self::Controller> {
        None
    }

    /// What is wrong with its parameters, if anything.
    fn check_config(&self) -> Result<(), String> {
        Ok(())
    }

    /// What is wrong with its parameters on this interface, if anything: which parameter, and why.
    fn check_nic(&self, _nic: &NicInfo) -> Result<(), (&'static str, String)> {
        Ok(())
    }

    /// Whether it sprays: a flow's packets take all paths in turn.
    ///
    /// Any other path then serves as well as the one that a packet names. Packets of other
    /// transports must keep to one path to stay in order.
    fn sprays(&self) -> bool {
        false
    }

    /// Whether switches may trim its packets to their headers.
    fn is_trimmable(&self) -> bool {
        false
    }

    /// Whether its senders may abandon a flow ([`FlowEvent::Abandoned`]).
    ///
    /// The simulator's checks report a transport that abandons a flow and returns false here.
    fn may_abandon(&self) -> bool {
        false
    }

    /// Whether its senders may abandon a flow that has no deadline, on a path that its header can
    /// record ([`TransportInfo::max_hops`]).
    fn may_abandon_without_deadline(&self) -> bool {
        self.may_abandon()
    }

    /// What a packet of it carries or acknowledges, for observers, which cannot read its header.
    ///
    /// A transport that does not acknowledge data packet by packet need not implement it.
    fn content(_packet: &Packet) -> Content {
        Content::Other
    }

    /// Its model at flow level on hosts with this interface; `None` if it has none.
    ///
    /// Parameters that act on single packets have no effect there.
    fn flow_model(&self, _nic: &NicInfo) -> Option<FlowModel> {
        None
    }

    /// The switch queue for it on a link of `rate`, where the user names none.
    fn default_queue(&self, rate: Rate, mtu: Bytes) -> QueueSpec;
}
