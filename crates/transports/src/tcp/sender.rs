//! The sender: connects, fills the window and recovers from loss.

use super::TcpHost;
use super::congestion::{Feedback, Window, WindowLaw};
use super::flight::Flight;
use super::header::{TCP_IP_HEADER_BYTES, TcpFlags, TcpHeader};
use crate::rtt::RttEstimator;
use punctual_core::{
    Class, Duration, Endpoint, FlowEvent, FlowId, FlowRoute, FlowSpec, Header, HostCx, HostId,
    Instant, Packet, PacketFlags, Transport,
};

/// State of a TCP sender with window law `L`.
#[derive(Clone, Debug)]
pub struct TcpSender<L: WindowLaw> {
    flow: FlowId,
    receiver: HostId,
    path: u32,
    class: Class,
    size_bytes: u64,
    flight: Flight,
    /// Whether the single segment of an empty flow has been sent.
    empty_sent: bool,
    /// When the driver's timer fires: at or before the timeout, so that acknowledgements need not
    /// reset it.
    timer_at: Option<Instant>,
    /// Whether it waits for the NIC.
    asked: bool,
    law: L,
}

impl<L: WindowLaw> TcpSender<L> {
    pub(super) fn open<T: Transport<Shared = TcpHost<L>>>(
        flow: &FlowSpec,
        route: &FlowRoute,
        cx: &mut HostCx<'_, T>,
    ) -> Self {
        let host = &*cx.shared;
        let settings = host.settings;
        let mut sender = TcpSender {
            flow: flow.id,
            receiver: flow.dst,
            path: route.ecmp_path,
            class: L::class(&host.law, flow),
            size_bytes: flow.size.get(),
            flight: Flight::new(&settings, host.mss_bytes),
            empty_sent: false,
            timer_at: None,
            asked: false,
            law: L::new(&host.law, flow),
        };
        if sender.flight.is_connecting() {
            sender.send_syn(cx);
        } else {
            sender.ask(cx);
        }
        sender
    }

    /// The congestion window.
    pub fn window(&self) -> &Window {
        self.flight.window()
    }

    /// The RTT estimate.
    pub fn rtt(&self) -> &RttEstimator {
        self.flight.rtt()
    }

    /// The retransmission timeout, backoff included.
    pub fn rto(&self) -> Duration {
        self.flight.rto()
    }

    /// The window law.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// Bytes acknowledged so far.
    pub fn acked_bytes(&self) -> u64 {
        self.flight.una()
    }

    /// Bytes in flight: sent, not acknowledged and not counted as lost.
    pub fn flight_bytes(&self) -> u64 {
        self.flight.flight_bytes()
    }

    /// Whether it is in fast recovery.
    pub fn in_recovery(&self) -> bool {
        self.flight.in_recovery()
    }

    fn packet(&self, seq: u64, payload_bytes: u64, flags: u8, now: Instant) -> Packet {
        let header =
            TcpHeader { seq, timestamp_picos: now.as_picos(), flags, ..TcpHeader::default() };
        let mut packet = Packet::new(self.flow, self.receiver, Header::new(header));
        packet.payload_bytes = payload_bytes as u16;
        packet.wire_bytes = (TCP_IP_HEADER_BYTES + payload_bytes) as u16;
        packet.class = self.class;
        packet.path = self.path; // TCP-R12
        if L::ECN_CAPABLE && flags & TcpFlags::SYN == 0 {
            packet.flags.set(PacketFlags::ECN_CAPABLE); // DCTCP-R01
        }
        packet
    }

    fn send_syn<T: Transport>(&mut self, cx: &mut HostCx<'_, T>) {
        cx.send(self.packet(0, 0, TcpFlags::SYN, cx.now)); // TCP-R01
        self.flight.start_timer(cx.now);
        self.keep_timer(cx);
    }

    /// Sets the driver's timer if it would fire after the timeout.
    #[inline]
    fn keep_timer<T: Transport>(&mut self, cx: &mut HostCx<'_, T>) {
        if let Some(at) = self.flight.rto_at()
            && self.timer_at.is_none_or(|timer_at| timer_at > at)
        {
            self.timer_at = Some(at);
            cx.set_timer(at);
        }
    }

    /// First byte and length of the segment that may be sent now.
    #[inline]
    fn next_segment(&self) -> Option<(u64, u64)> {
        if self.size_bytes == 0 {
            return (!self.empty_sent && !self.flight.is_connecting()).then_some((0, 0));
        }
        self.flight.next_segment(self.size_bytes)
    }

    /// Requests the NIC if a segment may be sent. TCP-R14.
    #[inline]
    fn ask<T: Transport<Shared = TcpHost<L>>>(&mut self, cx: &mut HostCx<'_, T>) {
        if self.asked || self.next_segment().is_none() {
            return;
        }
        if cx.shared.settings.small_queues {
            self.asked = true;
            cx.ready(self.class);
        } else {
            self.send_all(cx);
        }
    }

