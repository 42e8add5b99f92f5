//! Sets of transports: what a simulator or command needs of the transports that it offers.
//!
//! A set is an enum with a variant for each transport, generated from a list by
//! `punctual_transports::register!`. Drivers are generic over the set, so that calls on the packet
//! path are a `match` and no virtual call.

use crate::{
    Bytes, Call, Content, Controller, End, FlowModel, FlowRoute, FlowSpec, HostId, Instant,
    NicInfo, Packet, PortView, QueueSpec, Rate, Wait, WaitNames,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Facts about a transport that do not depend on its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportInfo {
    /// Its name in scenarios, results and on the command line.
    pub name: &'static str,
    /// A summary in one line.
    pub summary: &'static str,
    /// The most ports of a path that its header can record, the sender's NIC included. `None`:
    /// paths may have any length.
    pub max_hops: Option<usize>,
    /// What it calls the waits of its flows.
    pub waits: WaitNames,
    /// The transport whose controllers also serve its packets, in runs that have both. `None`: only
    /// its own controllers do.
    pub ports_of: Option<&'static str>,
}

impl TransportInfo {
    /// A transport whose paths may have any length, with [`WaitNames::DEFAULT`].
    pub const fn new(name: &'static str, summary: &'static str) -> Self {
        TransportInfo { name, summary, max_hops: None, waits: WaitNames::DEFAULT, ports_of: None }
    }

    /// This transport, with a header that can record no more than `max_hops` ports of a path.
    pub const fn with_max_hops(self, max_hops: usize) -> Self {
        TransportInfo { max_hops: Some(max_hops), ..self }
    }

    /// This transport, with its own names for waits.
    pub const fn with_waits(self, waits: WaitNames) -> Self {
        TransportInfo { waits, ..self }
    }

    /// This transport, whose packets the controllers of `transport` can serve: both have one
    /// header. Where a run has both, ports use the parameters of `transport`.
    pub const fn with_ports_of(self, transport: &'static str) -> Self {
        TransportInfo { ports_of: Some(transport), ..self }
    }

    /// Whether `field` names this transport when each `_` is read as `-`. Names of fields cannot
    /// have a `-`, names of transports can.
    pub const fn is_named_like(&self, field: &str) -> bool {
        let (name, field) = (self.name.as_bytes(), field.as_bytes());
        if name.len() != field.len() {
            return false;
        }
        let mut i = 0;
        while i < name.len() {
            let wanted = if field[i] == b'_' { b'-' } else { field[i] };
            if name[i] != wanted {
                return false;
            }
            i += 1;
        }
        true
    }
}

/// A closed set of transports. A value is one of them with its parameters.
pub trait TransportSet: Debug + Clone + PartialEq + Serialize + Send + Sync + 'static {
    /// The parameters of every transport, as a scenario may set them: `[transport.NAME]`.
    type Settings: Debug
        + Clone
        + Default
        + PartialEq
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static;
    /// All flows of one transport of the set.
    type Stack: FlowStack + Send;
    /// What one transport of the set runs at an output port.
    type Controller: Controller + Send;

    /// All transports, in the order in which they are registered.
    fn catalogue() -> &'static [TransportInfo];

    /// The transport of that name with the given settings.
    fn by_name(name: &str, settings: &Self::Settings) -> Option<Self>;

    /// Facts about it that do not depend on its parameters.
    fn info(&self) -> &'static TransportInfo;

    /// Its name in scenarios, results and on the command line.
    fn name(&self) -> &'static str {
        self.info().name
    }

    /// See [`Transport::check_config`](crate::Transport::check_config).
    fn check_config(&self) -> Result<(), String>;

    /// See [`Transport::check_nic`](crate::Transport::check_nic).
    fn check_nic(&self, nic: &NicInfo) -> Result<(), (&'static str, String)>;

    /// See [`Transport::sprays`](crate::Transport::sprays).
    fn sprays(&self) -> bool;

    /// See [`Transport::is_trimmable`](crate::Transport::is_trimmable).
    fn is_trimmable(&self) -> bool;

    /// See [`Transport::may_abandon`](crate::Transport::may_abandon).
    fn may_abandon(&self) -> bool;

    /// See [`Transport::may_abandon_without_deadline`](crate::Transport::may_abandon_without_deadline).
    fn may_abandon_without_deadline(&self) -> bool;

    /// See [`Transport::content`](crate::Transport::content).
    fn content(&self, packet: &Packet) -> Content;

    /// See [`Transport::flow_model`](crate::Transport::flow_model).
    fn flow_model(&self, nic: &NicInfo) -> Option<FlowModel>;

    /// See [`Transport::default_queue`](crate::Transport::default_queue).
    fn default_queue(&self, rate: Rate, mtu: Bytes) -> QueueSpec;

    /// Its stack on these hosts, in order of their ids.
    fn stack(&self, nics: &[NicInfo]) -> Self::Stack;

    /// Its controller for an output port, if it has one.
    fn controller(&self, port: &PortView) -> Option<Self::Controller>;
}

/// All flows of one transport of a set: a [`Stack`](crate::Stack) whose transport is chosen at run
/// time.
pub trait FlowStack {
    /// See [`Stack::open_sender`](crate::Stack::open_sender).
    fn open_sender(&mut self, flow: &FlowSpec, route: &FlowRoute, call: Call<'_>) -> u32;

    /// See [`Stack::open_receiver`](crate::Stack::open_receiver).
    fn open_receiver(&mut self, first: &Packet, route: &FlowRoute, call: Call<'_>) -> u32;

    /// See [`Stack::prefetch`](crate::Stack::prefetch).
    fn prefetch(&self, end: End, slot: u32, host: HostId);

    /// See [`Stack::prefetch_content`](crate::Stack::prefetch_content).
    fn prefetch_content(&self, end: End, slot: u32, host: HostId, packet: Option<&Packet>);

    /// See [`Stack::prefetch_host`](crate::Stack::prefetch_host).
    fn prefetch_host(&self, host: HostId);

    /// See [`Stack::prefetch_shared`](crate::Stack::prefetch_shared).
    fn prefetch_shared(&self, host: HostId);

    /// See [`Stack::handle_packet`](crate::Stack::handle_packet).
    fn handle_packet(&mut self, end: End, slot: u32, packet: &Packet, call: Call<'_>);

    /// See [`Stack::handle_timeout`](crate::Stack::handle_timeout).
    fn handle_timeout(&mut self, end: End, slot: u32, call: Call<'_>);

    /// See [`Stack::handle_deadline`](crate::Stack::handle_deadline).
    fn handle_deadline(&mut self, slot: u32, deadline: Option<Instant>, call: Call<'_>);

    /// See [`Stack::handle_cancel`](crate::Stack::handle_cancel).
    fn handle_cancel(&mut self, slot: u32, call: Call<'_>);

    /// See [`Stack::host_timeout`](crate::Stack::host_timeout).
    fn host_timeout(&mut self, call: Call<'_>);

    /// See [`Stack::poll_transmit`](crate::Stack::poll_transmit).
    fn poll_transmit(&mut self, slot: u32, nic: u32, call: Call<'_>) -> Option<Packet>;

    /// See [`Stack::close`](crate::Stack::close).
    fn close(&mut self, end: End, slot: u32, host: HostId);

    /// See [`Stack::gauges`](crate::Stack::gauges).
    fn gauges(&self, end: End, slot: u32, host: HostId, report: &mut dyn FnMut(&'static str, f64));

    /// See [`Stack::waits_for`](crate::Stack::waits_for).
    fn waits_for(&self, end: End, slot: u32) -> Wait;
}
