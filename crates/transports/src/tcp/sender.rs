//! The sending end: connects, keeps the window full, recovers from loss.

use super::congestion::{Feedback, Law, Reaction, Window};
use super::header::{TCP_IP_HEADER_BYTES, TcpFlags, TcpHeader};
use super::{RttEstimator, TcpHost};
use punctual_core::{
    Class, Endpoint, FlowEvent, FlowId, FlowRoute, FlowSpec, Header, HostCx, HostId, Instant,
    Packet, PacketFlags, Transport,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A SYN is on its way.
    Connecting,
    /// Data may go.
    Open,
    /// One segment at a time is being repaired, until `recover` is acknowledged.
    Recovering,
}

/// State of a flow's sending end.
#[derive(Clone, Debug)]
pub struct TcpSender<L: Law> {
    flow: FlowId,
    receiver: HostId,
    path: u32,
    class: Class,
    size_bytes: u64,
    mss_bytes: u64,
    phase: Phase,
    /// First byte not acknowledged.
    una: u64,
    /// Next byte to send in order; falls back to `una` at a timeout.
    next: u64,
    /// First byte never sent.
    highest: u64,
    /// While recovering, the acknowledgement that ends it; otherwise duplicate ACKs below it are
    /// echoes of a recovery and mean no new loss.
    recover: u64,
    duplicates: u32,
    /// The segment at `una` goes before anything else.
    resend: bool,
    /// An acknowledgement of this recovery has restarted the timer.
    partial_acked: bool,
    /// The one segment of an empty flow has been sent.
    empty_sent: bool,
    window: Window,
    rtt: RttEstimator,
    /// When the oldest data in flight is given up for lost.
    rto_at: Option<Instant>,
    /// When the driver will call; not later than `rto_at`, so that an acknowledgement need not
    /// move the driver's timer.
    timer_at: Option<Instant>,
    /// The driver has been asked for a turn at the NIC.
    asked: bool,
    law: L,
}

