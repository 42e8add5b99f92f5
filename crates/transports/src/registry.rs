//! The list of transports, and what is generated from it: the closed enums through which drivers
//! reach any of them, and the settings that scenarios may give.

use punctual_core::{
    Bytes, Call, Controller, ControllerState, ExtArena, FlowId, FlowRoute, FlowSpec, HostId,
    Instant, NicInfo, Packet, PortId, PortView, QueueSpec, Rate, Stack, Transport, Wait,
};
use serde::{Deserialize, Serialize};

/// A transport's entry in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransportInfo {
    /// Its name in scenarios and on the command line.
    pub name: &'static str,
    /// One line about it.
    pub summary: &'static str,
}

macro_rules! register {
    ($($Variant:ident($Type:ty), $field:ident $name:literal: $summary:literal;)*) => {
        /// Any transport with its parameters.
        #[derive(Debug, Clone, PartialEq, Serialize)]
        pub enum AnyTransport {
            $(#[doc = $summary] #[serde(rename = $name)] $Variant($Type),)*
        }

        /// Parameters of every transport, as a scenario may set them: `[transport.ndp]` and so on.
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct TransportSettings {
            $(#[doc = $summary] #[serde(rename = $name)] pub $field: $Type,)*
        }

        /// A stack of any transport. Dispatch is one `match`, the states behind it are typed.
        pub enum AnyStack {
            $(#[doc = $summary] $Variant(Stack<$Type>),)*
        }

        /// A controller of any transport.
        pub enum AnyController {
            $(#[doc = $summary] $Variant(<$Type as Transport>::Controller),)*
        }

        impl AnyTransport {
            /// All transports.
            pub fn catalogue() -> &'static [TransportInfo] {
                &[$(TransportInfo { name: $name, summary: $summary },)*]
            }

            /// The transport of that name with the given settings.
            pub fn by_name(name: &str, settings: &TransportSettings) -> Option<AnyTransport> {
                $(if name == $name {
                    return Some(AnyTransport::$Variant(settings.$field.clone()));
                })*
                None
            }

            /// Its name.
            pub fn name(&self) -> &'static str {
                match self { $(AnyTransport::$Variant(_) => $name,)* }
            }

            /// The switch queue that suits it.
            pub fn default_queue(&self, rate: Rate, mtu: Bytes) -> QueueSpec {
                match self { $(AnyTransport::$Variant(t) => t.default_queue(rate, mtu),)* }
            }

            /// What is wrong with its parameters, if anything.
            pub fn validate(&self) -> Result<(), String> {
                match self { $(AnyTransport::$Variant(t) => t.validate().map_err(|e| e.to_string()),)* }
            }

            /// What is wrong with its parameters on this interface, if anything: which parameter,
            /// and why.
            pub fn check_nic(&self, nic: &NicInfo) -> Result<(), (&'static str, String)> {
                match self { $(AnyTransport::$Variant(t) => t.check_nic(nic),)* }
            }

            /// Whether its flows' packets take all paths in turn.
            pub fn sprays(&self) -> bool {
                match self { $(AnyTransport::$Variant(t) => t.sprays(),)* }
            }

            /// Its stack on these hosts.
            pub fn stack(&self, nics: &[NicInfo]) -> AnyStack {
                match self {
                    $(AnyTransport::$Variant(t) => {
                        AnyStack::$Variant(Stack::new(t.clone(), nics))
                    })*
                }
            }

            /// Its controller for a port, if it has one.
            pub fn controller(&self, port: &PortView) -> Option<AnyController> {
                match self {
                    $(AnyTransport::$Variant(t) => {
                        t.controller(port).map(AnyController::$Variant)
                    })*
                }
            }
        }

        impl AnyStack {
            /// See [`Stack::open_sender`].
            pub fn open_sender(&mut self, flow: &FlowSpec, route: &FlowRoute, call: Call<'_>) -> u32 {
                match self { $(AnyStack::$Variant(s) => s.open_sender(flow, route, call),)* }
            }
            /// See [`Stack::open_receiver`].
            pub fn open_receiver(&mut self, first: &Packet, route: &FlowRoute, call: Call<'_>) -> u32 {
                match self { $(AnyStack::$Variant(s) => s.open_receiver(first, route, call),)* }
            }
            /// See [`Stack::sender_packet`].
            #[inline]
            pub fn sender_packet(&mut self, slot: u32, packet: &Packet, call: Call<'_>) {
                match self { $(AnyStack::$Variant(s) => s.sender_packet(slot, packet, call),)* }
            }
            /// See [`Stack::receiver_packet`].
            #[inline]
            pub fn receiver_packet(&mut self, slot: u32, packet: &Packet, call: Call<'_>) {
                match self { $(AnyStack::$Variant(s) => s.receiver_packet(slot, packet, call),)* }
            }
            /// See [`Stack::sender_timeout`].
            pub fn sender_timeout(&mut self, slot: u32, call: Call<'_>) {
                match self { $(AnyStack::$Variant(s) => s.sender_timeout(slot, call),)* }
            }
            /// See [`Stack::receiver_timeout`].
            pub fn receiver_timeout(&mut self, slot: u32, call: Call<'_>) {
                match self { $(AnyStack::$Variant(s) => s.receiver_timeout(slot, call),)* }
            }
            /// See [`Stack::sender_deadline`].
            pub fn sender_deadline(&mut self, slot: u32, deadline: Option<Instant>, call: Call<'_>) {
                match self { $(AnyStack::$Variant(s) => s.sender_deadline(slot, deadline, call),)* }
            }
            /// See [`Stack::host_timeout`].
            pub fn host_timeout(&mut self, call: Call<'_>) {
                match self { $(AnyStack::$Variant(s) => s.host_timeout(call),)* }
            }
            /// See [`Stack::poll_transmit`].
            #[inline]
            pub fn poll_transmit(&mut self, slot: u32, call: Call<'_>) -> Option<Packet> {
                match self { $(AnyStack::$Variant(s) => s.poll_transmit(slot, call),)* }
            }
            /// See [`Stack::sender_gauges`].
            pub fn sender_gauges(&self, slot: u32, host: HostId, tell: &mut dyn FnMut(&'static str, f64)) {
                match self { $(AnyStack::$Variant(s) => s.sender_gauges(slot, host, tell),)* }
            }
            /// See [`Stack::receiver_gauges`].
            pub fn receiver_gauges(&self, slot: u32, host: HostId, tell: &mut dyn FnMut(&'static str, f64)) {
                match self { $(AnyStack::$Variant(s) => s.receiver_gauges(slot, host, tell),)* }
            }
            /// See [`Stack::sender_waits_for`].
            pub fn sender_waits_for(&self, slot: u32) -> Wait {
                match self { $(AnyStack::$Variant(s) => s.sender_waits_for(slot),)* }
            }
            /// See [`Stack::receiver_waits_for`].
            pub fn receiver_waits_for(&self, slot: u32) -> Wait {
                match self { $(AnyStack::$Variant(s) => s.receiver_waits_for(slot),)* }
            }
            /// See [`Stack::close_sender`].
            pub fn close_sender(&mut self, slot: u32, host: HostId) {
                match self { $(AnyStack::$Variant(s) => s.close_sender(slot, host),)* }
            }
            /// See [`Stack::close_receiver`].
            pub fn close_receiver(&mut self, slot: u32, host: HostId) {
                match self { $(AnyStack::$Variant(s) => s.close_receiver(slot, host),)* }
            }
        }

        impl AnyController {
            /// [`Controller::handle_forward`] and what [`Controller::next_timeout`] is then, or
            /// never; told apart by transport once.
            #[inline]
            pub fn forward(&mut self, packet: &mut Packet, port: &PortView, ext: &mut ExtArena) -> Instant {
                match self {
                    $(AnyController::$Variant(c) => {
                        c.handle_forward(packet, port, ext);
                        c.next_timeout().unwrap_or(Instant::NEVER)
                    })*
                }
            }
        }

        impl Controller for AnyController {
            fn handle_forward(&mut self, packet: &mut Packet, port: &PortView, ext: &mut ExtArena) {
                match self { $(AnyController::$Variant(c) => c.handle_forward(packet, port, ext),)* }
            }
            fn handle_reverse(&mut self, packet: &mut Packet, port: PortId) {
                match self { $(AnyController::$Variant(c) => c.handle_reverse(packet, port),)* }
            }
            fn reads_answers(&self) -> bool {
                match self { $(AnyController::$Variant(c) => c.reads_answers(),)* }
            }
            fn handle_timeout(&mut self, port: &PortView) {
                match self { $(AnyController::$Variant(c) => c.handle_timeout(port),)* }
            }
            fn next_timeout(&self) -> Option<Instant> {
                match self { $(AnyController::$Variant(c) => c.next_timeout(),)* }
            }
            fn gauges(&self, tell: &mut dyn FnMut(&'static str, f64)) {
                match self { $(AnyController::$Variant(c) => c.gauges(tell),)* }
            }
            fn flows_ahead(&self, of: FlowId, tell: &mut dyn FnMut(FlowId)) {
                match self { $(AnyController::$Variant(c) => c.flows_ahead(of, tell),)* }
            }
            fn reset(&mut self) {
                match self { $(AnyController::$Variant(c) => c.reset(),)* }
            }
            fn state(&self) -> ControllerState {
                match self { $(AnyController::$Variant(c) => c.state(),)* }
            }
        }
    };
}

// Adding a transport is a line here: variant, configuration type, field, name, summary.
register! {
    Tcp(crate::tcp::TcpConfig), tcp "tcp": "TCP NewReno: windows, acknowledgements, loss as the signal";
    Tcppr(crate::tcp::TcpprConfig), tcppr "tcppr": "TCPpr: TCP in classes of strict priority, short deadlines first";
    Dctcp(crate::tcp::DctcpConfig), dctcp "dctcp": "DCTCP: TCP that cuts its window by the share of packets marked";
    DctcpLossless(crate::tcp::DctcpLosslessConfig), dctcp_lossless "dctcp-lossless": "DCTCP over PFC: windows that never lose, what NDP's paper ran as DCQCN";
    D2tcp(crate::tcp::D2tcpConfig), d2tcp "d2tcp": "D2TCP: DCTCP that cuts less the nearer the deadline, more the farther";
    Mptcp(crate::mptcp::MptcpConfig), mptcp "mptcp": "MPTCP: one stream over TCP subflows on several paths, coupled or not";
    D3(crate::d3::D3Config), d3 "d3": "D3: ports grant each flow the rate that its deadline needs, and a share";
    Rcpdc(crate::d3::RcpdcConfig), rcpdc "rcpdc": "RCPdc: every port grants every flow an explicit fair rate";
    Rcp(crate::rcp::RcpConfig), rcp "rcp": "RCP: every port stamps one rate for all flows, found without counting them";
    Pdq(crate::pdq::PdqConfig), pdq "pdq": "PDQ: ports let the most critical flows send and pause the others";
    Ndp(crate::ndp::NdpConfig), ndp "ndp": "NDP: receivers pull, switches trim, packets sprayed over all paths";
    Dcqcn(crate::dcqcn::DcqcnConfig), dcqcn "dcqcn": "DCQCN: rates cut by marks that receivers report, on networks that lose nothing";
    Phost(crate::phost::PhostConfig), phost "phost": "pHost: receivers hand out tokens, one each packet time; packets sprayed, no trimming";
    Udp(crate::udp::UdpConfig), udp "udp": "UDP: datagrams at a constant rate; what is lost stays lost";
}
