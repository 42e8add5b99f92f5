//! The receiver: PDQ's, whose one buffer reassembles the segments of all subflows.

use super::{MpdqConfig, pdq_cx};
use crate::pdq::PdqReceiver;
use punctual_core::{Endpoint, FlowId, FlowRoute, HostCx, Packet};

/// State of an M-PDQ receiver.
///
/// Headers number the segments of the flow, not of a subflow, and an acknowledgement returns its
/// packet's subflow and path: nothing in it depends on the number of subflows (MPDQ-R08).
#[derive(Clone, Debug)]
pub struct MpdqReceiver(PdqReceiver);

impl MpdqReceiver {
    /// A receiver that has received nothing.
    pub fn new(flow: FlowId, route: &FlowRoute) -> Self {
        MpdqReceiver(PdqReceiver::new(flow, route))
    }
}

impl Endpoint<MpdqConfig> for MpdqReceiver {
    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, MpdqConfig>) {
        self.0.handle_packet(packet, &mut pdq_cx(cx));
    }

    fn handle_timeout(&mut self, _cx: &mut HostCx<'_, MpdqConfig>) {}
}