impl<L: Law> TcpSender<L> {
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
            mss_bytes: host.mss_bytes,
            phase: if settings.handshake { Phase::Connecting } else { Phase::Open },
            una: 0,
            next: 0,
            highest: 0,
            recover: 0,
            duplicates: 0,
            resend: false,
            partial_acked: false,
            empty_sent: false,
            window: Window::new(
                host.mss_bytes,
                settings.initial_window,
                settings.initial_ssthresh,
                settings.window_max,
            ),
            rtt: RttEstimator::new(&settings),
            rto_at: None,
            timer_at: None,
            asked: false,
            law: L::new(&host.law, flow),
        };
        match sender.phase {
            Phase::Connecting => sender.send_syn(cx),
            _ => sender.ask(cx),
        }
        sender
    }

    /// The congestion window.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// The round-trip time and timeout.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// The control law.
    pub fn law(&self) -> &L {
        &self.law
    }

    /// Bytes acknowledged so far.
    pub fn acked_bytes(&self) -> u64 {
        self.una
    }

    /// Bytes sent and not acknowledged, those given up for lost apart.
    pub fn flight_bytes(&self) -> u64 {
        self.next - self.una
    }

    /// Whether losses of one window are being repaired.
    pub fn in_recovery(&self) -> bool {
        self.phase == Phase::Recovering
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
        self.rto_at = Some(cx.now + self.rtt.timeout());
        self.keep_timer(cx);
    }

    /// Makes sure that the driver calls no later than the timeout.
    #[inline]
    fn keep_timer<T: Transport>(&mut self, cx: &mut HostCx<'_, T>) {
        if let Some(at) = self.rto_at
            && self.timer_at.is_none_or(|timer_at| timer_at > at)
        {
            self.timer_at = Some(at);
            cx.set_timer(at);
        }
    }

    #[inline]
    fn has_outstanding(&self) -> bool {
        self.next > self.una || self.empty_sent
    }

    #[inline]
    fn restart_timer<T: Transport>(&mut self, cx: &mut HostCx<'_, T>) {
        self.rto_at = self.has_outstanding().then(|| cx.now + self.rtt.timeout());
        self.keep_timer(cx);
    }

    /// First byte and length of the segment that may go now.
    #[inline]
    fn next_segment(&self) -> Option<(u64, u64)> {
        if self.phase == Phase::Connecting {
            return None;
        }
        if self.resend {
            return Some((self.una, self.mss_bytes.min(self.size_bytes - self.una)));
        }
        if self.next == self.size_bytes {
            return (self.size_bytes == 0 && !self.empty_sent).then_some((0, 0));
        }
        let len = self.mss_bytes.min(self.size_bytes - self.next);
        let mut allowed = self.window.cwnd_bytes();
        if self.phase == Phase::Open {
            // TCP-R08
            allowed =
                self.window.bound(allowed + u64::from(self.duplicates.min(2)) * self.mss_bytes);
        }
        let flight = self.flight_bytes();
        (flight == 0 || flight + len <= allowed).then_some((self.next, len))
    }

    /// Asks for a turn at the NIC if there is something to send.
    #[inline]
    fn ask<T: Transport>(&mut self, cx: &mut HostCx<'_, T>) {
        if !self.asked && self.next_segment().is_some() {
            self.asked = true;
            cx.ready(self.class);
        }
    }

    fn handle_syn_ack<T: Transport<Shared = TcpHost<L>>>(
        &mut self,
        header: &TcpHeader,
        cx: &mut HostCx<'_, T>,
    ) {
        if self.phase != Phase::Connecting {
            return;
        }
        self.phase = Phase::Open;
        self.sample_rtt(header, cx.now);
        self.rtt.end_backoff();
        self.rto_at = None;
        self.ask(cx);
    }

    fn sample_rtt(&mut self, header: &TcpHeader, now: Instant) {
        let sent_at = Instant::from_picos(header.timestamp_picos);
        self.rtt.sample(now.saturating_since(sent_at));
    }

    fn finish<T: Transport>(&mut self, cx: &mut HostCx<'_, T>) {
        self.una = self.size_bytes;
        self.next = self.size_bytes;
        self.rto_at = None;
        cx.clear_timer();
        cx.emit(FlowEvent::Finished);
    }

    fn handle_ack<T: Transport<Shared = TcpHost<L>>>(
        &mut self,
        header: &TcpHeader,
        cx: &mut HostCx<'_, T>,
    ) {
        let newly_acked_bytes = header.ack - self.una;
        let flight_before = self.flight_bytes();
        if newly_acked_bytes == 0 && flight_before == 0 {
            return;
        }
        self.una = header.ack;
        self.next = self.next.max(self.una);
        if newly_acked_bytes > 0 {
            self.sample_rtt(header, cx.now);
            self.rtt.end_backoff();
        }

        let reaction = self.law.handle_ack(
            &Feedback {
                now: cx.now,
                newly_acked_bytes,
                marked: header.has(TcpFlags::MARKED),
                una: self.una,
                next: self.highest,
                cwnd_bytes: self.window.cwnd_bytes(),
                slow_start: self.window.in_slow_start(),
                remaining_bytes: self.size_bytes - self.una,
                smoothed_rtt: self.rtt.smoothed(),
            },
            &cx.shared.law,
        );
        if newly_acked_bytes == 0 {
            self.handle_duplicate(cx.shared.settings.duplicate_acks);
        } else {
            self.duplicates = 0;
        }
        match self.phase {
            Phase::Recovering if newly_acked_bytes > 0 => self.repair(newly_acked_bytes, cx),
            Phase::Recovering => {}
            _ => {
                self.apply(reaction, newly_acked_bytes, flight_before);
                if newly_acked_bytes > 0 {
                    self.restart_timer(cx);
                }
            }
        }
        self.ask(cx);
    }

    /// Moves the window as the law says.
    #[inline]
    fn apply(&mut self, reaction: Reaction, newly_acked_bytes: u64, flight_before: u64) {
        match reaction {
            Reaction::Grow => {
                let cwnd_bytes = self.window.cwnd_bytes();
                // TCP-R05: a window that is not used up is not evidence that more would fit.
                let used = flight_before + self.mss_bytes > cwnd_bytes
                    || (self.window.in_slow_start() && cwnd_bytes < 2 * flight_before);
                if used && newly_acked_bytes > 0 {
                    let burst_packets = if self.una < self.recover { 1 } else { 2 };
                    self.window.grow(newly_acked_bytes, burst_packets);
                }
            }
            Reaction::Hold => {}
            Reaction::EndSlowStart => self.window.end_slow_start(),
            Reaction::Cut { penalty, floor_packets } => self.window.cut(penalty, floor_packets),
        }
    }

    fn handle_duplicate(&mut self, threshold: u32) {
        if self.phase == Phase::Recovering {
            self.window.set(self.window.cwnd_bytes() + self.mss_bytes);
            return;
        }
        if self.una < self.recover {
            return; // TCP-R10: an echo of what was sent again
        }
        self.duplicates = self.duplicates.saturating_add(1);
        if self.duplicates == threshold {
            // TCP-R06
            self.window.halve_threshold(self.flight_bytes());
            self.window.set(self.window.ssthresh_bytes() + u64::from(threshold) * self.mss_bytes);
            self.recover = self.highest;
            self.phase = Phase::Recovering;
            self.partial_acked = false;
            self.resend = true;
            self.law.handle_loss(self.highest);
        }
    }

    /// New data was acknowledged while recovering.
    fn repair<T: Transport>(&mut self, newly_acked_bytes: u64, cx: &mut HostCx<'_, T>) {
        if self.una >= self.recover {
            let flight = self.flight_bytes().max(self.mss_bytes) + self.mss_bytes;
            self.window.set(self.window.ssthresh_bytes().min(flight));
            self.phase = Phase::Open;
            self.resend = false;
            return self.restart_timer(cx);
        }
        // TCP-R07: the next hole shows at once.
        self.resend = true;
        let mut cwnd_bytes = self.window.cwnd_bytes().saturating_sub(newly_acked_bytes);
        if newly_acked_bytes >= self.mss_bytes {
            cwnd_bytes += self.mss_bytes;
        }
        self.window.set(cwnd_bytes);
        if !self.partial_acked {
            self.partial_acked = true;
            self.restart_timer(cx);
        }
    }
}