    /// Sends all segments that the window allows into the NIC's queue.
    #[cold]
    #[inline(never)]
    fn send_all<T: Transport>(&mut self, cx: &mut HostCx<'_, T>) {
        while let Some((seq, len, flags)) = self.send_segment(cx) {
            cx.send(self.packet(seq, len, flags, cx.now));
        }
    }

    /// Sends the next segment; returns its first byte, length and flags.
    #[inline(always)]
    fn send_segment<T: Transport>(&mut self, cx: &mut HostCx<'_, T>) -> Option<(u64, u64, u8)> {
        let (seq, len) = self.next_segment()?;
        if let Some(cause) = self.flight.send(seq, len, cx.now) {
            cx.emit(FlowEvent::Retransmitted(cause));
        }
        self.empty_sent = self.size_bytes == 0;
        self.keep_timer(cx);
        let flags = if seq + len == self.size_bytes { TcpFlags::LAST } else { 0 };
        Some((seq, len, flags))
    }

    fn finish<T: Transport>(&mut self, cx: &mut HostCx<'_, T>) {
        self.flight.complete(self.size_bytes);
        cx.clear_timer();
        cx.emit(FlowEvent::Finished);
    }

    fn handle_ack<T: Transport<Shared = TcpHost<L>>>(
        &mut self,
        header: &TcpHeader,
        cx: &mut HostCx<'_, T>,
    ) {
        let Some(advance) =
            self.flight.advance(header.ack, rtt_since(header.timestamp_picos, cx.now))
        else {
            return;
        };
        let window = self.flight.window();
        let reaction = self.law.handle_ack(
            &Feedback {
                now: cx.now,
                newly_acked_bytes: advance.newly_acked_bytes,
                marked: header.has(TcpFlags::MARKED),
                una: self.flight.una(),
                next: self.flight.highest(),
                cwnd_bytes: window.cwnd_bytes(),
                slow_start: window.in_slow_start(),
                remaining_bytes: self.size_bytes - self.flight.una(),
                smoothed_rtt: self.flight.rtt().smoothed(),
            },
            &cx.shared.law,
        );
        let duplicate_acks = cx.shared.settings.duplicate_acks;
        if self.flight.react(advance, reaction, duplicate_acks, cx.now) {
            self.law.handle_loss(self.flight.highest());
        }
        self.keep_timer(cx);
        self.ask(cx);
    }
}

/// The RTT by the timestamp that an acknowledgement echoes.
pub(crate) fn rtt_since(timestamp_picos: u64, now: Instant) -> Duration {
    now.saturating_since(Instant::from_picos(timestamp_picos))
}

impl<L: WindowLaw, T: Transport<Shared = TcpHost<L>>> Endpoint<T> for TcpSender<L> {
    fn gauges(&self, _shared: &TcpHost<L>, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("cwnd_bytes", self.flight.window().cwnd_bytes() as f64);
        tell("ssthresh_bytes", self.flight.window().ssthresh_bytes() as f64);
        tell("acked_bytes", self.flight.una() as f64);
        self.law.gauges(tell);
    }

    fn handle_deadline(&mut self, deadline: Option<Instant>, _cx: &mut HostCx<'_, T>) {
        self.law.set_deadline(deadline);
    }

    fn handle_packet(&mut self, packet: &Packet, cx: &mut HostCx<'_, T>) {
        let header: TcpHeader = packet.header.get();
        if packet.is_bounced() || !header.has(TcpFlags::ACK) {
            return;
        }
        if header.has(TcpFlags::SYN) {
            if self.flight.connect(rtt_since(header.timestamp_picos, cx.now)) {
                self.ask(cx);
            }
            return;
        }
        // Ignore old acknowledgements and those of bytes never sent.
        let known = self.flight.una()..=self.flight.highest();
        if !known.contains(&header.ack) || self.flight.is_connecting() {
            return;
        }
        if header.has(TcpFlags::COMPLETE) && header.ack == self.size_bytes {
            return self.finish(cx); // TCP-R03
        }
        self.handle_ack(&header, cx);
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, T>) {
        self.timer_at = None;
        match self.flight.rto_at() {
            None => return,
            Some(at) if cx.now < at => return self.keep_timer(cx),
            Some(_) => {}
        }
        cx.emit(FlowEvent::TimedOut);
        if self.flight.time_out(cx.now) {
            return self.send_syn(cx);
        }
        self.law.handle_loss(self.flight.highest());
        self.empty_sent = false;
        self.keep_timer(cx);
        self.ask(cx);
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, T>) -> Option<Packet> {
        self.asked = false;
        let (seq, len, flags) = self.send_segment(cx)?;
        self.ask(cx);
        Some(self.packet(seq, len, flags, cx.now))
    }
}
