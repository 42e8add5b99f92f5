//! The part of a paced sender that all protocols share.

use super::pacer::Pacer;
use super::segments::{Ack, AckOutcome, Segment, Segments};
use crate::rtt::{Rounding, RttEstimator};
use punctual_core::{
    Bytes, Class, Duration, FlowEvent, FlowId, FlowRoute, FlowSpec, Header, HostCx, HostId,
    Instant, Packet, Transport,
};

/// The packet that releases a flow's state at the ports: D3's last request, PDQ's TERM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// To be sent, for the first time or again.
    Due,
    /// Sent at this time, with this segment if it carried one.
    Sent {
        /// When it was sent.
        at: Instant,
        /// The segment that it carried.
        segment: Option<u64>,
    },
    /// Acknowledged.
    Acked,
}

/// A flow that is sent at a granted rate and retransmits what is lost.
#[derive(Clone, Debug)]
pub(crate) struct PacedFlow {
    flow: FlowId,
    peer: HostId,
    path: u32,
    pub(crate) class: Class,
    pub(crate) segments: Segments,
    /// The granted rate, and when the next packet may leave.
    pub(crate) pacer: Pacer,
    pub(crate) rtt: RttEstimator,
    pub(crate) release: Release,
    /// Whether a packet is due and waits for the NIC.
    pub(crate) waits_for_nic: bool,
    /// When an acknowledgement or a grant last arrived.
    pub(crate) last_progress: Instant,
}

impl PacedFlow {
    /// A paused flow that has sent nothing.
    pub(crate) fn new(
        flow: &FlowSpec,
        route: &FlowRoute,
        segments: Segments,
        now: Instant,
    ) -> Self {
        PacedFlow {
            flow: flow.id,
            peer: route.peer,
            path: route.ecmp_path,
            class: flow.class,
            segments,
            pacer: Pacer::new(now),
            rtt: RttEstimator::default(),
            release: Release::Due,
            waits_for_nic: false,
            last_progress: now,
        }
    }

    /// The path of the flow's packets.
    #[inline]
    pub(crate) fn path(&self) -> u32 {
        self.path
    }

    /// A packet without data.
    #[inline]
    pub(crate) fn packet(&self, class: Class, header: Header, header_bytes: u16) -> Packet {
        let mut packet = Packet::new(self.flow, self.peer, header);
        packet.path = self.path;
        packet.class = class;
        packet.wire_bytes = header_bytes;
        packet
    }

    /// A packet with the data of `segment`.
    #[inline]
    pub(crate) fn data_packet(
        &self,
        segment: &Segment,
        header: Header,
        header_bytes: u16,
    ) -> Packet {
        let mut packet = self.packet(self.class, header, header_bytes);
        packet.payload_bytes = segment.len;
        packet.wire_bytes += segment.len;
        packet
    }

    /// `packet`, complete, leaves now with the data of `segment`: the next waits for its time on
    /// the link.
    #[inline]
    pub(crate) fn packet_left<T: Transport>(
        &mut self,
        packet: &Packet,
        segment: &Segment,
        framing: Bytes,
        cx: &mut HostCx<'_, T>,
    ) {
        let link_bytes = u64::from(packet.wire_bytes) + framing.get();
        self.pacer.packet_left(cx.now, Bytes::new(link_bytes));
        if let Some(cause) = segment.again {
            cx.emit(FlowEvent::Retransmitted(cause));
        }
    }

    /// Bytes left to send as they count on a link, with `overhead_bytes` of headers and framing
    /// around each segment.
    #[inline]
    pub(crate) fn left_link_bytes(&self, overhead_bytes: u64) -> Bytes {
        let overhead = self.segments.left().saturating_mul(overhead_bytes);
        Bytes::new(self.segments.left_bytes().saturating_add(overhead))
    }

    /// When the next data packet may leave; [`Instant::NEVER`] if nothing is left or the flow is
    /// paused.
    #[inline]
    pub(crate) fn next_departure(&self) -> Instant {
        if self.segments.left() == 0 { Instant::NEVER } else { self.pacer.next_departure() }
    }

    /// Handles an acknowledgement: see [`Segments::handle_ack`]. Progress ends the backoff.
    #[inline]
    pub(crate) fn handle_ack(
        &mut self,
        ack: Ack,
        loss_threshold: u8,
        was_sent_before: impl Fn(Instant) -> bool,
        now: Instant,
    ) -> AckOutcome {
        let outcome = self.segments.handle_ack(ack, loss_threshold, was_sent_before);
        if outcome == AckOutcome::Progress {
            self.last_progress = now;
            self.rtt.end_backoff();
        }
        outcome
    }

    /// Adds an RTT sample, which ends the backoff.
    #[inline]
    pub(crate) fn sample_rtt(&mut self, rtt: Duration) {
        self.rtt.sample(rtt, Rounding::Terms);
        self.rtt.end_backoff();
    }

    /// When the data in flight, or else the release, counts as lost. `oldest_data` is when the
    /// oldest data in flight was sent.
    #[inline]
    pub(crate) fn expires_at(&self, oldest_data: Option<Instant>, rto: Duration) -> Instant {
        let oldest = match (oldest_data, self.release) {
            (Some(sent_at), _) => sent_at,
            (None, Release::Sent { at, .. }) => at,
            _ => return Instant::NEVER,
        };
        oldest.max(self.last_progress).saturating_add(rto)
    }

    /// Counts the data in flight and the release as lost, because the timeout passed.
    pub(crate) fn mark_all_lost(&mut self) {
        self.segments.mark_all_lost();
        if matches!(self.release, Release::Sent { .. }) {
            self.release = Release::Due;
        }
    }

    /// Reports the granted rate for time series.
    pub(crate) fn gauges(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("granted_bps", self.pacer.rate().as_bps() as f64);
        tell("paused", f64::from(u8::from(self.pacer.is_paused())));
    }
}