impl<L: Law, T: Transport<Shared = TcpHost<L>>> Endpoint<T> for TcpSender<L> {
    fn gauges(&self, _shared: &TcpHost<L>, tell: &mut dyn FnMut(&'static str, f64)) {
        tell("cwnd_bytes", self.window.cwnd_bytes() as f64);
        tell("ssthresh_bytes", self.window.ssthresh_bytes() as f64);
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
            return self.handle_syn_ack(&header, cx);
        }
        // Old acknowledgements say nothing new; those of bytes never sent are not ours.
        if header.ack < self.una || header.ack > self.highest || self.phase == Phase::Connecting {
            return;
        }
        if header.has(TcpFlags::COMPLETE) && header.ack == self.size_bytes {
            return self.finish(cx); // TCP-R03
        }
        self.handle_ack(&header, cx);
    }

    fn handle_timeout(&mut self, cx: &mut HostCx<'_, T>) {
        self.timer_at = None;
        match self.rto_at {
            None => return,
            Some(at) if cx.now < at => return self.keep_timer(cx),
            Some(_) => {}
        }
        cx.emit(FlowEvent::TimedOut);
        let first = self.rtt.back_off();
        if self.phase == Phase::Connecting {
            self.window.set(self.mss_bytes);
            return self.send_syn(cx);
        }
        // TCP-R10
        if first {
            self.window.halve_threshold(self.flight_bytes());
        }
        self.window.set(self.mss_bytes);
        self.law.handle_loss(self.highest);
        self.phase = Phase::Open;
        self.next = self.una;
        self.recover = self.highest + 1;
        self.duplicates = 0;
        self.resend = false;
        self.empty_sent = false;
        self.rto_at = Some(cx.now + self.rtt.timeout());
        self.keep_timer(cx);
        self.ask(cx);
    }

    fn poll_transmit(&mut self, cx: &mut HostCx<'_, T>) -> Option<Packet> {
        self.asked = false;
        let (seq, len) = self.next_segment()?;
        let end = seq + len;
        if self.resend {
            self.resend = false;
        } else {
            self.next = end;
        }
        if seq < self.highest {
            cx.emit(FlowEvent::Retransmitted);
        }
        self.highest = self.highest.max(end);
        self.empty_sent = self.size_bytes == 0;
        if self.rto_at.is_none() {
            self.rto_at = Some(cx.now + self.rtt.timeout());
            self.keep_timer(cx);
        }
        let flags = if end == self.size_bytes { TcpFlags::LAST } else { 0 };
        self.ask(cx);
        Some(self.packet(seq, len, flags, cx.now))
    }
}
